"""What a Valkey store would keep for ever: found by ending and pruning everything in it.

All live jobs are ended and all flows with them, all open plans decided, the clock is moved past
every retention, workers are swept. What is then left must be what `docs/reference/valkey-keys.md`
says is kept: the layout's version, marks, the queues and what is paused, roles that somebody led,
totals, what workers counted, all times ever measured and how far minutes are rolled up, limits with
the calendars of budgets, the last turns of lines, weights that operators gave, and schedules with
their cursors.
When these are deleted too, nothing of them may be left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from holdfast.clock import ManualClock
from holdfast.flow.errands import do_errand
from holdfast.flow.model import ErrandKind
from holdfast.flow.undoing import NAME as UNDO
from holdfast.job.ends import Cancelled
from holdfast.job.outcome import decide
from holdfast.job.state import LIVE
from holdfast.limits.model import Concurrency
from holdfast.schedule.model import Decision, Plan, Schedule
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.flows import FlowFilter
from holdfast.store.contract.measures import KEPT as MEASURES_KEPT
from holdfast.store.contract.store import Store
from holdfast.store.contract.telemetry import TRAFFIC_KEPT
from holdfast.store.open import open_store
from holdfast.store.valkey.store import ValkeyStore

ROLLED = ("closed", "rolled", "ever")
COUNTERS = ("wake_counters", "totals", "worker_counts", "happenings", "turns")
SETTINGS = ("queues", "paused", "limits", "periods", "weights")
KEPT = ("meta", "mark", "leaders", *SETTINGS, *COUNTERS, *ROLLED)
LEDGER = ("ledger", "ledger-time", "ledger-scope", "ledger-expiry")
BOOKS = {"traffic", "measures", "series"}
LAST_MINUTE = 2**40
BATCH = 1_000
ALL_MINUTES = 1_000_000
"""More than the longest test lets pass."""
AGES = 36_500 * 86_400.0
LONG_AFTER = datetime(2150, 1, 1, tzinfo=UTC)
BEYOND = datetime(2299, 1, 1, tzinfo=UTC)


async def leftovers(url: str) -> list[str]:
    """The names of keys in this place that nothing would ever remove. Nothing is left there."""
    search = Search()
    try:
        return await search.leftovers(url)
    finally:
        await search.close()


class Search:
    """Looks into one place of a server after the other, all over one connection: to open one takes
    longer than most looks."""

    def __init__(self) -> None:
        self._first: ValkeyStore | None = None

    async def leftovers(self, url: str) -> list[str]:
        """A noun without a key is passed over, because most tests touch few nouns: a key that
        somebody forgets to remove is a key of its noun, or is left and named."""
        clock = ManualClock(LONG_AFTER)
        store = await self._store(url, clock)
        keys = await _keys(store)
        left = keys  # if nobody ever opened it, or the test emptied it, nothing may be there
        if any(key.endswith(":meta") for key in keys):
            await _remove_all(store, clock, Kinds(keys))
            schedules = await store.schedules.find() if "schedules" in Kinds(keys) else []
            left = _not_kept(keys := await _keys(store), schedules)
            if schedules and not left:
                await store.schedules.delete([schedule.name for schedule in schedules])
                left = _not_kept(keys := await _keys(store), [])
        await _delete(store, keys)
        return left

    async def close(self) -> None:
        if self._first is not None:
            await self._first.close()

    async def _store(self, url: str, clock: ManualClock) -> ValkeyStore:
        """Without the look at the server that each opening takes."""
        store = open_store(url, clock=clock)
        assert isinstance(store, ValkeyStore)
        if self._first is None:
            await store._connections.open()
            self._first = store
        store._connections._client = self._first._connections._client
        return store


async def _keys(store: ValkeyStore) -> list[str]:
    """Every key of the namespace, on every node."""

    async def scan(client: Any) -> list[str]:
        pattern = f"{{{store._connections.options.namespace}[:}}]*"
        found = [key async for key in client.scan_iter(match=pattern, count=1_000)]
        return sorted({key.decode(errors="replace") for key in found})

    return await store._connections.run(scan)


async def _delete(store: ValkeyStore, keys: list[str]) -> None:
    """Those of one slot of a cluster at a time."""
    of_slots = groupby(keys, lambda key: key.partition("}")[0])
    await store._connections.commands([("DEL", *of_slot) for _, of_slot in of_slots])


class Kinds(frozenset[str]):
    """The kinds of keys that a store has: `{space:0}:ledger:nightly` is one of `ledger`."""

    def __new__(cls, keys: Iterable[str]) -> Kinds:
        return super().__new__(cls, (key.partition("}:")[2].partition(":")[0] for key in keys))


async def _remove_all(store: ValkeyStore, clock: ManualClock, kinds: frozenset[str]) -> None:
    await _end_all(store, kinds)
    if "errands" in kinds or "st" in kinds:
        kinds = await _undo_all(store, kinds)
    if "schedules" in kinds:
        await _decide_all(store)
    if "f" in kinds:
        await _do_errands_of_parents(store)
        await _keep_no_flow_for_ever(store)
    if "operations" in kinds:
        await store.operations.stop([one.id for one in await store.operations.find(limit=1_000)])
    clock.now = BEYOND
    await _prune_all(store, kinds)
    if "buckets" in kinds:
        await _forget_buckets(store)
    if kinds & {"workers", "leases"}:
        await store.workers.sweep(10_000, 0.0)
    if kinds & BOOKS:
        await _close_books(store, clock)
    else:
        await _forget_moves(store, clock)


async def _prune_all(store: Store, kinds: frozenset[str]) -> None:
    """Where there are flows twice: jobs let the flows go that they had called."""
    for _ in range(2 if "f" in kinds else 1):
        for kind, prune in _prunes(store).items():
            while kind in kinds and await prune() == BATCH:
                pass


def _prunes(store: Store) -> dict[str, Callable[[], Awaitable[int]]]:
    """What removes the keys of a kind and of all that belong to it, flows before their jobs."""
    return {
        "f": lambda: store.flows.prune(BATCH),
        "s": lambda: store.jobs.prune(BATCH),
        "ledgers": lambda: store.schedules.prune_ledger(BATCH),
        "audit": lambda: store.audit.prune(BATCH, 0.0),
        "operations": lambda: store.operations.prune(BATCH, 0.0),
        "failures": lambda: store.failures.prune(BATCH, 0.0, 0),
        "shelf": lambda: store.shelf.prune(BATCH),
    }


async def _forget_buckets(store: Store) -> None:
    """Settings of their own are dropped, budgets begin anew, their alarms are told, and all buckets
    that hold nothing are forgotten."""
    for limit in await store.limits.find():
        buckets = await store.limits.buckets(limit.name, 1_000)
        for bucket in buckets:
            await store.limits.override(limit.name, bucket.key, None)
        if not limit.retired and not isinstance(limit.settings, Concurrency):
            await store.limits.reset([bucket.name for bucket in buckets])
    await store.limits.alarms(1_000)
    await store.limits.recount(1_000, idle_for=-1.0)


async def _close_books(store: Store, clock: ManualClock) -> None:
    """All minutes are rolled up and forgotten, and what they were rolled up to is removed."""
    clock.advance(TRAFFIC_KEPT + 120)
    while await store.telemetry.fold(1_000) or await store.telemetry.roll_up(100):
        pass
    clock.advance(max(MEASURES_KEPT.values()) + 120)
    while await store.telemetry.fold(1_000) or await store.telemetry.prune_measures(1_000):
        pass


async def _forget_moves(store: ValkeyStore, clock: ManualClock) -> None:
    """The same where nobody folded or measured, as nearly everywhere: that a minute is rolled up is
    then only said, because it takes longer than most tests."""
    connections = store._connections
    await connections.command("SET", connections.key(0, "rolled"), LAST_MINUTE)
    for _ in ("folded", "forgotten"):
        clock.advance(TRAFFIC_KEPT + 120)
        await store.telemetry.fold(ALL_MINUTES)


def _not_kept(keys: list[str], schedules: list[Schedule]) -> list[str]:
    """Besides what is always kept, schedules keep cursors; one that keeps its ledger beyond any
    calendar may have it."""
    kept = [f"}}:{name}" for name in KEPT]
    if schedules:
        kept.append("}:schedules")
    for schedule in schedules:
        kept.append(f"}}:cursors:{schedule.name}")
        if schedule.definition.keep > AGES:
            kept += [f"}}:{kind}:{schedule.name}" for kind in LEDGER] + ["}:ledgers"]
    return [key for key in keys if not key.endswith(tuple(kept))]


async def _end_all(store: Store, kinds: frozenset[str]) -> None:
    """Until none is left: an end may let other jobs of its flow become live."""
    more = True
    while more:
        page = await store.jobs.page(JobFilter(states=LIVE), 500)
        if not page.jobs:
            return
        more = "f" in kinds or page.next_cursor is not None
        live = await store.jobs.live([job.id for job in page.jobs])
        await store.jobs.finish([decide(job, Cancelled()) for job in live])


async def _undo_all(store: Store, kinds: frozenset[str]) -> frozenset[str]:
    """Jobs are kept until their steps are being undone. Answers the kinds of keys that there are
    then."""
    owed = [one for one in await store.flows.errands(10_000) if one.kind is ErrandKind.UNDO]
    for errand in owed:
        await do_errand(store, errand)
    kinds = kinds | {"f"} if owed else kinds
    await _end_all(store, kinds)
    return kinds


async def _do_errands_of_parents(store: Store) -> None:
    """All parents have ended with the other jobs; until that is known, their flows are kept."""
    owed = [one.id for one in await store.flows.errands(10_000) if one.kind is ErrandKind.PARENT]
    await store.flows.done(owed)


async def _keep_no_flow_for_ever(store: ValkeyStore) -> None:
    """All flows have ended with their jobs. One that is kept for ever has no entry among those that
    expire; given one, it must go as any other does. What undoes a job goes with the job."""
    cursor: str | None = None
    while True:
        page = await store.flows.page(FlowFilter(), 500, cursor)
        for flow in page.flows:
            if flow.expires_at is None and flow.name != UNDO:
                partition = store._connections.partition_of(flow.id)
                key = store._connections.key(partition, "flow-expiry")
                await store._connections.command("ZADD", key, 1, flow.id)
        cursor = page.next_cursor
        if cursor is None:
            return


async def _decide_all(store: Store) -> None:
    for schedule in await store.schedules.find():
        while page := await store.schedules.failed_plans(schedule.name, 500):
            await store.schedules.record(
                [Plan(row.schedule, row.scope, row.at, Decision.MISSED) for row in page]
            )
