"""Signals on Valkey: a hash for each job that was sent some. A script sends and wakes, so that
nothing comes between."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.signal import NewSignal, Sent, Signal, SignalLimits, SignalWait
from holdfast.store.contract.signals import wait_cursor
from holdfast.store.valkey.connection import Call, ValkeyVerbs
from holdfast.store.valkey.layout import SignalRow
from holdfast.store.valkey.moments import to_datetime, to_optional_datetime
from holdfast.store.valkey.replies import ids_of, paired
from holdfast.store.valkey.requests import NewSignalRow
from holdfast.store.valkey.rows import known, readable

_to_signal_row = msgspec.msgpack.Decoder(SignalRow).decode
_to_wait = msgspec.msgpack.Decoder(tuple[str, str, str, str, int, int | bool]).decode


class ValkeySignals(ValkeyVerbs):
    """See `holdfast.store.contract.signals.Signals` for what each verb promises."""

    async def send(
        self, signals: Sequence[NewSignal], limits: SignalLimits, by: str | None = None
    ) -> list[Sent]:
        if not signals:
            return []
        places = self._connections.places_by_partition([one.id for one in signals])
        same = {
            "arrival": await self._connections.arrivals(1),
            "by": by or "",
            "most": limits.number,
            "largest": limits.size,
        }
        calls: list[Call] = [
            ("signals/send", partition, {**same, "chosen": [_row(n, signals[n]) for n in mine]})
            for partition, mine in places.items()
        ]
        sent = [Sent.UNKNOWN] * len(signals)
        for mine, answer in zip(
            places.values(), await self._connections.call_each(calls), strict=True
        ):
            for n, word in zip(mine, answer, strict=True):
                sent[n] = Sent(word.decode())
        return sent

    async def of(self, ids: Sequence[JobId]) -> dict[JobId, list[Signal]]:
        wanted = list(dict.fromkeys(ids))
        to = self._connections
        reads = [("HGETALL", to.key(to.partition_of(job), f"sg:{job}")) for job in wanted]
        answers = await to.commands(reads) if reads else []
        some = zip(wanted, answers, strict=True)
        return {job: to_signals(fields) for job, fields in some if fields}

    async def waits(self, limit: int, after: str | None = None) -> list[SignalWait]:
        which = {"most": limit, "behind": after or ""}
        calls: list[Call] = [
            ("signals/waits", partition, which) for partition in self._connections.partitions
        ]
        answers = await self._connections.call_each(calls)
        found = [_wait(row) for answer in answers for row in answer]
        return sorted(found, key=lambda wait: wait_cursor(wait).encode())[:limit]

    async def wake(self, ids: Sequence[JobId]) -> list[JobId]:
        base, found = await self._connections.arrivals(1), set[JobId]()
        calls: list[Call] = [
            (
                "signals/wake",
                partition,
                {"arrival": base, "chosen": [*zip(mine, range(len(mine)), strict=True)]},
            )
            for partition, mine in self._connections.by_partition(ids).items()
        ]
        for answer in await self._connections.call_each(calls):
            found.update(ids_of(answer))
        return [job for job in dict.fromkeys(ids) if job in found]


def _row(n: int, signal: NewSignal) -> NewSignalRow:
    return NewSignalRow(signal.id, signal.name, signal.value, signal.key, n, signal.before or False)


def to_signals(fields: Sequence[bytes]) -> list[Signal]:
    """The signals of a job from its hash, without those that nobody can read."""
    read = [readable(_signal, n, row) for n, row in paired(fields)]
    there = [signal for signal in read if signal is not None]
    return sorted(there, key=lambda signal: signal.n)


def _signal(n: str, blob: bytes) -> Signal:
    row = _to_signal_row(blob)
    return Signal(
        n=int(n),
        name=row.name,
        key=row.key,
        at=to_datetime(row.at),
        value_json=known(row.value),
        taken_by=known(row.taken_by),
    )


def _wait(blob: bytes) -> SignalWait:
    job, task, queue, signal, since, until = _to_wait(blob)
    return SignalWait(
        JobId(job), task, queue, signal, to_datetime(since), to_optional_datetime(until)
    )
