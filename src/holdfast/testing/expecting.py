"""Which jobs a test expects: some arguments of a call, and the options that `using` named.

Options are compared by making the job that the expected call would enqueue, so every option means
here what it means at an enqueue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from holdfast.codec.signature import Signature
from holdfast.enqueue.maker import JobMaker
from holdfast.job.checks import check_job_id
from holdfast.job.ids import JobId
from holdfast.job.json_text import shown_value
from holdfast.job.policy import Policy, decode_policy
from holdfast.job.record import Job, NewJob
from holdfast.job.state import JobState
from holdfast.task import Task

POLICY = ("timeout", "retry", "max_crashes", "retention", "keep_result")
SHOWN_JOBS = 20


class Expected:
    """The jobs of one task that have these arguments, and the options that `using` named."""

    def __init__(
        self,
        task: Task[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        now: datetime,
        tolerance: timedelta,
    ) -> None:
        self._task = task
        self._arguments = task.codec.some(args, kwargs)
        signature = task.codec if isinstance(task.codec, Signature) else None
        self._maker = JobMaker(task.name, task.options, signature)
        self._now = now
        self._tolerance = tolerance

    @property
    def job_id(self) -> JobId | None:
        own = self._task.options.id
        return None if own is None else check_job_id(own)

    def first(self, jobs: list[Job]) -> Job | None:
        return next((job for job in jobs if not self.differences(job)), None)

    def differences(self, job: Job) -> list[str]:
        """The names of the arguments and options in which the job differs."""
        has, stored = self._task.codec.has, job.args_json
        wrong = [name for name, value in self._arguments.items() if not has(stored, name, value)]
        wanted = self._maker.make(stored)
        named = (name for name in CHECKS if name in self._task.named)
        return wrong + [name for name in named if not CHECKS[name](self, wanted, job)]

    def is_about(self, wanted: datetime | None, has: datetime | None) -> bool:
        if wanted is None or has is None:
            return wanted is has
        return abs(wanted - has) <= self._tolerance

    def is_due(self, wanted: NewJob, job: Job) -> bool:
        """A job whose time has come is ready, and has no due time any more."""
        due = wanted.run_at
        if wanted.delay is not None:
            due = job.created_at + timedelta(seconds=wanted.delay)
        if job.due_at is None and job.state is not JobState.SUSPENDED:
            return due is None or due <= self._now + self._tolerance
        return self.is_about(due, job.due_at)

    def __str__(self) -> str:
        options = ", ".join(
            f"{name}={getattr(self._task.options, name)!r}" for name in sorted(self._task.named)
        )
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items())
        using = f".using({options})" if options else ""
        return f"{self._task.name}{using}({arguments})"

    def listed(self, jobs: list[Job]) -> str:
        """What there is, nearest first, with what is wrong about each."""
        found = sorted(((self.differences(job), job) for job in jobs), key=lambda it: len(it[0]))
        lines = [f"  {_shown(job)}  ← other {', '.join(wrong)}" for wrong, job in found]
        if len(lines) > SHOWN_JOBS:
            lines[SHOWN_JOBS:] = [f"  and {len(lines) - SHOWN_JOBS} more"]
        return "\n".join(lines) or "  none"


def _shown(job: Job) -> str:
    options = [f"queue={job.queue!r}"]
    options += [f"due_at={job.due_at.isoformat()}"] if job.due_at else []
    options += [f"priority={job.priority}"] if job.priority else []
    options += [f"tags={list(job.tags)}"] if job.tags else []
    options += [f"unique={job.unique_key!r}"] if job.unique_key else []
    return f"{job.state}: {job.args_json} {' '.join(options)}"


Check = Callable[[Expected, NewJob, Job], bool]


def _deadline(expected: Expected, wanted: NewJob, job: Job) -> bool:
    by = wanted.deadline_at
    if wanted.deadline_in is not None:
        by = job.created_at + timedelta(seconds=wanted.deadline_in)
    kind = decode_policy(wanted.policy).start_only == decode_policy(job.policy).start_only
    return kind and expected.is_about(by, job.deadline_at)


def _unique(expected: Expected, wanted: NewJob, job: Job) -> bool:
    return job.unique_key == (None if wanted.unique is None else wanted.unique.key)


def _headers(expected: Expected, wanted: NewJob, job: Job) -> bool:
    few = {} if wanted.headers is None else shown_value(wanted.headers)
    return bool(few.items() <= job.headers.items())


def _policy(name: str) -> Check:
    def same(expected: Expected, wanted: NewJob, job: Job) -> bool:
        policies: list[Policy] = [decode_policy(wanted.policy), decode_policy(job.policy)]
        return bool(getattr(policies[0], name) == getattr(policies[1], name))

    return same


CHECKS: Mapping[str, Check] = {
    "queue": lambda _, wanted, job: job.queue == wanted.queue,
    "priority": lambda _, wanted, job: job.priority == wanted.priority,
    "delay": Expected.is_due,
    "run_at": Expected.is_due,
    "deadline": _deadline,
    "start_by": _deadline,
    "unique": _unique,
    "tags": lambda _, wanted, job: set(wanted.tags) <= set(job.tags),
    "headers": _headers,
    "id": lambda expected, _, job: job.id == expected.job_id,
    **{name: _policy(name) for name in POLICY},
}
"""How each option is compared. `connection` only says who wrote the job."""
