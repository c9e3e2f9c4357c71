"""The read side: whole records, pages, counts. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.job.happening import Happening
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import ErrorEntry, Job, Live, Progress
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.body import BODY, LISTS, SHOWN
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.reading import USUAL_BOUND, WalkBound
from holdfast.store.contract.records import Outcome, Page
from holdfast.store.sqlite.filtering import arms_of, parameters
from holdfast.store.sqlite.rows import (
    STATES,
    readable,
    require_numbers,
    to_datetime,
    to_json,
    to_optional_datetime,
    to_texts,
)
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.telemetry import tallies
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs
from holdfast.store.walks import NO_JOBS, Walk

AHEAD_COUNTED = 1_000
"""How many jobs before a job are counted: beyond that only "many" matters."""
LOOK = 20_000
"""How many jobs a page looks at, unless it is told."""
LOOK_AT_JSON = 10_000
"""The same where Python reads the JSON of every body."""
AFTER_ALL = "\U0010ffff"


class SqliteReading(Verbs):
    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        return await self._writer.read(lambda tx: get(tx, ids))

    async def live(self, ids: Sequence[JobId]) -> list[Live]:
        return await self._writer.read(lambda tx: live(tx, ids))

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        return await self._writer.read(lambda tx: outcomes(tx, ids))

    async def life(self, ids: Sequence[JobId]) -> list[Happening]:
        return await self._writer.read(lambda tx: life(tx, ids))

    async def ahead(self, job_id: JobId) -> int:
        return await self._writer.read(lambda tx: ahead(tx, job_id))

    async def page(
        self, which: JobFilter, limit: int, cursor: str | None = None, look: WalkBound = USUAL_BOUND
    ) -> Page:
        return await self._writer.read(lambda tx: page(tx, which, limit, cursor, look))

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        return await self._writer.read(lambda tx: count(tx, which))


def live(tx: Transaction, ids: Iterable[str]) -> list[Live]:
    return to_live(tx.rows(script("jobs/live"), (to_json(set(ids)),)))


def to_live(rows: Iterable[Sequence[Any]]) -> list[Live]:
    return [job for row in rows if (job := readable(_live, *row)) is not None]


def _live(
    job_id: str, state: str, queue: str, task: str, policy: str, attempts: int, crashes: int,
    fence: int, worker: str | None, cancel: int, ahead: int, claimed_at: int | None, ties: int,
) -> Live:  # fmt: skip
    require_numbers(attempts, crashes, fence, ties)
    return Live(
        JobId(job_id), JobState(state), queue, task, policy, attempts, crashes, fence,
        None if worker is None else WorkerId(worker), bool(cancel), bool(ahead),
        to_optional_datetime(claimed_at), ties,
    )  # fmt: skip


def get(tx: Transaction, ids: Iterable[str], errors: str = "errors") -> list[Job]:
    wanted = (to_json(set(ids)),)
    sql = steps("jobs/get")
    history: dict[str, list[ErrorEntry]] = {}
    for job_id, *error in tx.rows(sql[errors], wanted):
        if (entry := readable(_error, *error)) is not None:
            history.setdefault(job_id, []).append(entry)
    jobs = [readable(_job, row, history) for row in tx.rows(sql["jobs"], wanted)]
    return [job for job in jobs if job is not None]


def _error(
    attempt: int, kind: str, message: str, traceback: str | None, at: int, fingerprint: str | None
) -> ErrorEntry:
    require_numbers(attempt)
    return ErrorEntry(attempt, kind, message, traceback, to_datetime(at), fingerprint)


def ahead(tx: Transaction, job_id: str) -> int:
    [(number,)] = tx.rows(script("jobs/ahead"), (job_id, AHEAD_COUNTED))
    return int(number)


def outcomes(tx: Transaction, ids: Iterable[str]) -> list[Outcome]:
    return [
        Outcome(JobId(job_id), STATES[state], result, reason, fingerprint)
        for job_id, state, result, reason, fingerprint in tx.rows(
            script("jobs/outcomes"), (to_json(sorted(set(ids))),)
        )
    ]


def life(tx: Transaction, ids: Iterable[str]) -> list[Happening]:
    rows = tx.rows(script("jobs/life"), (to_json(set(ids)),))
    return [told for row in rows if (told := readable(_happening, row)) is not None]


def _happening(row: Row) -> Happening:
    (
        job_id, at, what, attempt, fence, worker, claimed_at, due_at, by,
        kind, message, traceback, fingerprint,
    ) = row  # fmt: skip
    require_numbers(attempt, fence)
    return Happening(
        job_id=JobId(job_id),
        at=to_datetime(at),
        what=What(what),
        attempt=attempt,
        fence=fence,
        worker_id=None if worker is None else WorkerId(worker),
        claimed_at=to_optional_datetime(claimed_at),
        due_at=to_optional_datetime(due_at),
        by=by,
        kind=kind,
        message=message,
        traceback=traceback,
        fingerprint=fingerprint,
    )


def page(
    tx: Transaction,
    which: JobFilter,
    limit: int,
    cursor: str | None = None,
    look: WalkBound = USUAL_BOUND,
) -> Page:
    meant, most = _spelled_out(tx, which)
    if not (arms := arms_of(meant)):
        return NO_JOBS
    values = parameters(meant)
    usual = LOOK_AT_JSON if meant.args and values["args_piece"] is None else LOOK
    walk = Walk(limit, cursor, look, usual, most)
    sql = script("jobs/page").replace("{{walk}}", arms)
    while step := walk.step:
        _take(tx, walk, sql, values, step)
    return walk.page(get(tx, walk.ids, "newest errors"), _created_at(tx, walk.stopped_at))


def _spelled_out(tx: Transaction, which: JobFilter) -> tuple[JobFilter, int | None]:
    """The filter without patterns, and how many jobs it means, where the tallies say."""
    if not which.names_tallied:
        return which, None
    there = tallies(tx, which.queues_by_name)
    most = sum(which.counted(there).values())
    return which.spelled_out(there), most if which.is_tallied or not most else None


def _created_at(tx: Transaction, job_id: str | None) -> datetime | None:
    for (at,) in tx.rows(script("jobs/created"), (job_id,)) if job_id else ():
        return to_datetime(at)
    return None


def _take(tx: Transaction, walk: Walk, sql: str, values: dict[str, object], step: int) -> None:
    """One step of a walk."""
    here = {"cursor": walk.cursor or AFTER_ALL, "look": step, "limit": walk.room}
    rows = tx.rows(sql, values | here)
    found = [job_id for job_id, _, _ in rows if job_id is not None]
    [(_, looked_at, last), *_] = rows
    walk.add(found, looked_at, last, ended=looked_at < step and len(found) < walk.room)


def count(tx: Transaction, which: JobFilter) -> dict[JobState, int]:
    if which.is_tallied:
        return which.counted(tallies(tx, which.queues_by_name))
    meant, most = _spelled_out(tx, which)
    arms = arms_of(meant)
    if most == 0 or not arms:
        return {}
    values = parameters(meant) | {"cursor": AFTER_ALL}
    rows = tx.rows(script("jobs/count").replace("{{walk}}", arms), values)
    return {JobState(state): number for state, number in rows}


def _job(row: Row, history: Mapping[str, Sequence[ErrorEntry]]) -> Job:
    (
        job_id, task, created_at, unique_key,
        state, queue, priority, attempts, crashes, fence, ties, cancel_requested_at,
        worker_id, claimed_at, due_at, deadline_at, finished_at, expires_at, reason, result,
        fraction, message, checkpoint, progress_at, *body,
    ) = row  # fmt: skip
    require_numbers(priority, attempts, crashes, fence, ties)
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
