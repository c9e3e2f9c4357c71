"""Signals on Postgres.

A signal is sent in three statements of one transaction. The first locks the jobs where they are;
the next ones have snapshots from after the lock. So whatever moves the job at the same time has
been committed and is seen, or comes later and sees the signal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from holdfast.errors import StoreUnavailable
from holdfast.job.ids import JobId
from holdfast.job.signal import NewSignal, Sent, Signal, SignalLimits, SignalWait
from holdfast.job.state import ENDED, JobState
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.pool import Record
from holdfast.store.postgres.rows import STATES

LOCK_TRIES = 50
LOCK_AGAIN_SECONDS = 0.005
FIRST_JOB = "00000000-0000-0000-0000-000000000000"


class PostgresSignals:
    """See `holdfast.store.contract.signals.Signals` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._channel = connections.options.channel

    async def send(
        self, signals: Sequence[NewSignal], limits: SignalLimits, by: str | None = None
    ) -> list[Sent]:
        if not signals:
            return []
        ids = list(dict.fromkeys(one.id for one in signals))

        async def work(session: Session) -> list[Sent]:
            states = await _locked(session, ids)
            live = [one for one in signals if states.get(one.id, JobState.FAILED) not in ENDED]
            kept = iter(await _keep(session, live, limits))
            woken = await self._wake(session, {one.id for one in live}, by)
            return [_sent(one, states, kept, woken) for one in signals]

        return await self._connections.run(work, transaction=True)

    async def of(self, ids: Sequence[JobId]) -> dict[JobId, list[Signal]]:
        found: dict[JobId, list[Signal]] = {}
        if ids:
            for row in await self._connections.fetch("signals/of", list(ids)):
                found.setdefault(JobId(row[0]), []).append(_signal(row))
        return found

    async def waits(self, limit: int, after: str | None = None) -> list[SignalWait]:
        job, _, signal = (after or f"{FIRST_JOB} ").partition(" ")
        rows = await self._connections.fetch("signals/waits", limit, job, signal)
        return [SignalWait(JobId(row[0]), *row[1:]) for row in rows]

    async def wake(self, ids: Sequence[JobId]) -> list[JobId]:
        if not ids:
            return []
        woken = await self._connections.run(lambda session: self._wake(session, set(ids), None))
        return [job for job in dict.fromkeys(ids) if job in woken]

    async def _wake(self, session: Session, ids: set[JobId], by: str | None) -> dict[JobId, str]:
        """The jobs that became ready, each with the name of the signal that it waited for."""
        if not ids:
            return {}
        rows = await session.timed("signals/wake", self._channel, sorted(ids), by)
        return {JobId(row[0]): row[1] for row in rows}


async def _locked(session: Session, ids: list[JobId]) -> dict[JobId, JobState]:
    """Lock jobs where they are; answers their states, and nothing for a job that is unknown. A job
    that somebody moves meanwhile is asked for again."""
    states: dict[JobId, JobState] = {}
    for _ in range(LOCK_TRIES):
        rows = await session.fetch("signals/lock", [job for job in ids if job not in states])
        states |= {JobId(row[0]): STATES[row[1]] for row in rows if row[1] is not None}
        if all(row[1] is not None for row in rows):
            return states
        await asyncio.sleep(LOCK_AGAIN_SECONDS)
    raise StoreUnavailable("a job that a signal is for was moved again and again; send it again")


async def _keep(session: Session, signals: Sequence[NewSignal], limits: SignalLimits) -> list[Sent]:
    if not signals:
        return []
    rows = await session.timed(
        "signals/send",
        [one.id for one in signals],
        [one.name for one in signals],
        [one.value for one in signals],
        [one.key for one in signals],
        limits.number,
        limits.size,
        [one.before for one in signals],
    )
    return [_judged(fits=row[0], kept=row[1], late=row[2]) for row in rows]


def _judged(*, fits: bool | None, kept: bool, late: bool) -> Sent:
    """`fits` is None for a signal that is late, or whose key the job has had. One that would fit
    and is not kept had the key of another of this batch."""
    if kept:
        return Sent.KEPT
    if late:
        return Sent.LATE
    return Sent.FULL if fits is False else Sent.DUPLICATE


def _sent(
    signal: NewSignal,
    states: dict[JobId, JobState],
    kept: Iterator[Sent],
    woken: dict[JobId, str],
) -> Sent:
    """The first signal of a batch that its job was suspended for has woken the job."""
    if signal.id not in states:
        return Sent.UNKNOWN
    sent = Sent.ENDED if states[signal.id] in ENDED else next(kept)
    if sent is Sent.KEPT and woken.get(signal.id) == signal.name:
        del woken[signal.id]
        return Sent.WOKE
    return sent


def _signal(row: Record) -> Signal:
    _, n, name, value, key, taken_by, at = row
    return Signal(n=n, name=name, at=at, value_json=value, key=key, taken_by=taken_by)
