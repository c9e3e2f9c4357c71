"""Tasks that call tasks, in every place where a handler can run."""

from __future__ import annotations

import asyncio

from holdfast.app import App
from holdfast.context import Context
from holdfast.declaring.flows import Flow
from holdfast.declaring.tasks import Tasks
from holdfast.job.retry import Retry

CALLERS = Tasks(retry=Retry(max_attempts=3, base=0, jitter=0))
BUILDER = App("sqlite://")
"""Builds flows; whoever calls them starts them."""


@CALLERS.task(name="double", retry=Retry.never())
async def double(number: int) -> int:
    if number < 0:
        raise ValueError(f"{number} is too little")
    return 2 * number


def built(number: int) -> Flow:
    flow = BUILDER.flow("doubling")
    flow.add(double, flow.add(double, number).output)
    return flow


@CALLERS.task(name="once")
async def once(ctx: Context, number: int) -> int:
    return 1 + await ctx.call(double, number)


@CALLERS.task(name="loop")
async def on_the_loop(ctx: Context, number: int) -> list[object]:
    """All kinds of calls; the first attempt fails after all of them."""
    one, other = await asyncio.gather(ctx.call(double, number), ctx.call(double, number + 1))
    some = await ctx.call_many(double, [(-1,), (number,), {"number": 5}], need=2)
    flow = await ctx.run_flow(built(number))
    if ctx.attempt == 1:
        raise ValueError("again")
    return [one, other, some, flow]


def _all_calls(ctx: Context, number: int) -> list[object]:
    one, other = ctx.call_sync(double, number), ctx.call_sync(double, number + 1)
    some = ctx.call_many_sync(double, [(-1,), (number,), {"number": 5}], need=2)
    flow = ctx.run_flow_sync(built(number))
    if ctx.attempt == 1:
        raise ValueError("again")
    return [one, other, some, flow]


@CALLERS.task(name="thread")
def in_thread(ctx: Context, number: int) -> list[object]:
    return _all_calls(ctx, number)


@CALLERS.task(name="process", process=True)
def in_process(ctx: Context, number: int) -> list[object]:
    return _all_calls(ctx, number)


# Callers that fail after steps that can be undone -------------------------------------------------


@CALLERS.task(name="undo")
async def undo(what: str) -> str:
    return f"undid {what}"


@CALLERS.task(name="undone-in-loop", retry=Retry.never())
async def undone_on_the_loop(ctx: Context) -> None:
    step = ctx.step.using(undo=undo)
    await asyncio.gather(step("a", str, "a"), step("b", str, "b"))
    raise ValueError("for good")


def _undone(ctx: Context) -> None:
    step = ctx.step_sync.using(undo=undo)
    for name in "ab":
        step(name, str, name)
    raise ValueError("for good")


@CALLERS.task(name="undone-in-thread", retry=Retry.never())
def undone_in_thread(ctx: Context) -> None:
    _undone(ctx)


@CALLERS.task(name="undone-in-process", retry=Retry.never(), process=True)
def undone_in_process(ctx: Context) -> None:
    _undone(ctx)
