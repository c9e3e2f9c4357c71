"""What a Valkey store would keep for ever: found by ending and pruning everything in it.

All live jobs are ended and all flows with them, all open plans decided, the clock is moved past
every retention, workers are swept. What is then left must be what `docs/reference/valkey-keys.md`
says is kept: the layout's version, the queues and what is paused, roles that somebody led, totals,
what workers counted, all times ever measured and how far minutes are rolled up, and schedules with
their cursors.
When these are deleted too, nothing of them may be left.
"""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.clock import ManualClock
from holdfast.flow.model import ErrandKind
from holdfast.job.ends import Cancelled
from holdfast.job.outcome import decide
from holdfast.job.state import LIVE
from holdfast.schedule.model import Decision, Plan, Schedule
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.flows import FlowFilter
from holdfast.store.contract.measures import KEPT as MEASURES_KEPT
from holdfast.store.contract.store import Store
from holdfast.store.contract.telemetry import TRAFFIC_KEPT
from holdfast.store.open import open_store
from holdfast.store.valkey.store import ValkeyStore
from holdfast.testing.servers import ValkeyServer

ROLLED = ("closed", "rolled", "ever")
COUNTERS = ("wake_counters", "totals", "worker_counts", "happenings")
KEPT = ("meta", "queues", "paused", "leaders", *COUNTERS, *ROLLED)
LEDGER = ("ledger", "ledger-time", "ledger-scope", "ledger-expiry")
AGES = 36_500 * 86_400.0
LONG_AFTER = datetime(2150, 1, 1, tzinfo=UTC)
BEYOND = datetime(2299, 1, 1, tzinfo=UTC)


async def leftovers(server: ValkeyServer, url: str) -> list[str]:
    """The names of keys that nothing would ever remove."""
    keys = server.keys(url)
    if not any(key.endswith(":meta") for key in keys):
        return keys  # nobody ever opened it, or the test emptied it: then nothing may be there
    clock = ManualClock(LONG_AFTER)
    store = open_store(url, clock=clock)
    await store.open()
    try:
        await _end_all(store)
        await _decide_all(store)
        await _do_errands_of_parents(store)
        await _keep_no_flow_for_ever(store)
        clock.now = BEYOND
        while await store.flows.prune(1_000):
            pass
        while await store.jobs.prune(1_000):
            pass
        while await store.schedules.prune_ledger(1_000):
            pass
        while await store.audit.prune(1_000, 0.0):
            pass
        await store.operations.stop([one.id for one in await store.operations.find(limit=1_000)])
        while await store.operations.prune(1_000, 0.0):
            pass
        while await store.failures.prune(1_000, 0.0, 0):
            pass
        while await store.shelf.prune(1_000):
            pass
        await store.workers.sweep(10_000, 0.0)
        await _close_books(store, clock)
        schedules = await store.schedules.find()
        left = _not_kept(server.keys(url), schedules)
        await store.schedules.delete([schedule.name for schedule in schedules])
    finally:
        await store.close()
    return left or _not_kept(server.keys(url), [])


async def _close_books(store: Store, clock: ManualClock) -> None:
    """All minutes are rolled up and forgotten, and what they were rolled up to is removed."""
    clock.advance(TRAFFIC_KEPT + 120)
    while await store.telemetry.fold(1_000) or await store.telemetry.roll_up(100):
        pass
    clock.advance(max(MEASURES_KEPT.values()) + 120)
    while await store.telemetry.fold(1_000) or await store.telemetry.prune_measures(1_000):
        pass


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


async def _end_all(store: Store) -> None:
    while True:
        page = await store.jobs.page(JobFilter(states=LIVE), 500)
        if not page.jobs:
            return
        live = await store.jobs.live([job.id for job in page.jobs])
        await store.jobs.finish([decide(job, Cancelled()) for job in live])


async def _do_errands_of_parents(store: Store) -> None:
    """All parents have ended with the other jobs; until that is known, their flows are kept."""
    owed = [one.id for one in await store.flows.errands(10_000) if one.kind is ErrandKind.PARENT]
    await store.flows.done(owed)


async def _keep_no_flow_for_ever(store: Store) -> None:
    """All flows have ended with their jobs. One that is kept for ever has no entry among those that
    expire; given one, it must go as any other does."""
    assert isinstance(store, ValkeyStore)
    cursor: str | None = None
    while True:
        page = await store.flows.page(FlowFilter(), 500, cursor)
        for flow in page.flows:
            if flow.expires_at is None:
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
