"""The job that a handler runs, for the handler and for whatever it calls."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import msgspec

from holdfast.job.headers import decode_headers
from holdfast.job.ids import JobId
from holdfast.job.record import Claimed


class CurrentJob(msgspec.Struct, frozen=True):
    """The job a handler is running, as the handler may read it."""

    id: JobId
    task: str
    queue: str
    priority: int
    tags: tuple[str, ...]
    headers: Mapping[str, Any]
    created_at: datetime
    deadline_at: datetime | None
    attempt: int


class JobHolder:
    """Where a handler sits: a slot of a worker, a child process, a test. `job` is what runs there
    now. A context variable that is set anew for each job would cost a small job more than one
    percent, so each slot sets its own once."""

    __slots__ = ("job",)

    def __init__(self, job: Claimed | None = None) -> None:
        self.job = job


HOLDER: ContextVar[JobHolder] = ContextVar("holdfast-job")


def current_job() -> CurrentJob | None:
    """The job whose handler calls this, however deep: also in the handler's thread or child
    process, and in tasks that it started and waits for. None outside of a handler.

    >>> current_job() is None
    True
    """
    holder = HOLDER.get(None)
    return None if holder is None or holder.job is None else view_of(holder.job)


def view_of(claimed: Claimed) -> CurrentJob:
    headers = decode_headers(claimed.headers)
    return CurrentJob(
        claimed.id,
        claimed.task,
        claimed.queue,
        claimed.priority,
        claimed.tags,
        headers,
        claimed.created_at,
        claimed.deadline_at,
        claimed.attempt,
    )
