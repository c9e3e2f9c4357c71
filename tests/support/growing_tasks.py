"""Tasks that add to their own flows, in every place where a handler can run."""

from __future__ import annotations

from holdfast.context import Context
from holdfast.declaring.tasks import Tasks
from holdfast.job.retry import Retry

GROWING = Tasks(retry=Retry.never())


@GROWING.task(name="square")
async def square(number: int) -> int:
    return number * number


@GROWING.task(name="add_up")
async def add_up(numbers: list[int]) -> int:
    return sum(numbers)


@GROWING.task(name="report")
async def report(title: str) -> str:
    return title


@GROWING.task(name="grow_loop")
async def grow_loop(ctx: Context, numbers: list[int]) -> None:
    squares = [ctx.flow.add(square, number) for number in numbers]
    ctx.flow.add(add_up, [one.output for one in squares]).named("total").before("report")
    await ctx.flow.extend()


def grow_plainly(ctx: Context, numbers: list[int]) -> None:
    squares = [ctx.flow.add(square, number) for number in numbers]
    ctx.flow.add(add_up, [one.output for one in squares]).named("total").before("report")
    ctx.flow.extend_sync()


@GROWING.task(name="grow_thread")
def grow_thread(ctx: Context, numbers: list[int]) -> None:
    grow_plainly(ctx, numbers)


@GROWING.task(name="grow_process", process=True)
def grow_process(ctx: Context, numbers: list[int]) -> None:
    grow_plainly(ctx, numbers)
