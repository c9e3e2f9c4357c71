"""The read side: whole records, pages, counts. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import ErrorEntry, Job, Live, Progress
from holdfast.job.state import ENDED, JobState
from holdfast.store.body import BODY, LISTS, SHOWN
from holdfast.store.contract.records import JobFilter, Outcome, Page
from holdfast.store.sqlite.rows import (
    to_datetime,
    to_json,
    to_micros,
    to_optional_datetime,
    to_texts,
)
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.telemetry import tallies
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs

AHEAD_COUNTED = 1_000
"""How many jobs before a job are counted: beyond that only "many" matters."""
AFTER_ALL = "\U0010ffff"


class SqliteReading(Verbs):
    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        return await self._writer.read(lambda tx: get(tx, ids))

    async def live(self, ids: Sequence[JobId]) -> list[Live]:
        return await self._writer.read(lambda tx: live(tx, ids))

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        return await self._writer.read(lambda tx: outcomes(tx, ids))

    async def ahead(self, job_id: JobId) -> int:
        return await self._writer.read(lambda tx: ahead(tx, job_id))

    async def page(self, which: JobFilter, limit: int, cursor: str | None = None) -> Page:
        return await self._writer.read(lambda tx: page(tx, which, limit, cursor))

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        return await self._writer.read(lambda tx: count(tx, which))


def live(tx: Transaction, ids: Iterable[str]) -> list[Live]:
    return to_live(tx.rows(script("jobs/live"), (to_json(set(ids)),)))


def to_live(rows: Iterable[Sequence[Any]]) -> list[Live]:
    return [
        Live(
            JobId(job_id), JobState(state), queue, task, policy, attempts, crashes, fence,
            None if worker is None else WorkerId(worker), bool(cancel), bool(ahead),
            to_optional_datetime(claimed_at), ties,
        )
        for (
            job_id, state, queue, task, policy, attempts, crashes, fence, worker, cancel, ahead,
            claimed_at, ties,
        ) in rows
    ]  # fmt: skip


def get(tx: Transaction, ids: Iterable[str], errors: str = "errors") -> list[Job]:
    wanted = (to_json(set(ids)),)
    sql = steps("jobs/get")
    history: dict[str, list[ErrorEntry]] = {}
    for job_id, attempt, kind, message, traceback, at in tx.rows(sql[errors], wanted):
        entry = ErrorEntry(attempt, kind, message, traceback, to_datetime(at))
        history.setdefault(job_id, []).append(entry)
    return [_job(row, history) for row in tx.rows(sql["jobs"], wanted)]


def ahead(tx: Transaction, job_id: str) -> int:
    [(number,)] = tx.rows(script("jobs/ahead"), (job_id, AHEAD_COUNTED))
    return int(number)


def outcomes(tx: Transaction, ids: Iterable[str]) -> list[Outcome]:
    return [
        Outcome(JobId(job_id), JobState(state), result, reason)
        for job_id, state, result, reason in tx.rows(script("jobs/outcomes"), (to_json(set(ids)),))
    ]


def page(tx: Transaction, which: JobFilter, limit: int, cursor: str | None) -> Page:
    """Reads one job more than `limit`: if there is one, there is a next page."""
    values = {**_filters(which), "cursor": cursor or AFTER_ALL, "limit": limit + 1}
    ids = [job_id for (job_id,) in tx.rows(script("jobs/page"), values)]
    jobs = sorted(get(tx, ids[:limit], "newest errors"), key=lambda job: job.id, reverse=True)
    return Page(tuple(jobs), ids[limit - 1] if len(ids) > limit > 0 else None)


def count(tx: Transaction, which: JobFilter) -> dict[JobState, int]:
    if which.is_tallied:
        return which.counted(tallies(tx, which.queues))
    rows = tx.rows(script("jobs/count"), _filters(which))
    return {JobState(state): number for state, number in rows}


def _filters(which: JobFilter) -> dict[str, object]:
    def listed(values: Sequence[str] | frozenset[JobState]) -> str | None:
        return to_json(values) if values else None

    after, before = which.created_after, which.created_before
    return {
        "ids": listed(which.ids),
        "states": listed(which.states),
        "queues": listed(which.queues),
        "tasks": listed(which.tasks),
        "tag": which.tag,
        "created_after": None if after is None else to_micros(after),
        "created_before": None if before is None else to_micros(before),
        "error_text": which.error_text or None,
        "ended": not which.states or not which.states.isdisjoint(ENDED),
    }


def _job(row: Row, history: Mapping[str, Sequence[ErrorEntry]]) -> Job:
    (
        job_id, task, created_at, unique_key,
        state, queue, priority, attempts, crashes, fence, ties, cancel_requested_at,
        worker_id, claimed_at, due_at, deadline_at, finished_at, expires_at, reason, result,
        fraction, message, checkpoint, progress_at, *body,
    ) = row  # fmt: skip
    progress = None
    if progress_at is not None:
        progress = Progress(fraction, message, checkpoint, to_datetime(progress_at))
    return Job(
        id=JobId(job_id),
        task=task,
        queue=queue,
        state=JobState(state),
        priority=priority,
        created_at=to_datetime(created_at),
        attempts=attempts,
        crashes=crashes,
        fence=fence,
        ties=ties,
        unique_key=unique_key,
        deadline_at=to_optional_datetime(deadline_at),
        due_at=to_optional_datetime(due_at),
        worker_id=None if worker_id is None else WorkerId(worker_id),
        claimed_at=to_optional_datetime(claimed_at),
        cancel_requested_at=to_optional_datetime(cancel_requested_at),
        finished_at=to_optional_datetime(finished_at),
        expires_at=to_optional_datetime(expires_at),
        result_json=result,
        reason=reason,
        progress=progress,
        errors=tuple(history.get(job_id, ())),
        **_body(body),
    )


def _body(values: Sequence[Any]) -> dict[str, Any]:
    named = zip(BODY, values, strict=True)
    return {SHOWN[name]: to_texts(value) if name in LISTS else value for name, value in named}
