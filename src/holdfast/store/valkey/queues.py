"""`Queues` on Valkey. Every partition keeps a copy of the queues' rows, so that a claim reads no
other partition. The copy of the first partition is the one that is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set

import msgspec

from holdfast.errors import NotCapable
from holdfast.job.state import JobState
from holdfast.store.contract.queues import Paused, QueueInfo, QueueSettings
from holdfast.store.contract.records import Capability
from holdfast.store.valkey.connection import ValkeyVerbs
from holdfast.store.valkey.inserting import SEVERAL
from holdfast.store.valkey.layout import QueueRow
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.rows import line_name, nested, queue_row, to_queue_row
from holdfast.store.valkey.telemetry import Counts, counts


class ValkeyQueues(ValkeyVerbs):
    """See `holdfast.store.contract.queues.Queues`."""

    async def ensure(self, queues: Mapping[str, QueueSettings]) -> None:
        if queues:
            for settings in queues.values():
                self._require_no_total(settings)
            rows = [(name, nested(queue_row(settings))) for name, settings in queues.items()]
            await self._connections.everywhere("queues/ensure", rows=rows)

    async def pause(self, names: Sequence[str]) -> None:
        await self._change("queues/pause", names)

    async def resume(self, names: Sequence[str]) -> None:
        await self._change("queues/resume", names)

    async def paused(self) -> Paused:
        key = self._connections.key(0, "paused")
        found = await self._connections.command("SMEMBERS", key)
        return Paused.named(name.decode() for name in found)

    async def tune(self, name: str, settings: QueueSettings) -> None:
        self._require_no_total(settings)
        await self._connections.everywhere("queues/tune", name=name, row=queue_row(settings))

    def _require_no_total(self, settings: QueueSettings) -> None:
        """The jobs of a queue lie in all partitions, and none of them sees what runs in the
        others."""
        if settings.max_running is not None and self._connections.options.partitions > 1:
            raise NotCapable("valkey", f"{Capability.QUEUE_TOTALS} {SEVERAL}")

    async def waiting(self) -> Sequence[str]:
        counted = await counts(self._connections)
        lines = (line for by_line in counted for line in by_line)
        return sorted({queue for state, queue, _ in lines if state is JobState.READY})

    async def find(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        rows, by_partition, now = await asyncio.gather(
            self._rows(), counts(self._connections), self._connections.now_micros()
        )
        counted, oldest = await self._counted(by_partition, set(names))
        shown = rows.keys() | counted.keys()
        if names:
            shown &= set(names)
        return [
            _info(now, name, rows.get(name), counted.get(name, {}), oldest.get(name))
            for name in sorted(shown)
        ]

    async def _change(self, verb: str, names: Sequence[str]) -> None:
        if names:
            given = {"names": [*dict.fromkeys(names)], "fresh": queue_row(QueueSettings())}
            await self._connections.everywhere(verb, **given)

    async def _rows(self) -> dict[str, QueueRow]:
        found = await self._connections.command("HGETALL", self._connections.key(0, "queues"))
        return {name: to_queue_row(row) for name, row in paired(found)}

    async def _counted(
        self, by_partition: list[Counts], names: Set[str]
    ) -> tuple[dict[str, dict[JobState, int]], dict[str, int]]:
        """How many jobs each queue has by state, and since when its oldest ready job is
        ready."""
        counted: dict[str, dict[JobState, int]] = {}
        lines: list[tuple[int, str, str]] = []
        for partition, by_line in enumerate(by_partition):
            for (state, queue, task), number in by_line.items():
                if not names or queue in names:
                    states = counted.setdefault(queue, {})
                    states[state] = states.get(state, 0) + number
                    if state is JobState.READY:
                        lines.append((partition, queue, task))
        return counted, await self._oldest(lines)

    async def _oldest(self, lines: list[tuple[int, str, str]]) -> dict[str, int]:
        mine: dict[int, list[tuple[str, str]]] = {}
        for partition, queue, task in lines:
            mine.setdefault(partition, []).append((queue, line_name(queue, task)))
        calls = [
            ("queues/oldest_ready", partition, {"lines": [name for _, name in some]})
            for partition, some in mine.items()
        ]
        oldest: dict[str, int] = {}
        answers = await self._connections.call_each(calls) if calls else []
        for some, answer in zip(mine.values(), answers, strict=True):
            for (queue, _), at in zip(some, answer, strict=True):
                if at:
                    oldest[queue] = min(oldest.get(queue, int(at)), int(at))
        return oldest


def _info(
    now: int,
    name: str,
    row: QueueRow | None,
    counted: dict[JobState, int],
    oldest: int | None,
) -> QueueInfo:
    age = None if oldest is None else max(0.0, (now - oldest) / 1e6)
    if row is None:
        return QueueInfo(name, False, None, 0, QueueSettings(), counted, age)
    until = row.cool_until
    cooling = (until - now) / 1e6 if until is not False and until > now else None
    settings = msgspec.convert(row.settings, QueueSettings)
    return QueueInfo(name, row.paused, cooling, row.throttles, settings, counted, age)
