"""Signals on SQLite. There is one writer, so nothing comes between a look and what follows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.job.ids import JobId
from holdfast.job.signal import (
    OWN_SIGNALS,
    NewSignal,
    Sent,
    Signal,
    SignalLimits,
    SignalWait,
)
from holdfast.job.state import ENDED, JobState
from holdfast.job.ties import Tie
from holdfast.job.what import What
from holdfast.store.sqlite.happenings import tell, waiting
from holdfast.store.sqlite.places import InPlace, at, in_places, make_ready
from holdfast.store.sqlite.rows import to_datetime, to_json, to_optional_datetime
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteSignals(Verbs):
    """See `holdfast.store.contract.signals.Signals` for what each verb promises."""

    async def send(
        self, signals: Sequence[NewSignal], limits: SignalLimits, by: str | None = None
    ) -> list[Sent]:
        if not signals:
            return []
        return await self._writer.write(lambda tx: send(tx, signals, limits, by))

    async def of(self, ids: Sequence[JobId]) -> dict[JobId, list[Signal]]:
        if not ids:
            return {}
        wanted = (to_json(dict.fromkeys(ids)),)
        found: dict[JobId, list[Signal]] = {}
        for row in await self._writer.read(lambda tx: tx.rows(script("signals/of"), wanted)):
            found.setdefault(JobId(row[0]), []).append(to_signal(row))
        return found

    async def waits(self, limit: int, after: str | None = None) -> list[SignalWait]:
        job, _, signal = (after or "").partition(" ")
        which = {"limit": limit, "job": job, "signal": signal}
        rows = await self._writer.read(lambda tx: tx.rows(script("signals/waits"), which))
        return [_wait(row) for row in rows]

    async def wake(self, ids: Sequence[JobId]) -> list[JobId]:
        if not ids:
            return []
        woken = await self._writer.write(lambda tx: wake(tx, ids, None))
        return [job for job in dict.fromkeys(ids) if job in woken]


def send(
    tx: Transaction, signals: Sequence[NewSignal], limits: SignalLimits, by: str | None
) -> list[Sent]:
    wanted = to_json({one.id for one in signals})
    rows = tx.rows(steps("signals/send")["places"], (wanted,))
    places = {JobId(job): JobState(state) for job, state, _ in rows}
    untied = {JobId(job) for job, _, ties in rows if not ties & Tie.STEPS}
    sent = [_keep(tx, one, places.get(one.id), limits) for one in signals]
    kept = {one.id for one, how in zip(signals, sent, strict=True) if how is Sent.KEPT}
    _tie(tx, {job: places[job] for job in kept & untied})
    woken = wake(tx, kept, by)
    return [
        Sent.WOKE if how is Sent.KEPT and _is_first(woken, one) else how
        for one, how in zip(signals, sent, strict=True)
    ]


def wake(tx: Transaction, ids: Iterable[JobId], by: str | None) -> dict[JobId, str]:
    """Make those jobs ready that are suspended for a kept signal; answers its name for each."""
    rows = tx.rows(script("signals/wake"), (to_json(ids),))
    first = {row[2]: row for row in reversed(rows)}
    jobs: list[InPlace] = in_places(row[1:] for row in first.values())
    if not jobs:
        return {}
    make_ready(tx, jobs, What.RESUMED)
    told = [waiting(row, What.RESUMED, by, f"signal {first[row.job_id][0]}") for _, row in jobs]
    tell(tx, told)
    return {JobId(job): row[0] for job, row in first.items()}


def met(tx: Transaction, ids: Iterable[JobId]) -> set[JobId]:
    """Which of these running jobs have recorded a wait for a signal that is kept."""
    return {JobId(job) for (job,) in tx.rows(steps("signals/send")["met"], (to_json(ids),))}


def _keep(tx: Transaction, signal: NewSignal, place: JobState | None, limits: SignalLimits) -> Sent:
    if place is None or place in ENDED:
        return Sent.UNKNOWN if place is None else Sent.ENDED
    sql = steps("signals/send")
    if tx.rows(sql["known key"], (signal.id, signal.key)):
        return Sent.DUPLICATE
    if signal.before is not None and tx.rows(sql["ended step"], (signal.id, signal.before)):
        return Sent.LATE
    [(number, last, size)] = tx.rows(sql["totals"], {"job": signal.id, "own": OWN_SIGNALS})
    if number >= limits.number or size + len(signal.value.encode()) > limits.size:
        return Sent.FULL
    tx.run(sql["keep"], (signal.id, last + 1, signal.name, signal.value, signal.key, tx.now))
    return Sent.KEPT


def _tie(tx: Transaction, places: dict[JobId, JobState]) -> None:
    for place in set(places.values()):
        tx.run(at("signals/tie", place), (to_json(job for job in places if places[job] is place),))


def _is_first(woken: dict[JobId, str], signal: NewSignal) -> bool:
    """Whether this is the first signal of a batch that its job was suspended for."""
    if woken.get(signal.id) != signal.name:
        return False
    del woken[signal.id]
    return True


def to_signal(row: Row) -> Signal:
    _, n, name, value, key, taken_by, at = row
    return Signal(n=n, name=name, at=to_datetime(at), value_json=value, key=key, taken_by=taken_by)


def _wait(row: Row) -> SignalWait:
    job, task, queue, signal, since, until = row
    return SignalWait(
        JobId(job), task, queue, signal, to_datetime(since), to_optional_datetime(until)
    )
