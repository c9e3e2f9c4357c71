"""Limits on SQLite. There is one writer, so a count and what follows from it are one write."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from holdfast.job import checks
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.passing import (
    MOST_WEIGHT,
    Passed,
    bucket_name,
    costs_in,
    require_own_buckets,
    require_own_name,
)
from holdfast.limits.model import (
    Alarm,
    BucketInfo,
    LimitInfo,
    Miscount,
    Settings,
    is_other_kind,
    require_declared_kind,
    require_idle_kind,
    require_override,
    to_json,
)
from holdfast.store.contract.limits import (
    IDLE_SECONDS,
    MOST_OPENINGS,
    BucketHolder,
    BucketWaiter,
    Recounted,
    Take,
    Taken,
)
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite import taking
from holdfast.store.sqlite.buckets import Buckets, let_go_on, look_again, shut
from holdfast.store.sqlite.limit_reading import find_limits, look_at
from holdfast.store.sqlite.limited import kept_line
from holdfast.store.sqlite.rows import SECOND, after, seconds_until, to_datetime
from holdfast.store.sqlite.rows import to_json as to_list
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.writer import Verbs

SMALL_BATCH = 32
"""So many takes are counted in less than a millisecond."""


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

        for name in names:
            require_own_name(name)
        return await self._writer.write(work) if names else []

    async def drain(self, buckets: Mapping[str, float]) -> None:
        require_own_buckets(buckets)
        if buckets:
            await self._writer.write(lambda tx: _drain(tx, buckets))

    async def take(self, takes: Sequence[Take]) -> list[Taken]:
        if not takes:
            return []
        return await self._writer.write(
            lambda tx: taking.take(tx, takes), small=len(takes) <= SMALL_BATCH
        )

    async def give(self, takes: Sequence[Take]) -> None:
        if takes:
            await self._writer.write(lambda tx: taking.give(tx, takes))

    async def adjust(self, bucket: str, amount: int) -> BucketInfo:
        def work(tx: Transaction) -> BucketInfo:
            taking.adjust(tx, bucket, amount)
            return look_at(tx, [bucket])[0]

        return await self._writer.write(work)

    async def reset(self, buckets: Collection[str]) -> list[BucketInfo]:
        def work(tx: Transaction) -> list[BucketInfo]:
            taking.reset(tx, buckets)
            return look_at(tx, buckets)

        return await self._writer.write(work) if buckets else []

    async def alarms(self, limit: int) -> list[Alarm]:
        return await self._writer.write(lambda tx: taking.alarms(tx, limit))

    async def weigh(self, fair: str, weight: int | None) -> None:
        await self._writer.write(lambda tx: _weigh(tx, fair, weight))

    async def find(self, names: Collection[str] = ()) -> list[LimitInfo]:
        return await self._writer.read(lambda tx: find_limits(tx, names))

    async def of(self, ids: Collection[JobId]) -> dict[JobId, Passed]:
        if not ids:
            return {}
        rows = await self._writer.read(lambda tx: tx.rows(script("limits/of"), (to_list(ids),)))
        kept = {JobId(job): kept_line(text) for job, text in rows}
        return {job: Passed(one.buckets, one.costs) for job, one in kept.items()}

    async def get(self, buckets: Collection[str]) -> list[BucketInfo]:
        return await self._writer.read(lambda tx: look_at(tx, buckets)) if buckets else []

    async def buckets(
        self, name: str | None, limit: int, after: str | None = None
    ) -> list[BucketInfo]:
        def work(tx: Transaction) -> list[BucketInfo]:
            which = {"limit_name": name, "limit": limit, "after": after}
            return look_at(tx, [one for (one,) in tx.rows(script("limits/buckets"), which)])

        return await self._writer.read(work)

    async def holders(self, bucket: str, limit: int) -> list[BucketHolder]:
        rows = await self._writer.read(
            lambda tx: tx.rows(script("limits/holders"), (bucket, limit))
        )
        return [
            BucketHolder(JobId(job), task, WorkerId(worker), to_datetime(claimed_at))
            for job, task, worker, claimed_at in rows
        ]

    async def waiters(self, bucket: str, limit: int, *, never: bool = False) -> list[BucketWaiter]:
        def work(tx: Transaction) -> list[BucketWaiter]:
            most_passing = Buckets(tx).get(bucket).most_passing(tx.now)
            which = {"name": bucket, "most_passing": most_passing, "never": never, "limit": limit}
            rows = tx.rows(steps("limits/waiters")["first jobs"], which)
            return [BucketWaiter(JobId(job), *facts) for job, *facts in rows]

        return await self._writer.read(work)

    async def before(self, ids: Collection[JobId]) -> dict[JobId, JobId]:
        if not ids:
            return {}
        rows = await self._writer.read(lambda tx: tx.rows(script("limits/before"), (to_list(ids),)))
        return {JobId(job): JobId(first) for job, first in rows}

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

    async def held_up(
        self, queues: Collection[str], tasks: Collection[str], labels: Collection[str] | None = None
    ) -> int:
        def work(tx: Transaction) -> int:
            which = {"queues": to_list(queues), "tasks": to_list(tasks), "now": tx.now}
            which["labels"] = None if labels is None else to_list(labels)
            [(count,)] = tx.rows(script("limits/held_up"), which)
            return int(count)

        return await self._writer.read(work)

    async def opens_in(self, queues: Collection[str] | None = None) -> float | None:
        which = {"queues": None if queues is None else to_list(queues), "most": MOST_OPENINGS}

        def work(tx: Transaction) -> float | None:
            [(opens_at,)] = tx.rows(script("limits/opens_in"), which)
            return None if opens_at is None else max(0.0, seconds_until(opens_at, tx.now))

        return await self._writer.read(work)


def _declare(tx: Transaction, limits: Mapping[str, Settings]) -> None:
    sql = steps("limits/declare")
    known = {one.name: one for one in find_limits(tx, limits)}
    for name, settings in limits.items():
        require_own_name(name)
        begins_anew = False
        if name in known:
            require_declared_kind(known[name], settings)
            begins_anew = _began_anew(tx, known[name], settings)
        given = {"name": name, "settings": to_json(settings), "begins_anew": begins_anew}
        if tx.changed(sql["declare"], given):
            _look_again(tx, [name])


def _put(tx: Transaction, name: str, settings: Settings) -> LimitInfo:
    require_own_name(name)
    for known in find_limits(tx, [name]):
        [(counts,)] = tx.rows(steps("limits/declare")["counts"], {"name": name})
        require_idle_kind(known, settings, counts=bool(counts))
        _began_anew(tx, known, settings)
    tx.run(script("limits/put"), {"name": name, "settings": to_json(settings)})
    _look_again(tx, [name])
    return find_limits(tx, [name])[0]


def _began_anew(tx: Transaction, known: LimitInfo, settings: Settings) -> bool:
    """Forget what the limit has counted, if it becomes one of another kind."""
    if not is_other_kind(known, settings):
        return False
    tx.run(steps("limits/declare")["forget books"], {"name": known.name})
    return True


def _override(tx: Transaction, name: str, key: str, settings: Settings | None) -> BucketInfo:
    require_own_name(name)
    bucket = bucket_name(name, key)
    known = find_limits(tx, [name])
    require_override(name, known, settings)
    text = None if settings is None else to_json(settings)
    tx.run(script("limits/override"), {"name": bucket, "override": text, "now": tx.now})
    if settings is None:
        let_go_on(tx, bucket)  # the parent of a path holds nothing up without settings of its own
    else:
        look_again(tx, [bucket])
    return look_at(tx, [bucket])[0]


def _drain(tx: Transaction, buckets: Mapping[str, float]) -> None:
    for name, seconds in buckets.items():
        shut(tx, name, after(tx.now, seconds) if seconds else None, 1 if seconds else 0)


def _weigh(tx: Transaction, fair: str, weight: int | None) -> None:
    """A weight that is taken back stays with the lines that are there until their next job."""
    sql = steps("limits/weigh")
    if weight is None:
        tx.run(sql["forget"], (fair,))
    else:
        tx.run(sql["keep"], (fair, checks.count("weight", weight, most=MOST_WEIGHT)))
        tx.run(sql["lines"], (weight, fair))


def _look_again(tx: Transaction, limits: Iterable[str]) -> None:
    """Let claims look again at the buckets of these limits, and wake those who wait there."""
    sql = steps("limits/declare")
    for name in limits:
        for (queue,) in tx.rows(sql["waiting queues"], {"name": name}):
            tx.wake(Topic.READY, queue)
        tx.run(sql["look again"], {"name": name, "now": tx.now})


def _recount(tx: Transaction, limit: int, after: str) -> tuple[Recounted, list[str]]:
    """What a recount finds, and the buckets that it looked at."""
    sql = steps("limits/recount")
    held: dict[str, int] = {}
    for receipt, costs, jobs in tx.rows(sql["receipts"]):
        for name, cost in costs_in(receipt, costs).items():
            held[name] = held.get(name, 0) + jobs * cost
    page = tx.rows(sql["page"], (after, limit))
    wrong = tuple(
        Miscount(name, counted, held.get(name, 0))
        for name, counted in page
        if counted != held.get(name, 0)
    )
    names = [name for name, _ in page]
    return Recounted(len(page), wrong, 0, names[-1] if len(page) == limit else None), names


def _mended(tx: Transaction, seen: tuple[Recounted, list[str]], idle_for: float) -> Recounted:
    sql = steps("limits/recount")
    recounted, names = seen
    for one in recounted.wrong:
        tx.run(sql["correct"], (one.held, tx.now, one.bucket))
    idle = {"names": to_list(names), "idle_since": tx.now - round(idle_for * SECOND)}
    buckets = Buckets(tx)
    found = [name for (name,) in tx.rows(sql["idle"], idle)]
    buckets.load(found)
    empty = [(name,) for name in found if buckets.get(name).keeps_nothing(tx.now)]
    tx.each(sql["forget"], empty)
    return msgspec.structs.replace(recounted, forgotten=len(empty))
