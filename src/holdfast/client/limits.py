"""The verbs on limits: `client.limits.set("tenant", key="acme", most=20)`."""

from __future__ import annotations

from holdfast.client.acting import Acts
from holdfast.enqueue.options import Seconds
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.passing import Passing, bucket_name
from holdfast.limits.model import BucketInfo, Concurrency, LimitInfo
from holdfast.store.contract.limits import BucketHolder
from holdfast.store.contract.store import Store

BUCKETS_BATCH = 100
AnyLimit = str | Passing


class LimitVerbs:
    """Read limits and their buckets, change them, shut and open them."""

    def __init__(self, store: Store, acts: Acts | None = None) -> None:
        self._store = store
        self._acts = acts or Acts()

    async def all(self, *names: str) -> list[LimitInfo]:
        """Every limit by name, or only those named."""
        return await self._store.limits.find(names)

    async def buckets(
        self, limit: AnyLimit | None = None, *, page: int = BUCKETS_BATCH, after: str | None = None
    ) -> list[BucketInfo]:
        """The buckets of one limit, or of all, that count or hold up something: by name, behind
        the bucket `after`."""
        name = None if limit is None else _name(limit)
        return await self._store.limits.buckets(name, checks.count("page", page), after)

    async def get(self, limit: AnyLimit, key: str = "") -> BucketInfo:
        """One bucket as it stands; it need not count anything yet."""
        [found] = await self._store.limits.get([_bucket(limit, key)])
        return found

    async def holders(
        self, limit: AnyLimit, key: str = "", *, page: int = BUCKETS_BATCH
    ) -> list[BucketHolder]:
        """The running jobs that a bucket counts, the oldest first."""
        most = checks.count("page", page)
        return await self._store.limits.holders(_bucket(limit, key), most)

    async def set(
        self, limit: AnyLimit, *, most: int, key: str | None = None, by: str | None = None
    ) -> BucketInfo:
        """Let at most so many jobs run at once through a limit, or through one key of it. It counts
        from the next claim on. Nothing that runs is stopped, and no redeploy overwrites it."""
        name, settings = _name(limit), Concurrency(most)
        value = {"key": key, "most": most}
        async with self._acts.act(self._store, by, Noun.LIMITS, Verb.SET, name, value=value) as act:
            if key is None:
                await self._store.limits.put(name, settings)
            else:
                await self._store.limits.override(name, key, settings)
            act.changed = 1
        return await self.get(name, key or "")

    async def inherit(self, limit: AnyLimit, key: str, *, by: str | None = None) -> BucketInfo:
        """Let a key have the settings of its limit again."""
        name, value = _name(limit), {"key": key, "most": None}
        async with self._acts.act(self._store, by, Noun.LIMITS, Verb.SET, name, value=value) as act:
            found = await self._store.limits.override(name, key, None)
            act.changed = 1
        return found

    async def drain(
        self, limit: AnyLimit, seconds: Seconds, *, key: str = "", by: str | None = None
    ) -> BucketInfo:
        """Let nothing begin through a bucket for so long; 0 ends that, and ends what a throttle has
        begun."""
        name, bucket = _name(limit), _bucket(limit, key)
        wait = checks.wait("seconds", seconds)
        value = {"key": key, "seconds": wait}
        acting = self._acts.act(self._store, by, Noun.LIMITS, Verb.DRAIN, name, value=value)
        async with acting as act:
            await self._store.limits.drain({bucket: wait})
            act.changed = 1
        return await self.get(name, key)

    async def retire(self, limit: AnyLimit, *, by: str | None = None) -> bool:
        """Let a limit hold nothing up any more; whether it was defined. A worker whose code defines
        it brings it back."""
        name = _name(limit)
        async with self._acts.act(self._store, by, Noun.LIMITS, Verb.RETIRE, name) as act:
            retired = await self._store.limits.retire([name])
            act.changed = len(retired)
        return bool(retired)


def _name(limit: AnyLimit) -> str:
    name = limit.limit if isinstance(limit, Passing) else limit
    bucket_name(name)
    return name


def _bucket(limit: AnyLimit, key: str) -> str:
    return bucket_name(_name(limit), key)
