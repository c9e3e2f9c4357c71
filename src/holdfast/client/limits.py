"""The verbs on limits: `client.limits.set("tenant", key="acme", most=20)`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from holdfast.client.acting import Acts
from holdfast.client.selection import LONGEST_TEXT
from holdfast.enqueue.options import Seconds
from holdfast.errors import BadOption
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.json_text import shown_value
from holdfast.job.line_rule import Passing
from holdfast.job.passing import (
    LONGEST_KEY,
    MOST_UNITS,
    MOST_WEIGHT,
    bucket_name,
    path_of,
    require_own_name,
)
from holdfast.limits.definition import changed
from holdfast.limits.model import BucketInfo, Budget, LimitInfo, Settings, require_defined
from holdfast.store.contract.audit import AuditEntry, AuditFilter
from holdfast.store.contract.limits import BucketHolder, BucketWaiter
from holdfast.store.contract.store import Store

BUCKETS_BATCH = 100
FOR = "for"
"""The key of a bucket in the audit, where `key` would be taken for a secret and not be kept."""
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
        if after is not None:
            checks.text("after", after, LONGEST_TEXT)
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

    async def waiters(
        self, limit: AnyLimit, key: str = "", *, page: int = BUCKETS_BATCH, never: bool = False
    ) -> list[BucketWaiter]:
        """The first jobs of the lines that wait at a bucket, in their order. With `never`, only
        those that cost more than it ever lets pass; without, only the others."""
        most = checks.count("page", page)
        return await self._store.limits.waiters(_bucket(limit, key), most, never=never)

    async def history(
        self, limit: AnyLimit, key: str | None = None, *, page: int = BUCKETS_BATCH
    ) -> list[AuditEntry]:
        """What operators did to a limit, the newest first. With a `key`, only what concerns this
        key: acts on it, and those on the whole limit. The audit forgets old acts."""
        most, which = checks.count("page", page), AuditFilter(target=_name(limit))
        found: list[AuditEntry] = []
        cursor: str | None = None
        while len(found) < most:
            acts = await self._store.audit.page(which, BUCKETS_BATCH, cursor)
            found += [one for one in acts.entries if _concerns(one, key)]
            cursor = acts.next_cursor
            if cursor is None:
                break
        return found[:most]

    async def set(
        self,
        limit: AnyLimit,
        *,
        key: str | None = None,
        most: int | UnsetType = UNSET,
        per: Seconds | UnsetType = UNSET,
        burst: int | UnsetType | None = UNSET,
        hard: int | UnsetType = UNSET,
        soft: int | UnsetType | None = UNSET,
        every: str | Seconds | UnsetType | None = UNSET,
        timezone: str | UnsetType = UNSET,
        on_failure: str | UnsetType = UNSET,
        create: bool = False,
        by: str | None = None,
    ) -> BucketInfo:
        """Change settings of a limit, or of one key of it: `most` of a concurrency or a rate, `per`
        and `burst` of a rate, the others of a budget. What is left out stays, and `soft` stays the
        same part of `hard`. The next claim obeys. Nothing that runs is stopped, and no redeploy
        overwrites the change.

        A limit that is not defined is refused, because its name may be misspelt. With `create` it
        is made: a budget if it has a `hard` amount, a rate if it has a `per`."""
        checks.flag("create", create)
        given: dict[str, object] = {"most": most, "per": per, "burst": burst, "hard": hard}
        given |= {"soft": soft, "every": every, "timezone": timezone, "on_failure": on_failure}
        changes = {option: value for option, value in given.items() if value is not UNSET}
        name = _name(limit)
        settings = await self._changed(name, key, changes, create)
        if key is not None and isinstance(settings, Budget):
            path_of(_bucket(name, key))  # no job could ever pass another key
        value = {FOR: key, **{option: getattr(settings, option) for option in changes}}
        async with self._acts.act(self._store, by, Noun.LIMITS, Verb.SET, name, value=value) as act:
            if key is None:
                await self._store.limits.put(name, settings)
            else:
                await self._store.limits.override(name, key, settings)
            act.changed = 1
        return await self.get(name, key or "")

    async def _changed(
        self, name: str, key: str | None, changes: dict[str, object], create: bool
    ) -> Settings:
        require_own_name(name)
        known = await self._store.limits.find([name])
        if not (known or create):
            expected = "one that is defined (see client.limits.all()); create=True makes it"
            raise BadOption("limit", expected, name)
        before = known[0].settings if known else None
        if key is not None and known:
            before = (await self.get(name, key)).settings
        return changed(name, before, changes)

    async def inherit(self, limit: AnyLimit, key: str, *, by: str | None = None) -> BucketInfo:
        """Let a key have the settings of its limit again."""
        name, value = _name(limit), {FOR: key, "inherit": True}
        async with self._acts.act(self._store, by, Noun.LIMITS, Verb.SET, name, value=value) as act:
            found = await self._store.limits.override(name, key, None)
            act.changed = 1
        return found

    async def weigh(self, key: str, weight: int | None, *, by: str | None = None) -> None:
        """Let the jobs of one key of fairness (`fair=`) have this weight in every queue, whatever
        they were enqueued with; None leaves it to them again."""
        checks.text("key", key, LONGEST_KEY)
        if weight is not None:
            checks.count("weight", weight, most=MOST_WEIGHT)
        value = {"weight": weight}
        acting = self._acts.act(self._store, by, Noun.LIMITS, Verb.WEIGH, key, value=value)
        async with acting as act:
            await self._store.limits.weigh(key, weight)
            act.changed = 1

    async def drain(
        self, limit: AnyLimit, seconds: Seconds, *, key: str = "", by: str | None = None
    ) -> BucketInfo:
        """Let nothing begin through a bucket for so long; 0 ends that, and ends what a throttle has
        begun."""
        bucket, wait = _bucket(limit, key), checks.wait("seconds", seconds)
        name = await self._defined(limit)
        value = {FOR: key, "seconds": wait}
        acting = self._acts.act(self._store, by, Noun.LIMITS, Verb.DRAIN, name, value=value)
        async with acting as act:
            await self._store.limits.drain({bucket: wait})
            act.changed = 1
        return await self.get(name, key)

    async def top_up(
        self, limit: AnyLimit, amount: int, *, key: str = "", by: str | None = None
    ) -> BucketInfo:
        """Let so much more be spent of a budget in its period, or less with an amount below 0."""
        bucket = _bucket(limit, key)
        units = checks.count("amount", amount, least=-MOST_UNITS, most=MOST_UNITS)
        name = await self._defined(limit)
        value = {FOR: key, "amount": units}
        acting = self._acts.act(self._store, by, Noun.LIMITS, Verb.TOP_UP, name, value=value)
        async with acting as act:
            found = await self._store.limits.adjust(bucket, units)
            act.changed = 1
        return found

    async def reset(self, limit: AnyLimit, *, key: str = "", by: str | None = None) -> BucketInfo:
        """Let a budget forget what was spent in its period, or a rate what has begun."""
        bucket, value = _bucket(limit, key), {FOR: key}
        name = await self._defined(limit)
        acting = self._acts.act(self._store, by, Noun.LIMITS, Verb.RESET, name, value=value)
        async with acting as act:
            [found] = await self._store.limits.reset([bucket])
            act.changed = 1
        return found

    async def retire(self, limit: AnyLimit, *, by: str | None = None) -> bool:
        """Let a limit hold nothing up any more; whether it was defined. A worker whose code defines
        it brings it back."""
        name = _name(limit)
        async with self._acts.act(self._store, by, Noun.LIMITS, Verb.RETIRE, name) as act:
            retired = await self._store.limits.retire([name])
            act.changed = len(retired)
        return bool(retired)

    async def _defined(self, limit: AnyLimit) -> str:
        """The name of a limit that is there. A bucket of another one would hold nobody up, and the
        operator who misspelt the name would not know."""
        name = _name(limit)
        require_own_name(name)
        require_defined(name, await self._store.limits.find([name]))
        return name


def _concerns(act: AuditEntry, key: str | None) -> bool:
    """Whether an act on what has the name of a limit is one on the limit, and on this key."""
    noun, _, verb = act.verb.partition(".")
    if noun != Noun.LIMITS or verb == Verb.WEIGH:
        return False
    said = shown_value(act.arguments)
    return key is None or not isinstance(said, dict) or said.get(FOR) in (None, key)


def _name(limit: AnyLimit) -> str:
    name = limit.limit if isinstance(limit, Passing) else limit
    bucket_name(name)
    return name


def _bucket(limit: AnyLimit, key: str) -> str:
    return bucket_name(_name(limit), key)
