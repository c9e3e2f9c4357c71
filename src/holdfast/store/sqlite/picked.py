"""Jobs as a claim reads them from their lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.job.ids import JobId
from holdfast.job.record import Claimed
from holdfast.store.sqlite.rows import readable, to_datetime, to_optional_datetime, to_texts
from holdfast.store.sqlite.transaction import Row

Picked = tuple[int, Claimed]
"""A job, after its arrival number."""


def picked_jobs(rows: Sequence[Row], claimed_at: datetime, free: int) -> list[Picked]:
    """The jobs of these rows; all but the first `free` are claimed ahead. A damaged job stays where
    it is."""
    try:
        return [_picked(row, claimed_at, n >= free) for n, row in enumerate(rows)]
    except TypeError:
        good = [row for row in rows if readable(_picked, row, claimed_at, False) is not None]
        return [_picked(row, claimed_at, n >= free) for n, row in enumerate(good)]


def _picked(row: Row, claimed_at: datetime, ahead: bool) -> Picked:
    """Raises `TypeError` if a text stands where a number belongs."""
    (
        job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
        args, policy, created_at, ready_at, tags, headers, deadline_at, checkpoint,
    ) = row  # fmt: skip
    return seq, Claimed(
        JobId(job_id),
        task,
        queue,
        priority,
        args,
        policy,
        +attempts,
        +crashes,
        fence + 1,
        to_datetime(created_at),
        to_datetime(ready_at),
        claimed_at,
        to_optional_datetime(deadline_at),
        to_texts(tags),
        headers,
        checkpoint,
        ahead,
        ties,
    )
