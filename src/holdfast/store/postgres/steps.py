"""Steps on Postgres."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.job.checks import LONGEST_WAIT
from holdfast.job.ids import JobId
from holdfast.job.signal import Recalled
from holdfast.job.step import Step, StepRecord
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.signals import to_signal


class PostgresSteps:
    """See `holdfast.store.contract.steps.Steps` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def record(self, records: Sequence[StepRecord]) -> list[bool]:
        if not records:
            return []
        if all(one.takes is None for one in records):
            return await record(self._connections, records)
        return await self._connections.run(
            lambda session: record(session, records), transaction=True
        )

    async def load(self, ids: Sequence[JobId]) -> dict[JobId, list[Step]]:
        found: dict[JobId, list[Step]] = {}
        if ids:
            for row in await self._connections.fetch("steps/load", list(ids)):
                found.setdefault(JobId(row[0]), []).append(_step(row))
        return found

    async def recall(self, ids: Sequence[JobId]) -> dict[JobId, Recalled]:
        found: dict[JobId, Recalled] = {}
        if ids:
            for row in await self._connections.fetch("steps/recall", list(ids)):
                job, is_step, name, n, *_, key, taken_by = row
                of_job = found.setdefault(JobId(job), Recalled([], []))
                if is_step:
                    of_job.steps.append(_step((job, *row[2:14])))
                else:
                    of_job.signals.append(to_signal((job, n, name, row[6], key, taken_by, row[11])))
        return found


async def record(on: Connections | Session, records: Sequence[StepRecord]) -> list[bool]:
    """Write records on a connection of the store, or within the transaction of a session. Records
    that take signals need a transaction. The lease is locked by the first statement, so nothing
    comes between the two."""
    if len(records) == 1 and records[0].takes is None:
        return [await _record_one(on, records[0])]
    first = _first_of_each(records)
    rows = await on.timed(
        "steps/record",
        [one.id for one in first],
        [one.fence for one in first],
        [one.name for one in first],
        [one.n for one in first],
        [one.tries for one in first],
        [one.result for one in first],
        [one.kind for one in first],
        [one.message for one in first],
        [one.version for one in first],
        [None if one.seconds is None else min(one.seconds, LONGEST_WAIT) for one in first],
        [one.awaits for one in first],
        [one.undo for one in first],
    )
    held = {(str(row["job_id"]), row["fence"]) for row in rows}
    if taking := [one for one in first if one.takes and (one.id, one.fence) in held]:
        ids, names = [one.id for one in taking], [one.name for one in taking]
        await on.fetch("signals/take", ids, [one.takes for one in taking], names)
    return [(one.id, one.fence) in held for one in records]


async def _record_one(on: Connections | Session, one: StepRecord) -> bool:
    """The way of a handler whose steps come one after the other, each of which waits for this."""
    rows = await on.timed(
        "steps/record_one",
        one.id,
        one.fence,
        one.name,
        one.n,
        one.tries,
        one.result,
        one.kind,
        one.message,
        one.version,
        None if one.seconds is None else min(one.seconds, LONGEST_WAIT),
        one.awaits,
        one.undo,
    )
    return bool(rows)


def _first_of_each(records: Sequence[StepRecord]) -> Sequence[StepRecord]:
    """One record for each name of an attempt: a statement cannot write one row twice."""
    first = {(one.id, one.fence, one.name): one for one in reversed(records)}
    return records if len(first) == len(records) else list(first.values())


def _step(row: Iterable[Any]) -> Step:
    _, name, n, fence, tries, result, kind, message, version, until, at, awaits, undo = row
    return Step(
        name=name,
        n=n,
        fence=fence,
        tries=tries,
        at=at,
        result_json=result,
        kind=kind,
        message=message,
        version=version,
        until=until,
        awaits=awaits,
        undo=undo,
    )
