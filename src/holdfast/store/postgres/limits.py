"""Limits on Postgres. Who changes a bucket locks its row, and locks several in their order."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from holdfast.job.ids import JobId, WorkerId
from holdfast.job.passing import bucket_name
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
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.pool import Record


class PostgresLimits:
    """See `holdfast.store.contract.limits.Limits` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._channel = connections.options.channel

    async def declare(self, limits: Mapping[str, Settings]) -> None:
        async def work(session: Session) -> None:
            await _require_same_kinds(session, limits)
            texts = [to_json(one) for one in limits.values()]
            changed = await session.fetch("limits/declare", [*limits], texts)
            await self._look_again(session, limits=[row["name"] for row in changed])

        if limits:
            await self._connections.run(work, transaction=True)

    async def put(self, name: str, settings: Settings) -> LimitInfo:
        async def work(session: Session) -> LimitInfo:
            await _require_same_kinds(session, {name: settings})
            await session.fetch("limits/put", name, to_json(settings))
            await self._look_again(session, limits=[name])
            return (await _find(session, [name]))[0]

        return await self._connections.run(work, transaction=True, again=False)

    async def override(self, name: str, key: str, settings: Settings | None) -> BucketInfo:
        bucket = bucket_name(name, key)

        async def work(session: Session) -> BucketInfo:
            require_override(name, await _find(session, [name]), settings)
            text = None if settings is None else to_json(settings)
            await session.timed("limits/override", bucket, text)
            await self._look_again(session, buckets=[bucket])
            return (await _look(session, [bucket]))[0]

        return await self._connections.run(work, transaction=True)

    async def retire(self, names: Collection[str]) -> list[str]:
        async def work(session: Session) -> list[str]:
            retired = [row["name"] for row in await session.fetch("limits/retire", [*names])]
            await self._look_again(session, limits=retired)
            return sorted(retired)

        return await self._connections.run(work, transaction=True) if names else []

    async def drain(self, buckets: Mapping[str, float]) -> None:
        async def work(session: Session) -> None:
            await session.timed("limits/drain", [*buckets], [*buckets.values()])
            await self._look_again(session, buckets=[*buckets])

        if buckets:
            await self._connections.run(work, transaction=True)

    async def find(self, names: Collection[str] = ()) -> list[LimitInfo]:
        return await self._connections.run(lambda session: _find(session, names))

    async def of(self, ids: Collection[JobId]) -> dict[JobId, str]:
        found = await self._connections.fetch("limits/of", [*ids]) if ids else []
        return {JobId(row["job_id"]): row["buckets"] for row in found}

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

    async def held_up(self, queues: Collection[str], tasks: Collection[str]) -> int:
        [(count,)] = await self._connections.timed("limits/held_up", [*queues], [*tasks])
        return int(count)

    async def opens_in(self) -> float | None:
        [(seconds,)] = await self._connections.timed("limits/opens_in")
        return None if seconds is None else max(0.0, seconds)

    async def _look_again(
        self, session: Session, *, buckets: Collection[str] = (), limits: Collection[str] = ()
    ) -> None:
        """Let claims look again at buckets that hold lines up, and wake those who wait there."""
        if buckets or limits:
            await session.timed("limits/look_again", self._channel, [*buckets], [*limits])


async def _require_same_kinds(session: Session, limits: Mapping[str, Settings]) -> None:
    counting = {row["name"] for row in await session.fetch("limits/counts", [*limits])}
    for known in await _find(session, limits):
        require_same_kind(known, limits[known.name], counts=known.name in counting)


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
    return [_info(row) for row in found]


def _info(row: Record) -> BucketInfo:
    override = None if row["override"] is None else from_json(row["override"])
    defined = None if row["settings"] is None else from_json(row["settings"])
    return BucketInfo(
        name=row["name"],
        settings=None if defined is None else (override or defined),
        override=override,
        retired=row["retired"],
        in_use=row["in_use"],
        waiting=row["waiting"],
        drained_for=row["drained_for"],
        opens_in=row["opens_in"],
    )


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
    if wrong and idle_for is not None:
        values = ([one.bucket for one in wrong], [one.held for one in wrong])
        await session.timed("limits/correct", *values)
    idle = [] if idle_for is None else await session.timed("limits/forget_idle", names, idle_for)
    return Recounted(len(page), wrong, len(idle), names[-1] if len(page) == limit else None)
