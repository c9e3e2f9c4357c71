"""Limits on Postgres. Who changes a bucket locks its row, and locks several in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from holdfast.job import checks
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.passing import (
    MOST_WEIGHT,
    Passed,
    bucket_name,
    require_own_buckets,
    require_own_name,
)
from holdfast.limits.model import (
    Alarm,
    BucketInfo,
    LimitInfo,
    Miscount,
    Settings,
    from_json,
    is_other_kind,
    require_declared_kind,
    require_idle_kind,
    require_override,
    to_json,
)
from holdfast.limits.showing import bucket_info
from holdfast.store.contract.limits import (
    IDLE_SECONDS,
    MOST_OPENINGS,
    BucketHolder,
    BucketWaiter,
    Recounted,
    Take,
    Taken,
)
from holdfast.store.postgres import taking
from holdfast.store.postgres.buckets import bucket, look_again
from holdfast.store.postgres.connection import Connections, Session

T = TypeVar("T")


class PostgresLimits:
    """See `holdfast.store.contract.limits.Limits` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._channel = connections.options.channel

    async def declare(self, limits: Mapping[str, Settings]) -> None:
        async def work(session: Session) -> None:
            for known in await _find(session, limits):
                await _forget_books_of_other_kind(session, known, limits[known.name])
            texts = [to_json(one) for one in limits.values()]
            changed = await session.fetch("limits/declare", [*limits], texts)
            # Again, because another program may declare them too: now their rows are locked.
            for known in await _find(session, limits):
                require_declared_kind(known, limits[known.name])
            await look_again(session, self._channel, limits=[row["name"] for row in changed])

        for name in limits:
            require_own_name(name)
        if limits:
            await self._connections.run(work, transaction=True)

    async def put(self, name: str, settings: Settings) -> LimitInfo:
        async def work(session: Session) -> LimitInfo:
            await _require_idle_kind(session, name, settings)
            await session.fetch("limits/put", name, to_json(settings))
            await look_again(session, self._channel, limits=[name])
            return (await _find(session, [name]))[0]

        return await self._connections.run(work, transaction=True, again=False)

    async def override(self, name: str, key: str, settings: Settings | None) -> BucketInfo:
        require_own_name(name)
        bucket = bucket_name(name, key)

        async def work(session: Session) -> BucketInfo:
            require_override(name, await _find(session, [name]), settings)
            text = None if settings is None else to_json(settings)
            await session.timed("limits/override", bucket, text)
            if settings is None:
                # The parent of a path holds nothing up without settings of its own.
                await session.fetch("limits/let_go_on", self._channel, bucket)
            await look_again(session, self._channel, buckets=[bucket])
            return (await _look(session, [bucket]))[0]

        return await self._connections.run(work, transaction=True)

    async def retire(self, names: Collection[str]) -> list[str]:
        async def work(session: Session) -> list[str]:
            retired = [row["name"] for row in await session.fetch("limits/retire", [*names])]
            await look_again(session, self._channel, limits=retired)
            return sorted(retired)

        for name in names:
            require_own_name(name)
        return await self._connections.run(work, transaction=True) if names else []

    async def drain(self, buckets: Mapping[str, float]) -> None:
        async def work(session: Session) -> None:
            await session.timed("limits/drain", [*buckets], [*buckets.values()])
            await look_again(session, self._channel, buckets=[*buckets])

        require_own_buckets(buckets)
        if buckets:
            await self._connections.run(work, transaction=True)

    async def take(self, takes: Sequence[Take]) -> list[Taken]:
        if not takes:
            return []
        at = await self._taken_at_once(takes)
        if at is not None:
            return [Taken(True, at=at)] * len(takes)
        return await self._write(lambda session: taking.take(session, self._channel, takes))

    async def _taken_at_once(self, takes: Sequence[Take]) -> int | None:
        """When all of this was taken; None, and nothing is, if one of the takes goes along a path
        or one bucket is not that of a rate with room for all. One round trip, where the long way
        has six and holds the locks of the buckets during half of them. A verb that is no
        transaction by itself unlocks the buckets before it waits for the disk."""
        if any(one.beside for one in takes):
            return None
        units = Counter[str]()
        for one in takes:
            units[one.bucket] += one.units
        names = sorted(units)
        alone = not self._connections.options.pooler
        values = (self._channel, names, [units[name] for name in names], alone)
        [(at, granted)] = await self._connections.timed("limits/take", *values, again=False)
        return int(at) if granted else None

    async def give(self, takes: Sequence[Take]) -> None:
        if takes:
            await self._write(lambda session: taking.give(session, self._channel, takes))

    async def adjust(self, bucket: str, amount: int) -> BucketInfo:
        async def work(session: Session) -> BucketInfo:
            await taking.adjust(session, self._channel, bucket, amount)
            return (await _look(session, [bucket]))[0]

        return await self._write(work)

    async def reset(self, buckets: Collection[str]) -> list[BucketInfo]:
        async def work(session: Session) -> list[BucketInfo]:
            await taking.reset(session, self._channel, buckets)
            return await _look(session, buckets)

        return await self._write(work) if buckets else []

    async def alarms(self, limit: int) -> list[Alarm]:
        return await self._write(lambda session: taking.alarms(session, self._channel, limit))

    async def weigh(self, fair: str, weight: int | None) -> None:
        if weight is not None:
            checks.count("weight", weight, most=MOST_WEIGHT)
        await self._connections.fetch("limits/weigh", fair, weight)

    async def find(self, names: Collection[str] = ()) -> list[LimitInfo]:
        return await self._connections.run(lambda session: _find(session, names))

    async def of(self, ids: Collection[JobId]) -> dict[JobId, Passed]:
        found = await self._connections.fetch("limits/of", [*ids]) if ids else []
        return {JobId(row["job_id"]): Passed(row["buckets"], row["costs"]) for row in found}

    async def get(self, buckets: Collection[str]) -> list[BucketInfo]:
        return await self._connections.run(lambda session: _look(session, buckets))

    async def buckets(
        self, name: str | None, limit: int, after: str | None = None
    ) -> list[BucketInfo]:
        async def work(session: Session) -> list[BucketInfo]:
            found = await session.fetch("limits/buckets", name, limit, after)
            return await _look(session, [row["name"] for row in found])

        return await self._connections.run(work)

    async def holders(self, bucket: str, limit: int) -> list[BucketHolder]:
        found = await self._connections.fetch("limits/holders", bucket, limit)
        return [
            BucketHolder(
                JobId(row["job_id"]), row["task"], WorkerId(row["worker_id"]), row["claimed_at"]
            )
            for row in found
        ]

    async def waiters(self, bucket: str, limit: int, *, never: bool = False) -> list[BucketWaiter]:
        found = await self._connections.timed("limits/waiters", bucket, limit, never)
        return [
            BucketWaiter(JobId(row["job_id"]), row["task"], row["queue"], row["needs"])
            for row in found
        ]

    async def before(self, ids: Collection[JobId]) -> dict[JobId, JobId]:
        found = await self._connections.fetch("limits/before", [*ids]) if ids else []
        return {JobId(row["job_id"]): JobId(row["first"]) for row in found}

    async def recount(
        self,
        limit: int,
        after: str | None = None,
        *,
        idle_for: float = IDLE_SECONDS,
        mend: bool = True,
    ) -> Recounted:
        return await self._connections.run(
            lambda session: _recount(session, limit, after or "", idle_for if mend else None),
            transaction=True,
        )

    async def held_up(
        self, queues: Collection[str], tasks: Collection[str], labels: Collection[str] | None = None
    ) -> int:
        has = None if labels is None else [*labels]
        [(count,)] = await self._connections.timed("limits/held_up", [*queues], [*tasks], has)
        return int(count)

    async def opens_in(self, queues: Collection[str] | None = None) -> float | None:
        values = (None if queues is None else [*queues], MOST_OPENINGS)
        [(seconds,)] = await self._connections.timed("limits/opens_in", *values)
        return None if seconds is None else max(0.0, seconds)

    async def _write(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Not repeated after a lost connection: it may have been counted."""
        return await self._connections.run(work, transaction=True, again=False)


async def _require_idle_kind(session: Session, name: str, settings: Settings) -> None:
    require_own_name(name)
    counts = bool(await session.fetch("limits/counts", [name]))
    for known in await _find(session, [name]):
        require_idle_kind(known, settings, counts=counts)
        await _forget_books_of_other_kind(session, known, settings)


async def _forget_books_of_other_kind(
    session: Session, known: LimitInfo, settings: Settings
) -> None:
    if is_other_kind(known, settings):
        await session.fetch("limits/forget_books", known.name)


async def _find(session: Session, names: Collection[str]) -> list[LimitInfo]:
    return [
        LimitInfo(
            name=row["name"],
            settings=from_json(row["settings"]),
            edited=row["edited"],
            retired=row["retired"],
            revision=row["revision"],
            buckets=row["buckets"],
        )
        for row in await session.fetch("limits/find", [*names] or None)
    ]


async def _look(session: Session, buckets: Collection[str]) -> list[BucketInfo]:
    found = await session.timed("limits/get", [*buckets]) if buckets else []
    return [bucket_info(bucket(row), row["now"], row["waiting"], row["stuck"]) for row in found]


async def _recount(session: Session, limit: int, after: str, idle_for: float | None) -> Recounted:
    """The buckets are locked by one statement and counted by the next, so nothing comes between.
    With `idle_for`, what differs is corrected, and idle rows are removed."""
    page = await session.fetch("limits/recount", limit, after)
    names = [row["name"] for row in page]
    held = {row["name"]: row["held"] for row in await session.fetch("limits/held", names)}
    wrong = tuple(
        Miscount(row["name"], row["in_use"], held.get(row["name"], 0))
        for row in page
        if row["in_use"] != held.get(row["name"], 0)
    )
    forgotten = 0
    if idle_for is not None:
        if wrong:
            values = ([one.bucket for one in wrong], [one.held for one in wrong])
            await session.timed("limits/correct", *values)
        forgotten = await _forget_idle(session, names, idle_for)
    return Recounted(len(page), wrong, forgotten, names[-1] if len(page) == limit else None)


async def _forget_idle(session: Session, names: Sequence[str], idle_for: float) -> int:
    idle = [row["name"] for row in await session.timed("limits/idle", names, idle_for)]
    if not idle:
        return 0
    rows = await session.timed("limits/get", idle)
    empty = [row["name"] for row in rows if bucket(row).keeps_nothing(row["now"])]
    return len(await session.fetch("limits/forget_idle", empty))
