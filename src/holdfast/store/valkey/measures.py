"""The times of jobs on Valkey, all of them in the first partition. What is pure of it is in
`holdfast.store.rolling`.

Moves are counted in every partition. A minute is rolled up when all partitions have closed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.job.what import What
from holdfast.store.contract.measures import KEPT, OPEN_SECONDS, Grain, Measure, Pair, Step
from holdfast.store.rolling import (
    Counted,
    KeptPoint,
    KeptTimes,
    Measured,
    Measures,
    SeriesFilter,
    Unrolled,
    newest,
)
from holdfast.store.valkey.connection import Connections, ValkeyVerbs
from holdfast.store.valkey.layout import NUMBER_LENGTH
from holdfast.store.valkey.moments import to_datetime, to_micros
from holdfast.store.valkey.replies import numbers_in, paired
from holdfast.store.valkey.rows import line_name, nested, pack, split_count, split_line

MINUTE = 60_000_000
FIRST = 0
"""The partition that keeps times."""

_unpack = msgspec.msgpack.Decoder(tuple[str, bytes]).decode


class ValkeyMeasures(ValkeyVerbs, Measures):
    """What `holdfast.store.rolling.Measures` leaves to a store."""

    async def record(self, measures: Sequence[Measure]) -> datetime:
        rows = [
            (
                *(_minute(one.minute), f"{one.source}:{line_name(one.queue, one.task)}"),
                *(one.number, nested(one.times.encoded())),
            )
            for one in newest(measures)
        ]
        closed = await self._connections.call("telemetry/record", FIRST, {"rows": rows})
        return _moment(int(closed))

    async def prune_measures(self, limit: int) -> int:
        kept = [(f"{step}:{grain}", seconds) for (step, grain), seconds in KEPT.items()]
        given = {"limit": limit, "kept": kept}
        return int(await self._connections.call("telemetry/prune_measures", FIRST, given))

    async def find_series(
        self, wanted: SeriesFilter
    ) -> tuple[list[KeptPoint], list[Counted], list[Measured]]:
        """Moves are counted from where `rolled` was when the points were read: they stay where they
        are when their minute is rolled up."""
        first, end = first_minute(wanted.since), first_minute(wanted.until)
        name, lines = f"{wanted.step}:{wanted.grain}", _lines(wanted.pairs or ())
        given = {"name": name, "first": first, "last": f"({end}", "lines": lines}
        rolled, rows, measures = await self._connections.call("telemetry/series", FIRST, given)
        counts = await counted(self._connections, max(first, int(rolled)), end)

        def is_wanted(queue: str, task: str) -> bool:
            of_queue = not wanted.queues or queue in wanted.queues
            return of_queue and (not wanted.tasks or task in wanted.tasks)

        kept = (
            _kept(wanted.step, at, *row)
            for at, fields in _by_minute(rows)
            for row in paired(fields)
        )
        return (
            [one for one in kept if is_wanted(one.queue, one.task)],
            [one for one in counts if is_wanted(*one[1:3])],
            [one for one in _measured(measures) if is_wanted(*one[1:3])],
        )

    async def find_times(self) -> list[KeptTimes]:
        ever, measures = await self._connections.call("telemetry/times", FIRST)
        rows = [(*split_line(line), blob) for line, blob in paired(ever)]
        return rows + [
            (*_pair(field), value[NUMBER_LENGTH:])
            for fields in measures
            for field, value in paired(fields)
        ]

    async def next_due(self) -> Unrolled | None:
        rolled = await self.rolled()
        given = {"open": OPEN_SECONDS, "since": rolled}
        answers = await self._connections.everywhere("telemetry/next_due", **given)
        minutes = [int(minute) for minute, _ in answers if minute]
        if not minutes or min(minutes) >= min(int(horizon) for _, horizon in answers):
            return None
        until = {"until_minute": min(minutes) + 1}
        closed = await self._connections.everywhere("telemetry/close", **until)
        return Unrolled(_moment(rolled), _moment(min(minutes))) if all(closed) else None

    async def parts_of(self, minute: datetime) -> tuple[list[Counted], list[Measured]]:
        at = _minute(minute)
        counts = await counted(self._connections, at, at + 1)
        fields = await self._connections.command("HGETALL", self._key(f"measures:{at}"))
        return counts, list(_measured([str(at).encode(), fields]))

    async def points_at(self, starts: Mapping[Step, datetime]) -> list[KeptPoint]:
        wanted = [(step, grain, _minute(at)) for step, at in starts.items() for grain in Grain]
        found = await self._connections.commands(
            [("HGETALL", self._key(f"series:{step}:{grain}:{at}")) for step, grain, at in wanted]
        )
        return [
            _kept(step, at, line, row)
            for (step, _, at), rows in zip(wanted, found, strict=True)
            for line, row in paired(rows)
        ]

    async def ever_of(self, pairs: Collection[Pair]) -> list[KeptTimes]:
        if not pairs:
            return []
        found = await self._connections.command("HMGET", self._key("ever"), *_lines(pairs))
        return [(*pair, blob) for pair, blob in zip(pairs, found, strict=True) if blob is not None]

    async def write_rolled(
        self, due: Unrolled, points: Sequence[KeptPoint], ever: Sequence[KeptTimes]
    ) -> bool:
        """The points of one step and grain lie in one hash."""
        hashes: dict[tuple[str, int], list[object]] = {}
        for one in points:
            fields = hashes.setdefault((f"{one.step}:{one.grain}", _minute(one.at)), [])
            fields += (line_name(one.queue, one.task), nested(pack((one.counts, one.times))))
        given = {
            "former": _minute(due.rolled),
            "following": _minute(due.minute) + 1,
            "points": [(name, at, fields) for (name, at), fields in hashes.items()],
            "ever": [part for *pair, blob in ever for part in (line_name(*pair), nested(blob))],
        }
        # Not sent again: a repeated call finds the mark moved, and cannot tell by whom.
        return bool(await self._connections.call("telemetry/roll_up", FIRST, given, again=False))

    async def rolled(self) -> int:
        """The oldest minute that is not rolled up."""
        return int(await self._connections.command("GET", self._key("rolled")) or 0)

    def _key(self, name: str) -> str:
        return self._connections.key(FIRST, name)


async def counted(connections: Connections, first: int, end: int) -> list[Counted]:
    """The moves of all partitions in the minutes from `first` on and before `end`, sorted."""
    minutes: dict[int, Counter[str]] = {}
    for answer in await connections.everywhere("telemetry/traffic", first=first, last=end):
        for minute, fields in zip(answer[::2], answer[1::2], strict=True):
            minutes.setdefault(int(minute), Counter()).update(numbers_in(fields))
    found = []
    for minute, fields in minutes.items():
        for field, jobs in fields.items():
            what, queue, task = split_count(field)
            found.append((_moment(minute), queue, task, What(what), jobs))
    return sorted(found)


def first_minute(moment: datetime) -> int:
    """The first minute that begins at or after this moment."""
    return -(-to_micros(moment) // MINUTE)


def _minute(moment: datetime) -> int:
    return to_micros(moment) // MINUTE


def _moment(minute: int) -> datetime:
    return to_datetime(minute * MINUTE)


def _pair(field: str) -> Pair:
    """Of a field of measures: the source, and the name of a line."""
    return split_line(field.split(":", 1)[1])


def _by_minute(reply: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    for minute, fields in zip(reply[::2], reply[1::2], strict=True):
        yield int(minute), fields


def _measured(reply: Sequence[Any]) -> Iterator[Measured]:
    for minute, fields in _by_minute(reply):
        for field, value in sorted(paired(fields)):
            yield _moment(minute), *_pair(field), value[NUMBER_LENGTH:]


def _kept(step: Step, at: int, line: str, row: bytes) -> KeptPoint:
    return KeptPoint(step, _moment(at), *split_line(line), *_unpack(row))


def _lines(pairs: Iterable[Pair]) -> list[str]:
    return [line_name(*pair) for pair in pairs]
