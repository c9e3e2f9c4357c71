"""Tasks that return flows, in every place where a handler can run."""

from __future__ import annotations

from holdfast.app import App
from holdfast.context import Context
from holdfast.declaring.flows import Flow
from holdfast.declaring.tasks import Tasks
from holdfast.job.retry import Retry

PARENTS = Tasks(retry=Retry.never())
BUILDER = App("sqlite://")
"""Builds flows; whoever runs the job starts them."""


@PARENTS.task(name="double")
async def double(number: int) -> int:
    return 2 * number


def build(number: int) -> Flow:
    flow = BUILDER.flow("doubling")
    flow.add(double, flow.add(double, number).output)
    return flow


@PARENTS.flow_task(name="loop")
async def in_loop(ctx: Context, number: int) -> Flow:
    return build(number)


@PARENTS.flow_task(name="thread")
def in_thread(number: int) -> Flow:
    return build(number)


@PARENTS.flow_task(name="process", process=True)
def in_process(ctx: Context, number: int) -> Flow:
    return build(number)
