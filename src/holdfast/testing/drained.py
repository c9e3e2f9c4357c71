"""What a drain did: how each attempt ended, and why the jobs that are left wait."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Coroutine, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.events import ON_REQUEST, Event, Events
from holdfast.insights.explain import Explanation
from holdfast.job.ends import TryAgain
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.task import Task

FAILURES = ("failed", "retried")
ENDS = ON_REQUEST - {"job.started"}
SHOWN_FAILURES = 10


class Ended(msgspec.Struct, frozen=True):
    """One attempt that a drain ran. `how` is the last word of its event: `succeeded`, `failed`,
    `retried`, `snoozed`, `suspended`, `cancelled`, `expired` or `handed_back`."""

    job_id: JobId
    task: str
    queue: str
    attempt: int
    how: str
    error: str | None = None
    exception: BaseException | None = None
    traceback: str | None = None

    @property
    def is_failure(self) -> bool:
        """Whether an error ended the attempt, also if the job is tried again later. A handler that
        raised `TryAgain` asked for that."""
        return self.how in FAILURES and not isinstance(self.exception, TryAgain)

    def __str__(self) -> str:
        line = f"{self.task} {self.job_id}: attempt {self.attempt} {self.how}"
        return line if self.error is None else f"{line}: {self.error}"


class Drained(msgspec.Struct, frozen=True):
    """What `drain` answers with.

    `ended` has every attempt that ran, in order. `jobs` has their jobs as they are now. `left`
    counts the live jobs that are left, by state; `waiting` explains the newest of them.
    """

    ended: tuple[Ended, ...] = ()
    jobs: tuple[Job, ...] = ()
    left: dict[JobState, int] = {}
    waiting: tuple[Explanation, ...] = ()

    @property
    def attempts(self) -> int:
        return len(self.ended)

    @property
    def states(self) -> dict[JobState, int]:
        """How many of the jobs that ran are in each state now."""
        return dict(Counter(job.state for job in self.jobs))

    @property
    def failures(self) -> tuple[Ended, ...]:
        """The attempts that ended by an error, also if the job is tried again later."""
        return tuple(end for end in self.ended if end.is_failure)

    def of(self, task: Task[..., Any]) -> Drained:
        """The same report for the jobs of one task only. `left` still counts the jobs of all."""
        return Drained(
            tuple(end for end in self.ended if end.task == task.name),
            tuple(job for job in self.jobs if job.task == task.name),
            self.left,
            tuple(one for one in self.waiting if one.job.task == task.name),
        )

    def __str__(self) -> str:
        lines = [f"{self.attempts} attempts ended", *(f"  {end}" for end in self.ended)]
        if self.left:
            lines.append("jobs that wait: " + ", ".join(f"{n} {s}" for s, n in self.left.items()))
            lines += map(_why, self.waiting)
        return "\n".join(lines)


def _why(one: Explanation) -> str:
    facts = "; ".join(reason.fact for reason in one.reasons) or "a worker would claim it now"
    return f"  {one.job.task} {one.job.id} ({one.job.state}): {facts}"


class DrainFailed(AssertionError):
    """Jobs failed while they were drained. `drained` is the whole report. The cause is the
    exception of the handler, or a group of them."""

    def __init__(self, drained: Drained) -> None:
        failures = drained.failures
        lines = [f"  {end}" for end in failures[:SHOWN_FAILURES]]
        if len(failures) > SHOWN_FAILURES:
            lines.append(f"  and {len(failures) - SHOWN_FAILURES} more")
        super().__init__(
            f"{len(failures)} of {drained.attempts} attempts failed (drain(raises=False) reports "
            "them instead):\n" + "\n".join(lines)
        )
        self.drained = drained

    @property
    def origin(self) -> BaseException | None:
        """What to raise this error from. A child process sends only the text of its exception."""
        raised = [end.exception for end in self.drained.failures if end.exception is not None]
        if len(raised) > 1:
            return BaseExceptionGroup("what the handlers raised", raised)
        return raised[0] if raised else None


class Watching(AbstractContextManager["Watching"]):
    """Notes every attempt that ends while it is entered."""

    def __init__(self, events: Events) -> None:
        self.ended: list[Ended] = []
        self._events = events
        self._limit: float = math.inf
        self._over = asyncio.Event()

    def __enter__(self) -> Self:
        self._stop = self._events.subscribe(self._note, *ENDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    async def until(self, work: Coroutine[Any, Any, object], limit: int) -> None:
        """Do the work, but break it off when more attempts than `limit` have ended."""
        self._limit, self._over = limit, asyncio.Event()
        both = asyncio.ensure_future(work), asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not both[0].done():
                tasks = ", ".join(sorted({end.task for end in self.ended[-100:]}))
                problem = f"still not drained after {limit} attempts"
                raise AssertionError(f"{problem}: jobs enqueue jobs for ever ({tasks})")
            both[0].result()
        finally:
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    def _note(self, event: Event) -> None:
        told: Any = event.fields
        failed = event.level >= logging.WARNING
        self.ended.append(
            Ended(
                told["job_id"],
                told["task"],
                told["queue"],
                told["attempt"],
                event.name.removeprefix("job."),
                f"{told['error']}: {told['message']}" if failed else None,
                told["exception"] if failed else None,
                told["traceback"] if failed else None,
            )
        )
        if len(self.ended) > self._limit:
            self._over.set()

    def job_ids(self) -> Iterable[JobId]:
        """The jobs of these attempts, each once, in the order in which they first ended."""
        return dict.fromkeys(end.job_id for end in self.ended)
