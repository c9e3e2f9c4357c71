"""Signals on Postgres.

A signal is sent by one statement. The function in it locks the jobs where they are, and reads what
others have written with snapshots from after the lock. So whatever moves the job at the same time
has been committed and is seen, or comes later and sees the signal. A lone signal for a suspended
job takes a shorter way, which leaves the same (`send_signal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.job.ids import JobId
from holdfast.job.signal import (
    OWN_SIGNALS,
    NewSignal,
    Sent,
    Signal,
    SignalLimits,
    SignalWait,
)
from holdfast.job.state import ENDED
from holdfast.store.postgres.connection import Connections

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
        if len(signals) == 1 and (sent := await self._sent_alone(signals[0], limits, by)):
            return [sent]
        rows = await self._connections.timed(
            "signals/send",
            self._channel,
            [one.id for one in signals],
            [one.name for one in signals],
            [one.value for one in signals],
            [one.key for one in signals],
            [one.before for one in signals],
            limits.number,
            limits.size,
            OWN_SIGNALS,
            by,
        )
        return [_sent(row) for row in rows]

    async def _sent_alone(
        self, one: NewSignal, limits: SignalLimits, by: str | None
    ) -> Sent | None:
        """What became of a signal for a suspended job; None if there is more to it."""
        values = (one.id, one.name, one.value, one.key, one.before)
        bounds = (limits.number, limits.size, OWN_SIGNALS)
        rows = await self._connections.timed(
            "signals/send_one", self._channel, *values, *bounds, by
        )
        woke = rows[0][0]
        return None if woke is None else Sent.WOKE if woke else Sent.KEPT

    async def of(self, ids: Sequence[JobId]) -> dict[JobId, list[Signal]]:
        found: dict[JobId, list[Signal]] = {}
        if ids:
            for row in await self._connections.fetch("signals/of", list(ids)):
                found.setdefault(JobId(row[0]), []).append(to_signal(row))
        return found

    async def waits(self, limit: int, after: str | None = None) -> list[SignalWait]:
        job, _, signal = (after or f"{FIRST_JOB} ").partition(" ")
        rows = await self._connections.fetch("signals/waits", limit, job, signal)
        return [SignalWait(JobId(row[0]), *row[1:]) for row in rows]

    async def wake(self, ids: Sequence[JobId]) -> list[JobId]:
        if not ids:
            return []
        rows = await self._connections.timed("signals/wake", self._channel, sorted(set(ids)), None)
        woken = {row[0] for row in rows}
        return [job for job in dict.fromkeys(ids) if job in woken]


def _sent(row: Iterable[Any]) -> Sent:
    """`fits` is None for a signal that is late, or whose key the job has had. One that would fit
    and is not kept had the key of another of this batch."""
    state, fits, kept, late, woke, *_ = row
    if state is None or state in ENDED:
        return Sent.UNKNOWN if state is None else Sent.ENDED
    if kept:
        return Sent.WOKE if woke else Sent.KEPT
    if late:
        return Sent.LATE
    return Sent.FULL if fits is False else Sent.DUPLICATE


def to_signal(row: Iterable[Any]) -> Signal:
    _, n, name, value, key, taken_by, at = row
    return Signal(n=n, name=name, at=at, value_json=value, key=key, taken_by=taken_by)
