"""Failures on SQLite. The one writer counts them in place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from holdfast.job.ids import JobId
from holdfast.job.record import ErrorEntry
from holdfast.store.contract.failures import DEAD_COUNTED, SAMPLE_SECONDS, Behind, Failure
from holdfast.store.sqlite.rows import (
    SECOND,
    to_datetime,
    to_json,
    to_micros,
    to_optional_datetime,
)
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteFailures(Verbs):
    """See `holdfast.store.contract.failures.Failures` for what each verb promises."""

    async def find(
        self,
        fingerprints: Collection[str] = (),
        *,
        tasks: Collection[str] = (),
        since: datetime | None = None,
        muted: bool = True,
        limit: int = 50,
        behind: Behind | None = None,
    ) -> list[Failure]:
        wanted = {
            "fingerprints": to_json(fingerprints) if fingerprints else None,
            "tasks": to_json(tasks) if tasks else None,
            "since": None if since is None else to_micros(since),
            "muted": muted,
            "limit": limit,
            "last_at": None if behind is None else to_micros(behind.last_at),
            "fingerprint": None if behind is None else behind.fingerprint,
            "dead_counted": DEAD_COUNTED,
        }

        def work(tx: Transaction) -> list[Failure]:
            rows = tx.rows(script("failures/find"), {**wanted, "now": tx.now})
            return [_failure(row) for row in rows]

        return await self._writer.read(work)

    async def mute(self, fingerprints: Sequence[str], until: datetime | None) -> list[str]:
        mark = None if until is None else to_micros(until)
        return await self._mark("failures/mute", fingerprints, mark)

    async def note(self, fingerprints: Sequence[str], note: str | None) -> list[str]:
        return await self._mark("failures/note", fingerprints, note)

    async def _mark(
        self, verb: str, fingerprints: Sequence[str], mark: int | str | None
    ) -> list[str]:
        values = {"fingerprints": to_json(fingerprints), "mark": mark}

        def work(tx: Transaction) -> list[str]:
            return sorted(name for (name,) in tx.rows(script(verb), values))

        return await self._writer.write(work) if fingerprints else []

    async def prune(self, limit: int, kept_for: float, most: int) -> int:
        """A look comes first: mostly there is nothing, and a transaction would take the lock."""
        given = {"limit": limit, "most": most}

        def over(tx: Transaction) -> list[Row]:
            times = {"now": tx.now, "kept_since": tx.now - round(kept_for * SECOND)}
            return tx.rows(steps("failures/prune")["over"], {**given, **times})

        def work(tx: Transaction) -> int:
            gone = over(tx)
            tx.each(steps("failures/prune")["failure"], gone)
            tx.each(steps("failures/prune")["sample"], gone)
            return len(gone)

        return await self._writer.write(work) if await self._writer.read(over) else 0


def count_failed(tx: Transaction, errors: Iterable[tuple[JobId, str, ErrorEntry]]) -> None:
    """Count errors of jobs and their tasks by fingerprint. Of several errors of one cause the last
    is offered as the sample."""
    causes: dict[str, dict[str, Any]] = {}
    for job_id, task, error in errors:
        if error.fingerprint is None:
            continue
        before = causes.get(error.fingerprint)
        causes[error.fingerprint] = {
            "fingerprint": error.fingerprint,
            "task": task,
            "kind": error.kind,
            "times": 1 if before is None else before["times"] + 1,
            "job_id": job_id,
            "attempt": error.attempt,
            "message": error.message,
            "traceback": error.traceback,
            "now": tx.now,
            "good_since": tx.now - round(SAMPLE_SECONDS * SECOND),
        }
    tx.each(steps("parts/failed")["count"], causes.values())
    tx.each(steps("parts/failed")["sample"], causes.values())


def _failure(row: Row) -> Failure:
    (
        fingerprint, task, kind, times, first_at, last_at, muted_until, note,
        sampled_at, job_id, attempt, message, traceback, dead,
    ) = row  # fmt: skip
    return Failure(
        fingerprint=fingerprint,
        task=task,
        kind=kind,
        count=times,
        first_at=to_datetime(first_at),
        last_at=to_datetime(last_at),
        dead=dead,
        job_id=JobId(job_id),
        sample=ErrorEntry(attempt, kind, message, traceback, to_datetime(sampled_at), fingerprint),
        muted_until=to_optional_datetime(muted_until),
        note=note,
    )
