"""One call of one task, run on the spot with real encoding and a recording context."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, assert_never

import msgspec

from holdfast.context import Context
from holdfast.enqueue.maker import JobMaker
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

    must_stop = False

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
    task: Task[..., R], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Ran[R]:
    signature = task.handler.signature
    text = signature.encode(args, kwargs)
    link = RecordingLink()
    call_args, call_kwargs = signature.call_arguments(text, Context(_claimed(task, text), link))
    value = task.function(*call_args, **call_kwargs)
    if inspect.isawaitable(value):
        value = await value
    result = task.read_result(signature.encode_result(value))
    return Ran(result, tuple(link.reports))


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
