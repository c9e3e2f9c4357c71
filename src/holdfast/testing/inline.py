"""One call of one task, run on the spot with real encoding and a recording context."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, TypeVar, assert_never

import msgspec

from holdfast.context import HOLDER, Context, JobHolder
from holdfast.enqueue.maker import JobMaker
from holdfast.handlers.registry import Handler
from holdfast.job.ids import new_job_id
from holdfast.job.record import Claimed, Progress
from holdfast.job.requests import Answer, ProgressKept, ReportProgress, Request
from holdfast.task import Task

R = TypeVar("R")


class Ran(msgspec.Struct, Generic[R], frozen=True):
    """What a handler returned (as it reads back from JSON) and the progress it reported."""

    result: R
    progress: tuple[Progress, ...]


class RecordingLink:
    """Answers as a worker whose store takes everything, and keeps what the handler reported."""

    must_stop = is_over = False

    def __init__(self) -> None:
        self.reports: list[Progress] = []

    async def ask(self, request: Request) -> Answer:
        return self.ask_sync(request)

    def ask_sync(self, request: Request) -> Answer:
        match request:
            case ReportProgress(progress):
                self.reports.append(progress)
                return ProgressKept()
        assert_never(request)


async def run_inline(
    task: Task[..., R], handler: Handler, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Ran[R]:
    """Run one call of the task. `handler` is the task's own, with what lies around it."""
    signature = handler.signature
    text = signature.encode(args, kwargs)
    link, claimed = RecordingLink(), _claimed(task, text)
    context = Context(claimed, link)
    call_args, call_kwargs = signature.call_arguments(text, context)
    holder = HOLDER.set(JobHolder(claimed))
    try:
        value = await _called(
            handler, context, partial(handler.function, *call_args, **call_kwargs)
        )
    finally:
        HOLDER.reset(holder)
    result = task.read_result(signature.encode_result(value))
    return Ran(result, tuple(link.reports))


async def _called(handler: Handler, context: Context, function: Callable[..., Any]) -> Any:
    """What the function returns inside its surroundings. A plain function runs here too, in the
    test's own thread."""
    around = handler.surroundings
    if around is None:
        return await _awaited(function())

    async def call(resources: Mapping[str, Any]) -> Any:
        return await _awaited(around.inside(context, partial(function, **resources))())

    return await around.run(context, call)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _claimed(task: Task[..., Any], text: str) -> Claimed:
    job = JobMaker(task.name, task.options, task.handler.signature).make(text)
    now = datetime.now(UTC)
    return Claimed(
        id=new_job_id(),
        task=job.task,
        queue=job.queue,
        priority=job.priority,
        args=text,
        policy=job.policy,
        attempts=0,
        crashes=0,
        fence=1,
        created_at=now,
        claimed_at=now,
        deadline_at=job.deadline_at,
        tags=job.tags,
        headers=job.headers,
        checkpoint=None,
    )
