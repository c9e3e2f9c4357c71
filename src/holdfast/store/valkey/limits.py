"""Limits on Valkey. A script has to see a job and all its buckets at once, so all buckets, and all
jobs that pass them, lie in the first partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.passing import (
    MOST_WEIGHT,
    Passed,
    bucket_name,
    require_own_buckets,
    require_own_name,
    split_bucket,
    without_aside,
)
from holdfast.limits.admission import Bucket, never_granted
from holdfast.limits.model import (
    Alarm,
    BucketInfo,
    LimitInfo,
    Miscount,
    Settings,
    from_json,
    require_budget,
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
from holdfast.store.valkey.buckets import calendar, calendars_of, to_bucket
from holdfast.store.valkey.connection import Connections, ValkeyVerbs
from holdfast.store.valkey.inserting import HOME
from holdfast.store.valkey.layout import RuleRow
from holdfast.store.valkey.moments import to_datetime
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.rows import known, to_record, to_rule_row

DONE = 1
A_DAY = 86_400_000_000  # microseconds


class ValkeyLimits(ValkeyVerbs):
    """See `holdfast.store.contract.limits.Limits`."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._looked_ahead_at = 0

    async def _call(self, verb: str, **given: object) -> Any:
        return await self._connections.call(verb, HOME, given)

    def _key(self, name: str) -> str:
        return self._connections.key(HOME, name)

    async def declare(self, limits: Mapping[str, Settings]) -> None:
        if limits:
            await self._define(limits, edited="")

    async def put(self, name: str, settings: Settings) -> LimitInfo:
        await self._define({name: settings}, edited="1")
        return (await self.find([name]))[0]

    async def _define(self, limits: Mapping[str, Settings], edited: str) -> None:
        for name in limits:
            require_own_name(name)
        rules = [word for name, one in limits.items() for word in (name, to_json(one))]
        calendars = calendars_of(limits.values(), await self._connections.now_micros())
        given = {"edited": edited, "rules": rules, "calendars": calendars}
        while (answer := await self._call("limits/declare", **given)) != DONE:
            name = answer.decode()
            for found in await self.find([name]):  # it may be retired by now: then define it
                if not edited:
                    require_declared_kind(found, limits[name])
                require_idle_kind(found, limits[name], counts=True)

    async def override(self, name: str, key: str, settings: Settings | None) -> BucketInfo:
        require_own_name(name)
        bucket = bucket_name(name, key)
        text = "" if settings is None else to_json(settings)
        calendars = calendars_of([settings], await self._connections.now_micros())
        given = {"bucket": bucket, "settings": text, "calendars": calendars}
        if await self._call("limits/override", **given) != DONE:
            require_override(name, await self.find([name]), settings)
        return (await self.get([bucket]))[0]

    async def retire(self, names: Collection[str]) -> list[str]:
        for name in names:
            require_own_name(name)
        found = await self._call("limits/retire", names=sorted(names)) if names else []
        return [name.decode() for name in found]

    async def drain(self, buckets: Mapping[str, float]) -> None:
        require_own_buckets(buckets)
        if buckets:
            chosen = [word for one in buckets.items() for word in one]
            await self._call("limits/drain", chosen=chosen)

    async def take(self, takes: Sequence[Take]) -> list[Taken]:
        if not takes:
            return []
        asked = [(one.units, one.buckets) for one in takes]
        moment, answers = await self._call("limits/take", takes=asked)
        return [
            await self._taken(one, int(moment), answer)
            for one, answer in zip(takes, answers, strict=True)
        ]

    async def _taken(self, take: Take, moment: int, answer: bytes | int | None) -> Taken:
        if answer == DONE:
            return Taken(True, at=moment)
        if answer is None:
            return Taken(False)
        if isinstance(answer, bytes) and answer.isdigit():
            return Taken(False, wait=int(answer) / 1e6)
        _, [(found, *_)] = await self._read([take.bucket])
        return Taken(False, refused=never_granted(found, take.units, moment))

    async def give(self, takes: Sequence[Take]) -> None:
        if takes:
            given = [(one.units, one.buckets, one.at) for one in takes]
            await self._call("limits/give", takes=given)

    async def adjust(self, bucket: str, amount: int) -> BucketInfo:
        done = await self._call("limits/adjust", bucket=bucket, amount=amount)
        [found] = await self.get([bucket])
        if done != DONE:
            require_budget(bucket, found.settings)
        return found

    async def reset(self, buckets: Collection[str]) -> list[BucketInfo]:
        if not buckets:
            return []
        answer = await self._call("limits/reset", chosen=[*buckets])
        if answer != DONE:
            [found] = await self.get([answer.decode()])
            expected = "a rate or a budget: only ends of jobs give back what others count"
            raise BadOption(f"limit {split_bucket(found.name)[0]!r}", expected, found.settings)
        return await self.get(buckets)

    async def alarms(self, limit: int) -> list[Alarm]:
        flat = await self._call("limits/alarms", limit=limit)
        each = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        return [alarm for name, *row in each for alarm in to_bucket(name.decode(), *row).told()]

    async def weigh(self, fair: str, weight: int | None) -> None:
        text = "" if weight is None else str(checks.count("weight", weight, most=MOST_WEIGHT))
        await self._call("limits/weigh", fair=fair, weight=text)

    async def find(self, names: Collection[str] = ()) -> list[LimitInfo]:
        found = dict(paired(await self._connections.command("HGETALL", self._key("limits"))))
        wanted = sorted(name for name in found if not names or name in names)
        bounds = [("ZLEXCOUNT", self._key("bucket_names"), f"[{n}:", f"({n};") for n in wanted]
        counts = await self._connections.commands(bounds)
        return [
            _limit(name, to_rule_row(found[name]), int(count))
            for name, count in zip(wanted, counts, strict=True)
        ]

    async def of(self, ids: Collection[JobId]) -> dict[JobId, Passed]:
        if not ids:
            return {}
        mine = [job for job in ids if self._connections.partition_of(job) == HOME]
        reads = [("GET", self._key(f"s:{job}")) for job in mine]
        blobs = await self._connections.commands(reads)
        found = {job: to_record(blob) for job, blob in zip(mine, blobs, strict=True) if blob}
        return {
            job: Passed(without_aside(buckets), known(row.costs))
            for job, row in found.items()
            if (buckets := known(row.buckets))
        }

    async def get(self, buckets: Collection[str]) -> list[BucketInfo]:
        now, found = await self._read(buckets)
        return [bucket_info(one, now, *lines) for one, *lines in found]

    async def _read(self, buckets: Collection[str]) -> tuple[int, list[tuple[Bucket, int, int]]]:
        """The store's time, and of each bucket how many lines are parked there, and how many of
        those can never pass."""
        if not buckets:
            return 0, []
        moment, flat = await self._call("limits/get", chosen=[*buckets])
        each = zip(buckets, flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)
        found = [(to_bucket(name, *row), waiting, stuck) for name, *row, waiting, stuck in each]
        return int(moment), found

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

    async def waiters(self, bucket: str, limit: int, *, never: bool = False) -> list[BucketWaiter]:
        given = {"bucket": bucket, "limit": limit, "never": "1" if never else ""}
        flat = [one.decode() for one in await self._call("limits/waiters", **given)]
        each = zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)
        return [
            BucketWaiter(JobId(job), task, queue, int(needs)) for job, task, queue, needs in each
        ]

    async def before(self, ids: Collection[JobId]) -> dict[JobId, JobId]:
        mine = [job for job in ids if self._connections.partition_of(job) == HOME]
        flat = await self._call("limits/before", chosen=mine) if mine else []
        each = zip(flat[::2], flat[1::2], strict=True)
        return {JobId(job.decode()): JobId(first.decode()) for job, first in each}

    async def recount(
        self,
        limit: int,
        after: str | None = None,
        *,
        idle_for: float = IDLE_SECONDS,
        mend: bool = True,
    ) -> Recounted:
        if after is None and mend:
            await self._look_ahead()
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

    async def _look_ahead(self) -> None:
        """Add the periods to the calendars of budgets that have come nearer, once a day."""
        now = await self._connections.now_micros()
        if now < self._looked_ahead_at + A_DAY:
            return
        self._looked_ahead_at = now
        for name in await self._connections.command("HKEYS", self._key("periods")):
            if not name.startswith(b"="):
                found = calendar(name.decode(), now)
                await self._connections.command("HSET", self._key("periods"), name, found)

    async def held_up(
        self, queues: Collection[str], tasks: Collection[str], labels: Collection[str] | None = None
    ) -> int:
        mine = None if labels is None else [*labels]
        given = {"queues": [*queues], "tasks": [*tasks], "labels": mine}
        return int(await self._call("limits/held_up", **given))

    async def opens_in(self, queues: Collection[str] | None = None) -> float | None:
        asked = None if queues is None else [*queues]
        micros = await self._call("limits/opens_in", queues=asked, most=MOST_OPENINGS)
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
