"""Failures on Valkey. Each partition counts the errors of its own jobs; readers add them up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain
from types import MappingProxyType

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.record import ErrorEntry
from holdfast.store.contract.failures import DEAD_COUNTED, Behind, Failure
from holdfast.store.valkey.connection import ValkeyVerbs, batches
from holdfast.store.valkey.layout import FailureRow
from holdfast.store.valkey.moments import SECOND, to_datetime, to_micros, to_optional_datetime
from holdfast.store.valkey.replies import scored
from holdfast.store.valkey.rows import known, readable, sample, to_failure_row

READ_BATCH = 200

Rows = Mapping[int, FailureRow]
"""What each partition that saw a failure says of it."""


class ValkeyFailures(ValkeyVerbs):
    """See `holdfast.store.contract.failures.Failures`."""

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
        """The list of fingerprints is short. Rows are read until the page is full."""
        now, seen = await asyncio.gather(
            self._connections.now_micros(), self._names(fingerprints, since, behind)
        )
        found: dict[str, Rows] = {}
        for names in batches(seen, max(limit, 1)):
            for name, rows in (await self._rows(names)).items():
                row = _whole(rows)
                if (muted or row.muted_until <= now) and (not tasks or row.task in tasks):
                    found[name] = rows
            if len(found) >= limit:
                break
        return await self._failures(dict(list(found.items())[:limit]))

    async def _names(
        self, fingerprints: Collection[str], since: datetime | None, behind: Behind | None
    ) -> list[str]:
        """The fingerprints in question, last seen first."""
        last = await self._last_seen("-inf" if since is None else to_micros(since))
        edge = (2.0**62, "") if behind is None else (to_micros(behind.last_at), behind.fingerprint)
        seen = [(at, name) for name, at in last.items() if (at, name) < edge]
        return [name for _, name in sorted(seen, reverse=True) if name in (fingerprints or last)]

    async def _last_seen(self, since: int | str = "-inf") -> dict[str, float]:
        """When each failure was last seen, in whatever partition. A partition tells only of those
        that it saw since then."""
        span, key = (since, "+inf", "WITHSCORES"), self._connections.key
        answers = await self._connections.commands(
            [
                ("ZRANGEBYSCORE", key(partition, "failures_seen"), *span)
                for partition in self._connections.partitions
            ]
        )
        last: dict[str, float] = {}
        for name, at in chain.from_iterable(map(scored, answers)):
            last[name] = max(at, last.get(name, 0.0))
        return last

    async def _rows(self, names: Sequence[str]) -> dict[str, Rows]:
        """In the order of the names; without failures that were forgotten meanwhile."""
        answers = await self._connections.commands(
            [
                ("HMGET", self._connections.key(partition, "failures"), *names)
                for partition in self._connections.partitions
            ]
        )
        found: dict[str, dict[int, FailureRow]] = {}
        for name, *blobs in zip(names, *answers, strict=True):
            for partition, blob in enumerate(blobs):
                if row := readable(to_failure_row, blob):
                    found.setdefault(name, {})[partition] = row
        return dict(found)

    async def _failures(self, found: Mapping[str, Rows]) -> list[Failure]:
        """With the newest sample of each; without failures whose sample cannot be read."""
        newest: dict[int, list[str]] = {}
        for name, rows in found.items():
            partition = max(rows, key=lambda partition: rows[partition].sampled_at)
            newest.setdefault(partition, []).append(name)
        dead, blobs = await self._dead(list(found), newest)
        samples = {name: readable(sample, blob) for name, blob in blobs.items()}
        return [
            _failure(name, _whole(rows), dead[name], *one)
            for name, rows in found.items()
            if (one := samples[name]) is not None
        ]

    async def _dead(
        self, names: Sequence[str], sampled: Mapping[int, Sequence[str]] = MappingProxyType({})
    ) -> tuple[Counter[str], dict[str, bytes | None]]:
        """How many jobs failed with each of these and are kept, and the samples that are wanted of
        each partition."""
        dead: Counter[str] = Counter()
        samples: dict[str, bytes | None] = {}
        if not names:
            return dead, samples
        calls = [
            ("failures/get", partition, {"chosen": names, "sampled": sampled.get(partition, ())})
            for partition in self._connections.partitions
        ]
        answers = await self._connections.call_each(calls)
        for (_, partition, _), (sizes, blobs) in zip(calls, answers, strict=True):
            dead.update(dict(zip(names, sizes, strict=True)))
            samples.update(zip(sampled.get(partition, ()), blobs, strict=True))
        return dead, samples

    async def mute(self, fingerprints: Sequence[str], until: datetime | None) -> list[str]:
        till = "" if until is None else to_micros(until)
        return await self._mark("failures/mute", fingerprints, till=till)

    async def note(self, fingerprints: Sequence[str], note: str | None) -> list[str]:
        return await self._mark("failures/note", fingerprints, text=note or "")

    async def _mark(self, verb: str, fingerprints: Sequence[str], **mark: object) -> list[str]:
        """In every partition that saw the failure."""
        if not fingerprints:
            return []
        answers = await self._connections.everywhere(verb, chosen=[*fingerprints], **mark)
        return sorted({name.decode() for answer in answers for name in answer})

    async def prune(self, limit: int, kept_for: float, most: int) -> int:
        """What goes is chosen here, because a partition knows only its own part."""
        last, now = await self._last_seen(), await self._connections.now_micros()
        too_many, old = len(last) - most, now - kept_for * SECOND
        doubtful = [name for name, at in last.items() if too_many > 0 or at <= old]
        needed = await self._needed(doubtful, now)
        ordered = sorted(doubtful, key=lambda name: (name in needed, last[name], name))
        gone = [
            (name, last[name])
            for n, name in enumerate(ordered)
            if n < too_many or (name not in needed and last[name] <= old)
        ][:limit]
        if gone:
            await self._connections.everywhere("failures/prune", chosen=gone)
        return len(gone)

    async def _needed(self, names: Sequence[str], now: int) -> set[str]:
        """Those that are muted or have dead jobs."""
        needed: set[str] = set()
        for some in batches(names, READ_BATCH):
            dead, _ = await self._dead(some)
            needed |= {name for name in some if dead[name]}
            for name, rows in (await self._rows(some)).items():
                if _whole(rows).muted_until > now:
                    needed.add(name)
        return needed


def _whole(rows: Rows) -> FailureRow:
    """What all partitions together say of one failure."""
    first, *others = rows.values()
    for row in others:
        first = msgspec.structs.replace(
            first,
            times=first.times + row.times,
            first_at=min(first.first_at, row.first_at),
            last_at=max(first.last_at, row.last_at),
            muted_until=max(first.muted_until, row.muted_until),
            note=first.note or row.note,
        )
    return first


def _failure(name: str, row: FailureRow, dead: int, job_id: JobId, error: ErrorEntry) -> Failure:
    return Failure(
        fingerprint=name,
        task=row.task,
        kind=row.kind,
        count=row.times,
        first_at=to_datetime(row.first_at),
        last_at=to_datetime(row.last_at),
        dead=min(dead, DEAD_COUNTED),
        job_id=job_id,
        sample=error,
        muted_until=to_optional_datetime(row.muted_until),
        note=known(row.note),
    )
