"""Limits on Valkey. A script has to see a job and all its buckets at once, so only a store of one
partition has limits. One of several refuses them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.errors import NotCapable
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
from holdfast.store.valkey.connection import ValkeyVerbs
from holdfast.store.valkey.inserting import LIMITED
from holdfast.store.valkey.layout import RuleRow
from holdfast.store.valkey.moments import to_datetime
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.rows import to_bucket_row, to_record, to_rule_row

DONE = 1
HOME = 0
"""The only partition of a store that has limits."""


class ValkeyLimits(ValkeyVerbs):
    """See `holdfast.store.contract.limits.Limits`."""

    async def _call(self, verb: str, **given: object) -> Any:
        return await self._connections.call(verb, HOME, given)

    async def _change(self, verb: str, **given: object) -> Any:
        if self._connections.options.partitions > 1:
            raise NotCapable("valkey", LIMITED)
        return await self._call(verb, **given)

    def _key(self, name: str) -> str:
        return self._connections.key(HOME, name)

    async def declare(self, limits: Mapping[str, Settings]) -> None:
        if limits:
            await self._define(limits, edited="")

    async def put(self, name: str, settings: Settings) -> LimitInfo:
        await self._define({name: settings}, edited="1")
        return (await self.find([name]))[0]

    async def _define(self, limits: Mapping[str, Settings], edited: str) -> None:
        rules = [word for name, one in limits.items() for word in (name, to_json(one))]
        answer = await self._change("limits/declare", edited=edited, rules=rules)
        if answer != DONE:
            name = answer.decode()
            for known in await self.find([name]):
                require_same_kind(known, limits[name], counts=True)

    async def override(self, name: str, key: str, settings: Settings | None) -> BucketInfo:
        bucket = bucket_name(name, key)
        text = "" if settings is None else to_json(settings)
        if await self._change("limits/override", bucket=bucket, settings=text) != DONE:
            require_override(name, await self.find([name]), settings)
        return (await self.get([bucket]))[0]

    async def retire(self, names: Collection[str]) -> list[str]:
        found = await self._change("limits/retire", names=sorted(names)) if names else []
        return [name.decode() for name in found]

    async def drain(self, buckets: Mapping[str, float]) -> None:
        if buckets:
            chosen = [word for one in buckets.items() for word in one]
            await self._change("limits/drain", chosen=chosen)

    async def find(self, names: Collection[str] = ()) -> list[LimitInfo]:
        found = dict(paired(await self._connections.command("HGETALL", self._key("limits"))))
        wanted = sorted(name for name in found if not names or name in names)
        bounds = [("ZLEXCOUNT", self._key("bucket_names"), f"[{n}:", f"({n};") for n in wanted]
        counts = await self._connections.commands(bounds)
        return [
            _limit(name, to_rule_row(found[name]), int(count))
            for name, count in zip(wanted, counts, strict=True)
        ]

    async def of(self, ids: Collection[JobId]) -> dict[JobId, str]:
        if not ids:
            return {}
        mine = [job for job in ids if self._connections.partition_of(job) == HOME]
        reads = [("GET", self._key(f"s:{job}")) for job in mine]
        blobs = await self._connections.commands(reads)
        found = {job: to_record(blob) for job, blob in zip(mine, blobs, strict=True) if blob}
        return {job: str(row.buckets) for job, row in found.items() if row.buckets}

    async def get(self, buckets: Collection[str]) -> list[BucketInfo]:
        if not buckets:
            return []
        moment, flat = await self._call("limits/get", chosen=[*buckets])
        each = zip(buckets, flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)
        return [_bucket(int(moment), *one) for one in each]

    async def buckets(
        self, name: str | None, limit: int, after: str | None = None
    ) -> list[BucketInfo]:
        first = "-" if name is None else f"[{name}:"
        bounds = (first if after is None else f"({after}", "+" if name is None else f"({name};")
        words = ("ZRANGEBYLEX", self._key("bucket_names"), *bounds, "LIMIT", 0, limit)
        found = await self._connections.command(*words)
        return await self.get([one.decode() for one in found])

    async def holders(self, bucket: str, limit: int) -> list[BucketHolder]:
        flat = await self._call("limits/holders", bucket=bucket, limit=limit)
        each = zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)
        return [
            BucketHolder(
                JobId(job.decode()), task.decode(), WorkerId(worker.decode()), to_datetime(int(at))
            )
            for job, task, worker, at in each
        ]

    async def recount(
        self,
        limit: int,
        after: str | None = None,
        *,
        idle_for: float = IDLE_SECONDS,
        mend: bool = True,
    ) -> Recounted:
        given = {
            "limit": limit,
            "behind_which": after or "",
            "idle_for": idle_for,
            "mend": "1" if mend else "",
        }
        names, wrong, forgotten = await self._call("limits/recount", **given)
        each = zip(wrong[::3], wrong[1::3], wrong[2::3], strict=True)
        miscounts = tuple(Miscount(name.decode(), counted, held) for name, counted, held in each)
        cursor = names[-1].decode() if len(names) == limit else None
        return Recounted(len(names), miscounts, int(forgotten), cursor)

    async def held_up(self, queues: Collection[str], tasks: Collection[str]) -> int:
        return int(await self._call("limits/held_up", queues=[*queues], tasks=[*tasks]))

    async def opens_in(self) -> float | None:
        micros = await self._call("limits/opens_in")
        return None if micros is None else int(micros) / 1e6


def _limit(name: str, row: RuleRow, buckets: int) -> LimitInfo:
    return LimitInfo(
        name=name,
        settings=from_json(row.settings),
        edited=row.edited,
        retired=row.retired,
        revision=row.revision,
        buckets=buckets,
    )


def _bucket(
    now: int, name: str, rule: bytes | None, blob: bytes, waiting: int, opens_in: bytes | None
) -> BucketInfo:
    row = to_bucket_row(blob)
    defined = None if rule is None else to_rule_row(rule)
    override = None if isinstance(row.override, bool) else from_json(row.override)
    shut = row.shut_until if not isinstance(row.shut_until, bool) else 0
    return BucketInfo(
        name=name,
        settings=None if defined is None else (override or from_json(defined.settings)),
        override=override,
        retired=defined is not None and defined.retired,
        in_use=row.in_use,
        waiting=waiting,
        drained_for=(shut - now) / 1e6 if shut > now else None,
        opens_in=None if opens_in is None else int(opens_in) / 1e6,
    )
