"""One call of one task, run on the spot with real encoding and a recording context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.enqueue.maker import JobMaker
from holdfast.handlers.inline import InlineAttempt, on_the_spot
from holdfast.handlers.registry import Handler
from holdfast.job.record import Progress
from holdfast.task import Task

R = TypeVar("R")


class Ran(msgspec.Struct, Generic[R], frozen=True):
    """What a handler returned (as it reads back from JSON) and the progress it reported."""

    result: R
    progress: tuple[Progress, ...]


async def run_inline(
    task: Task[..., R], handler: Handler, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Ran[R]:
    """Run one call of the task. `handler` is the task's own, with what lies around it. A plain
    function runs in the test's own thread."""
    text = handler.signature.encode(args, kwargs)
    job = JobMaker(task.name, task.options, handler.signature).make(text)
    attempt = InlineAttempt(handler, job)
    result = task.read_result(await attempt.run(on_the_spot))
    return Ran(result, tuple(attempt.reports))
