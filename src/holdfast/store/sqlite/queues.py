"""`Queues` on SQLite: their settings, and how many jobs each has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.job.state import JobState
from holdfast.store.contract.queues import EVERY_QUEUE, Paused, QueueInfo, QueueSettings
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.rows import seconds_until
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.telemetry import tallies
from holdfast.store.sqlite.totals import count_total
from holdfast.store.sqlite.transaction import MANY, Row, Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteQueues(Verbs):
    async def ensure(self, queues: Mapping[str, QueueSettings]) -> None:
        if queues:
            await self._writer.write(lambda tx: _ensure(tx, queues))

    async def pause(self, names: Sequence[str]) -> None:
        await self._change("pause", names, Topic.PAUSED)

    async def resume(self, names: Sequence[str]) -> None:
        await self._change("resume", names, Topic.READY)

    async def paused(self) -> Paused:
        return await self._writer.read(
            lambda tx: Paused.named(name for (name,) in tx.rows(script("queues/paused")))
        )

    async def tune(self, name: str, settings: QueueSettings) -> None:
        def work(tx: Transaction) -> None:
            _ensure(tx, {name: settings})
            [(text,)] = tx.rows(script("queues/settings"), (name,))
            tx.run(script("queues/tune"), (settings.to_json(), name))
            if settings.max_running != QueueSettings.from_json(text).max_running:
                count_total(tx, name, settings.max_running)

        await self._writer.write(work)

    async def waiting(self) -> Sequence[str]:
        return await self._writer.read(
            lambda tx: [name for (name,) in tx.rows(script("queues/waiting"))]
        )

    async def find(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        return await self._writer.read(lambda tx: _list(tx, names))

    async def _change(self, step: str, names: Sequence[str], topic: Topic) -> None:
        def work(tx: Transaction) -> None:
            _ensure(tx, dict.fromkeys(names, QueueSettings()))
            tx.each(script(f"queues/{step}"), [(name,) for name in names])
            for name in names:
                tx.wake(topic, name, MANY)

        if names:
            await self._writer.write(work)


def _ensure(tx: Transaction, queues: Mapping[str, QueueSettings]) -> None:
    """Those that are absent are added."""
    rows = [(name, settings.to_json()) for name, settings in queues.items()]
    tx.each(script("queues/ensure"), rows)
    for name, settings in queues.items():
        if settings.max_running is not None:
            count_total(tx, name, settings.max_running)


def _list(tx: Transaction, names: Sequence[str]) -> list[QueueInfo]:
    sql = steps("queues/find")
    known = {row[0]: row for row in tx.rows(sql["settings"], (EVERY_QUEUE,))}
    oldest: dict[str, int] = dict(tx.rows(sql["oldest"]))
    counts: dict[str, dict[JobState, int]] = {}
    for tally in tallies(tx, names):
        states = counts.setdefault(tally.queue, {})
        states[tally.state] = states.get(tally.state, 0) + tally.jobs
    existing = known.keys() | counts.keys()
    shown = existing & set(names) if names else existing
    return [
        _info(tx.now, name, known.get(name), counts.get(name, {}), oldest.get(name))
        for name in sorted(shown)
    ]


def _info(
    now: int, name: str, row: Row | None, counts: dict[JobState, int], oldest: int | None
) -> QueueInfo:
    age = None if oldest is None else max(0.0, seconds_until(now, oldest))
    if row is None:
        return QueueInfo(name, False, None, 0, QueueSettings(), counts, age)
    _, paused, cool_until, throttles, text = row
    settings = QueueSettings.from_json(text)
    cooling = None
    if cool_until is not None and cool_until > now:
        cooling = seconds_until(cool_until, now)
    return QueueInfo(name, bool(paused), cooling, throttles, settings, counts, age)
