"""One call of one task, run on the spot with real encoding and a recording context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.enqueue.maker import JobMaker
from holdfast.handlers.inline import InlineAttempt, Plainly
from holdfast.handlers.registry import Handler
from holdfast.job import checks
from holdfast.job.record import Progress
from holdfast.task import Task

R = TypeVar("R")


class Ran(msgspec.Struct, Generic[R], frozen=True):
    """What a handler returned (as it reads back from JSON), the progress it reported, and what it
    reported of budgets, by limit."""

    result: R
    progress: tuple[Progress, ...]
    spent: Mapping[str, int]


class Which(msgspec.Struct, frozen=True):
    """Which attempt of a job is run: its number, and what an earlier one saved as its checkpoint
    (any JSON)."""

    number: int = 1
    checkpoint: Any = None

    def __post_init__(self) -> None:
        checks.count("attempt", self.number)


FIRST = Which()


async def run_inline(
    task: Task[..., R],
    handler: Handler,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    which: Which,
    plainly: Plainly,
) -> Ran[R]:
    """Run one call of the task. `handler` is the task's own, with what lies around it. `plainly`
    calls a plain function."""
    text = handler.signature.encode(args, kwargs)
    job = JobMaker(task.name, task.options, handler.signature).make(text)
    saved = None if which.checkpoint is None else msgspec.json.encode(which.checkpoint).decode()
    attempt = InlineAttempt(handler, job, number=which.number, checkpoint=saved)
    result = task.read_result(await attempt.run(plainly))
    return Ran(result, tuple(attempt.reports), attempt.spent)
