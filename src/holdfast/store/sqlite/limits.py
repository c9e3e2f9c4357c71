"""Limits on SQLite. There is one writer, so a count and what follows from it are one write."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.passing import bucket_name, parted
from holdfast.limits.model import (
    BucketInfo,
    LimitInfo,
    Miscount,
    Settings,
    from_json,
    require_override,
    require_same_kind,
    to_json,
)
from holdfast.store.contract.limits import IDLE_SECONDS, BucketHolder, Recounted
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.buckets import bucket, look_again, shut
from holdfast.store.sqlite.rows import SECOND, after, seconds_until, to_datetime
from holdfast.store.sqlite.rows import to_json as to_list
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteLimits(Verbs):
    """See `holdfast.store.contract.limits.Limits` for what each verb promises."""

    async def declare(self, limits: Mapping[str, Settings]) -> None:
        if limits:
            await self._writer.write(lambda tx: _declare(tx, limits))

    async def put(self, name: str, settings: Settings) -> LimitInfo:
        return await self._writer.write(lambda tx: _put(tx, name, settings))

    async def override(self, name: str, key: str, settings: Settings | None) -> BucketInfo:
        return await self._writer.write(lambda tx: _override(tx, name, key, settings))

    async def retire(self, names: Collection[str]) -> list[str]:
        def work(tx: Transaction) -> list[str]:
            retired = sorted(
                name for (name,) in tx.rows(script("limits/retire"), (to_list(names),))
            )
            _look_again(tx, retired)
            return retired

        return await self._writer.write(work) if names else []

    async def drain(self, buckets: Mapping[str, float]) -> None:
        if buckets:
            await self._writer.write(lambda tx: _drain(tx, buckets))

    async def find(self, names: Collection[str] = ()) -> list[LimitInfo]:
        return await self._writer.read(lambda tx: _find(tx, names))

    async def of(self, ids: Collection[JobId]) -> dict[JobId, str]:
        if not ids:
            return {}
        rows = await self._writer.read(lambda tx: tx.rows(script("limits/of"), (to_list(ids),)))
        return {JobId(job): buckets for job, buckets in rows}

    async def get(self, buckets: Collection[str]) -> list[BucketInfo]:
        return await self._writer.read(lambda tx: _look(tx, buckets)) if buckets else []

    async def buckets(
        self, name: str | None, limit: int, after: str | None = None
    ) -> list[BucketInfo]:
        def work(tx: Transaction) -> list[BucketInfo]:
            which = {"limit_name": name, "limit": limit, "after": after}
            return _look(tx, [one for (one,) in tx.rows(script("limits/buckets"), which)])

        return await self._writer.read(work)

    async def holders(self, bucket: str, limit: int) -> list[BucketHolder]:
        rows = await self._writer.read(
            lambda tx: tx.rows(script("limits/holders"), (bucket, limit))
        )
        return [
            BucketHolder(JobId(job), task, WorkerId(worker), to_datetime(claimed_at))
            for job, task, worker, claimed_at in rows
        ]

    async def recount(
        self,
        limit: int,
        after: str | None = None,
        *,
        idle_for: float = IDLE_SECONDS,
        mend: bool = True,
    ) -> Recounted:
        def work(tx: Transaction) -> Recounted:
            found = _recount(tx, limit, after or "")
            return _mended(tx, found, idle_for) if mend else found[0]

        return await self._writer.write(work)

    async def held_up(self, queues: Collection[str], tasks: Collection[str]) -> int:
        def work(tx: Transaction) -> int:
            which = {"queues": to_list(queues), "tasks": to_list(tasks), "now": tx.now}
            [(count,)] = tx.rows(script("limits/held_up"), which)
            return int(count)

        return await self._writer.read(work)

    async def opens_in(self) -> float | None:
        def work(tx: Transaction) -> float | None:
            [(opens_at,)] = tx.rows(script("limits/opens_in"))
            return None if opens_at is None else max(0.0, seconds_until(opens_at, tx.now))

        return await self._writer.read(work)


def _declare(tx: Transaction, limits: Mapping[str, Settings]) -> None:
    sql = steps("limits/declare")
    known = {one.name: one for one in _find(tx, limits)}
    for name, settings in limits.items():
        if name in known:
            _require_same_kind(tx, known[name], settings)
        if tx.changed(sql["declare"], {"name": name, "settings": to_json(settings)}):
            _look_again(tx, [name])


def _put(tx: Transaction, name: str, settings: Settings) -> LimitInfo:
    for known in _find(tx, [name]):
        _require_same_kind(tx, known, settings)
    tx.run(script("limits/put"), {"name": name, "settings": to_json(settings)})
    _look_again(tx, [name])
    return _find(tx, [name])[0]


def _require_same_kind(tx: Transaction, known: LimitInfo, settings: Settings) -> None:
    [(counts,)] = tx.rows(steps("limits/declare")["counts"], {"name": known.name})
    require_same_kind(known, settings, counts=bool(counts))


def _override(tx: Transaction, name: str, key: str, settings: Settings | None) -> BucketInfo:
    bucket = bucket_name(name, key)
    known = _find(tx, [name])
    require_override(name, known, settings)
    text = None if settings is None else to_json(settings)
    tx.run(script("limits/override"), {"name": bucket, "override": text, "now": tx.now})
    look_again(tx, [bucket])
    return _look(tx, [bucket])[0]


def _drain(tx: Transaction, buckets: Mapping[str, float]) -> None:
    for name, seconds in buckets.items():
        shut(tx, name, after(tx.now, seconds) if seconds else None, 1 if seconds else 0)


def _look_again(tx: Transaction, limits: Iterable[str]) -> None:
    """Let claims look again at the buckets of these limits, and wake those who wait there."""
    sql = steps("limits/declare")
    for name in limits:
        for (queue,) in tx.rows(sql["waiting queues"], {"name": name}):
            tx.wake(Topic.READY, queue)
        tx.run(sql["look again"], {"name": name, "now": tx.now})


def _find(tx: Transaction, names: Collection[str]) -> list[LimitInfo]:
    wanted = {"names": to_list(names) if names else None}
    return [
        LimitInfo(
            name=name,
            settings=from_json(settings),
            edited=bool(edited),
            retired=bool(retired),
            revision=revision,
            buckets=buckets,
        )
        for name, settings, edited, retired, revision, buckets in tx.rows(
            script("limits/find"), wanted
        )
    ]


def _look(tx: Transaction, buckets: Collection[str]) -> list[BucketInfo]:
    return [_info(row, tx.now) for row in tx.rows(script("limits/get"), (to_list(buckets),))]


def _info(row: Row, now: int) -> BucketInfo:
    found, override, waiting = bucket(row), row[6], row[8]
    opens_at = found.opens_at(now)
    shut_until = found.shut_until if found.is_shut(now) else None
    return BucketInfo(
        name=found.name,
        settings=found.settings,
        override=None if override is None else from_json(override),
        retired=found.retired,
        in_use=found.in_use,
        waiting=waiting,
        drained_for=None if shut_until is None else seconds_until(shut_until, now),
        opens_in=None if opens_at is None else max(0.0, seconds_until(opens_at, now)),
    )


def _recount(tx: Transaction, limit: int, after: str) -> tuple[Recounted, list[str]]:
    """What a recount finds, and the buckets that it looked at."""
    sql = steps("limits/recount")
    held: dict[str, int] = {}
    for receipt, jobs in tx.rows(sql["receipts"]):
        for name in parted(receipt):
            held[name] = held.get(name, 0) + jobs
    page = tx.rows(sql["page"], (after, limit))
    wrong = tuple(
        Miscount(name, counted, held.get(name, 0))
        for name, counted in page
        if counted != held.get(name, 0)
    )
    names = [name for name, _ in page]
    return Recounted(len(page), wrong, 0, names[-1] if len(page) == limit else None), names


def _mended(tx: Transaction, found: tuple[Recounted, list[str]], idle_for: float) -> Recounted:
    sql = steps("limits/recount")
    recounted, names = found
    for one in recounted.wrong:
        tx.run(sql["correct"], (one.held, tx.now, one.bucket))
    idle = {"names": to_list(names), "idle_since": tx.now - round(idle_for * SECOND)}
    forgotten = tx.changed(sql["forget idle"], idle)
    return msgspec.structs.replace(recounted, forgotten=forgotten)
