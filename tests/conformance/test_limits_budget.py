"""Budgets: reserved at the claim, settled at the end, refunded where nothing was spent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast.job.ends import (
    Cancelled,
    End,
    HandedBack,
    PutOff,
    Reclaimed,
    Snoozed,
    TimedOut,
    WasSuspended,
    WasThrottled,
    WorkerLost,
)
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.limits.model import AlarmWhat, Budget
from holdfast.store.contract.limits import Take
from holdfast.store.contract.records import SpendReport
from holdfast.store.contract.wakeups import Topic, Wakeup
from tests.conformance.builders import FAILED, RAISED, RETURNED, Scene
from tests.conformance.limiting import (
    at_cost,
    bucket,
    costing,
    define,
    nothing_is_wrong,
    of,
)
from tests.support.waiting import wait_until

DAY = 86_400.0


async def books(scene: Scene, name: str = "tokens:") -> tuple[int, int]:
    found = await bucket(scene, name)
    return found.spent, found.in_use


async def spending(scene: Scene, cost: int, **options: Any) -> Claimed:
    job = await scene.enqueue(**costing(tokens=cost), **options)
    [held] = await scene.claim(1)
    assert held.id == job
    return held


async def settle(scene: Scene, job: Claimed, end: End = RETURNED, **spent: int) -> None:
    move = msgspec.structs.replace(decide(job, end), spent=tuple(spent.items()))
    [verdict] = await scene.store.jobs.finish([move])
    assert verdict.accepted


def until(scene: Scene, moment: datetime) -> None:
    scene.clock.advance((moment - scene.clock.now).total_seconds())


async def test_no_more_begins_than_is_left(scene: Scene) -> None:
    await define(scene, tokens=Budget(100))
    jobs = [await scene.enqueue(**costing(tokens=10)) for _ in range(20)]
    held = await scene.claim(20)
    assert of(held) == jobs[:10]
    assert await books(scene) == (0, 100)
    await scene.finish(held[0])
    assert await books(scene) == (10, 90)
    assert await scene.claim(20) == []
    await nothing_is_wrong(scene)


async def test_what_was_reported_settles_the_reservation(scene: Scene) -> None:
    await define(scene, tokens=Budget(100))
    held = await spending(scene, 60)
    await settle(scene, held, tokens=20)
    assert await books(scene) == (20, 0)
    assert (await bucket(scene, "tokens:")).room == 80


@pytest.mark.parametrize(
    "end",
    [
        RAISED, FAILED, TimedOut(3), Cancelled(), Snoozed(5), WasThrottled(5, "429"),
        WasSuspended(5), HandedBack(), HandedBack(begun=False), PutOff(5, "later"),
    ],
    ids=str,
)  # fmt: skip
async def test_an_attempt_that_did_not_return_is_refunded(scene: Scene, end: End) -> None:
    await define(scene, tokens=Budget(100))
    await settle(scene, await spending(scene, 60), end)
    assert await books(scene) == (0, 0)


@pytest.mark.parametrize(
    "end", [RAISED, TimedOut(3), Cancelled(), Snoozed(5), HandedBack()], ids=str
)
async def test_what_was_reported_is_spent_however_it_ends(scene: Scene, end: End) -> None:
    await define(scene, tokens=Budget(100))
    await settle(scene, await spending(scene, 60), end, tokens=45)
    assert await books(scene) == (45, 0)


@pytest.mark.parametrize("end", [RAISED, FAILED, TimedOut(3), Cancelled()], ids=str)
async def test_a_failure_may_be_charged(scene: Scene, end: End) -> None:
    await define(scene, tokens=Budget(100, on_failure="charge"))
    await settle(scene, await spending(scene, 60), end)
    assert await books(scene) == (60, 0)


@pytest.mark.parametrize("end", [Snoozed(5), WasSuspended(5), HandedBack()], ids=str)
async def test_what_goes_on_later_is_no_failure_to_charge(scene: Scene, end: End) -> None:
    await define(scene, tokens=Budget(100, on_failure="charge"))
    await settle(scene, await spending(scene, 60), end)
    assert await books(scene) == (0, 0)


async def test_a_report_outlives_its_worker(scene: Scene) -> None:
    await define(scene, tokens=Budget(100))
    worker = await scene.hire()
    job = await scene.enqueue(**costing(tokens=60))
    [held] = await scene.claim(1, worker=worker)
    report = SpendReport(held.id, held.fence, {"tokens": 25})
    assert await scene.store.jobs.report_spend([report]) == [True]
    assert await books(scene) == (0, 60)
    await scene.lose(worker)
    [live] = await scene.store.jobs.lapsed_leases(10)
    assert live.id == job
    assert (await scene.reclaim(live, WorkerLost())).accepted
    assert await books(scene) == (25, 0)
    await nothing_is_wrong(scene)


async def test_a_lost_worker_is_not_charged(scene: Scene) -> None:
    await define(scene, tokens=Budget(100, on_failure="charge"))
    worker = await scene.hire()
    await scene.enqueue(**costing(tokens=60))
    await scene.claim(1, worker=worker)
    await scene.lose(worker)
    [live] = await scene.store.jobs.lapsed_leases(10)
    assert (await scene.reclaim(live, Reclaimed("lost", suspected=False))).accepted
    assert await books(scene) == (0, 0)


async def test_reports_are_totals(scene: Scene) -> None:
    """The same report twice, as after a lost reply, counts once."""
    await define(scene, tokens=Budget(100), cents=Budget(50))
    await scene.enqueue(**costing(tokens=60, cents=10))
    [held] = await scene.claim(1)
    for spent in ({"tokens": 10}, {"tokens": 10}, {"tokens": 30}, {"cents": 4}):
        await scene.store.jobs.report_spend([SpendReport(held.id, held.fence, spent)])
    await scene.finish(held)
    assert (await books(scene), await books(scene, "cents:")) == ((30, 0), (4, 0))


async def test_the_end_has_the_last_word_about_what_was_spent(scene: Scene) -> None:
    await define(scene, tokens=Budget(100))
    held = await spending(scene, 60)
    await scene.store.jobs.report_spend([SpendReport(held.id, held.fence, {"tokens": 10})])
    await settle(scene, held, tokens=35)
    assert await books(scene) == (35, 0)


async def test_a_zombie_reports_nothing(scene: Scene) -> None:
    await define(scene, tokens=Budget(100))
    held = await spending(scene, 60)
    await scene.finish(held, HandedBack())
    [again] = await scene.claim(1)
    assert await scene.store.jobs.report_spend(
        [SpendReport(held.id, held.fence, {"tokens": 50}), SpendReport(again.id, again.fence, {})]
    ) == [False, True]
    await scene.finish(again, HandedBack())
    assert await books(scene) == (0, 0)


async def test_more_than_was_estimated_is_recorded_as_it_is(scene: Scene) -> None:
    await define(scene, tokens=Budget(100))
    await settle(scene, await spending(scene, 60), tokens=150)
    assert await books(scene) == (150, 0)
    assert (await bucket(scene, "tokens:")).room == 0
    [alarm] = await scene.store.limits.alarms(10)
    assert (alarm.bucket, alarm.what, alarm.spent) == ("tokens:", AlarmWhat.OVERRUN, 150)


async def test_a_budget_begins_anew_with_its_period(scene: Scene) -> None:
    await define(scene, tokens=Budget(100, every="day"))
    await scene.finish(await spending(scene, 100))
    job = await scene.enqueue(**costing(tokens=100))
    assert await scene.claim(1) == []
    found = await bucket(scene, "tokens:")
    assert found.opens_in == found.resets_in == await scene.store.limits.opens_in()
    assert found.opens_in is not None
    scene.clock.advance(found.opens_in)
    assert of(await scene.claim(1)) == [job]
    assert await books(scene) == (0, 100)


async def test_a_clock_that_is_set_back_over_a_reset_forgets_nothing(scene: Scene) -> None:
    await define(scene, tokens=Budget(100, every=600))
    resets_in = (await bucket(scene, "tokens:")).resets_in
    assert resets_in is not None
    scene.clock.advance(resets_in)
    await scene.finish(await spending(scene, 30))
    scene.clock.advance(-1)
    assert await books(scene) == (30, 0)
    await scene.finish(await spending(scene, 60))
    scene.clock.advance(1)
    assert await books(scene) == (90, 0)


async def test_a_reservation_settles_in_the_period_in_which_it_ends(scene: Scene) -> None:
    await define(scene, tokens=Budget(100, every=600))
    held = await spending(scene, 70)
    scene.clock.advance(600)
    assert await books(scene) == (0, 70)
    await scene.enqueue(**costing(tokens=70))
    assert await scene.claim(1) == []
    await scene.finish(held)
    assert await books(scene) == (70, 0)
    scene.clock.advance(600)
    assert await books(scene) == (0, 0)


async def test_days_begin_at_midnight_of_the_budget_s_zone(scene: Scene) -> None:
    """Also on the day on which its clocks go forward, which has 23 hours."""
    until(scene, datetime(2030, 3, 30, 23, 30, tzinfo=UTC))
    await define(scene, tokens=Budget(100, every="day", timezone="Europe/Berlin"))
    await scene.finish(await spending(scene, 100))
    assert (await bucket(scene, "tokens:")).resets_in == 22.5 * 3600
    scene.clock.advance(22.5 * 3600 - 1)
    assert await books(scene) == (100, 0)
    scene.clock.advance(1)
    assert await books(scene) == (0, 0)
    assert scene.clock.now == datetime(2030, 3, 31, 22, 0, tzinfo=UTC)


SIX_THREE_THREE = [1, 2, 3, 4, 5, 6, 1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize(
    ("zone", "begins", "counted"),
    [
        # 2:00 becomes 2:30
        ("Australia/Lord_Howe", datetime(2031, 10, 4, 14, 30, tzinfo=UTC), SIX_THREE_THREE),
        # 2:00 becomes 1:30
        ("Australia/Lord_Howe", datetime(2031, 4, 5, 14, 0, tzinfo=UTC), SIX_THREE_THREE),
        ("Asia/Kolkata", datetime(2031, 4, 5, 14, 0, tzinfo=UTC), [1, 2, 3, 1, 2, 3, 4, 5, 6, 1]),
        ("Asia/Kathmandu", datetime(2031, 4, 5, 14, 5, tzinfo=UTC), [1, 1, 2, 3, 4, 5, 6, 1]),
        # 2:00 becomes 3:00, and 3:00 becomes 2:00
        ("Europe/Berlin", datetime(2031, 3, 30, 0, 40, tzinfo=UTC), [1, 2, 1, 2, 3, 4, 5, 6, 1]),
        ("Europe/Berlin", datetime(2031, 10, 26, 0, 40, tzinfo=UTC), [1, 2, 1, 2, 3, 4, 5, 6, 1]),
    ],
)
async def test_hours_are_those_of_the_clock_in_the_budget_s_zone(
    scene: Scene, zone: str, begins: datetime, counted: list[int]
) -> None:
    """Every ten minutes one unit is spent. A change of the clock ends its hour."""
    until(scene, begins - timedelta(hours=5))
    await define(scene, tokens=Budget(100, every="hour", timezone=zone))
    until(scene, begins)
    found = list[int]()
    for _ in counted:
        await scene.store.limits.take([Take("tokens:")])
        found.append((await bucket(scene, "tokens:")).spent)
        scene.clock.advance(600)
    assert found == counted


async def test_months_begin_on_the_first(scene: Scene) -> None:
    until(scene, datetime(2031, 1, 31, 12, 0, tzinfo=UTC))
    await define(scene, tokens=Budget(100, every="month"))
    assert (await bucket(scene, "tokens:")).resets_in == 12 * 3600
    scene.clock.advance(12 * 3600)
    assert (await bucket(scene, "tokens:")).resets_in == 28 * DAY


async def test_the_soft_amount_is_told_once_a_period(scene: Scene) -> None:
    heard: list[Wakeup] = []
    unsubscribe = await scene.store.wakeups.subscribe(heard.append)
    await define(scene, tokens=Budget(100, soft=50, every=600))
    first = await spending(scene, 40)
    assert await scene.store.limits.alarms(10) == []
    assert not (await bucket(scene, "tokens:")).soft_reached
    await spending(scene, 10)
    await wait_until(lambda: any(one.topic is Topic.LIMITS for one in heard), 10, "the alarm")
    unsubscribe()
    [alarm] = await scene.store.limits.alarms(10)
    assert (alarm.what, alarm.spent, alarm.reserved) == (AlarmWhat.SOFT_REACHED, 0, 50)
    assert alarm.settings == Budget(100, soft=50, every=600)
    assert (await bucket(scene, "tokens:")).soft_reached
    await scene.finish(first)
    assert await scene.store.limits.alarms(10) == []
    scene.clock.advance(600)
    await spending(scene, 40)
    assert len(await scene.store.limits.alarms(10)) == 1


async def test_the_soft_amount_is_told_of_a_settlement_too(scene: Scene) -> None:
    await define(scene, tokens=Budget(100, soft=50))
    await settle(scene, await spending(scene, 40), tokens=55)
    [alarm] = await scene.store.limits.alarms(10)
    assert (alarm.what, alarm.spent) == (AlarmWhat.SOFT_REACHED, 55)


TEAM = {"tokens:acme": 10, "tokens:acme/ml": 10}


async def test_a_parent_counts_what_its_children_spend(scene: Scene) -> None:
    await define(scene, tokens=Budget(100))
    await scene.enqueue(**at_cost(TEAM))
    [held] = await scene.claim(1)
    assert await books(scene, "tokens:acme") == (0, 10)
    await settle(scene, held, tokens=7)
    assert (await books(scene, "tokens:acme"), await books(scene, "tokens:acme/ml")) == (
        (7, 0),
        (7, 0),
    )


async def test_a_parent_holds_its_children_up_if_it_has_an_amount_of_its_own(scene: Scene) -> None:
    await define(scene, tokens=Budget(20))
    children = [{"tokens:acme": 10, f"tokens:acme/{n}": 10} for n in range(5)]
    for child in children:
        await scene.enqueue(**at_cost(child))
    held = await scene.claim(10)
    assert len(held) == 5, "the default is the children's, each for itself"
    for job in held:
        await scene.finish(job, HandedBack())
    await scene.store.limits.override("tokens", "acme", Budget(30))
    assert len(await scene.claim(10)) == 3
    assert await books(scene, "tokens:acme") == (0, 30)
    await nothing_is_wrong(scene)


async def at_parent(scene: Scene, *costs: int) -> list[Claimed]:
    """What a claim gives of jobs that pass `acme` on the way to a bucket each."""
    for n, cost in enumerate(costs):
        await scene.enqueue(**at_cost({"tokens:acme": cost, f"tokens:acme/{cost}-{n}": cost}))
    return await scene.claim(len(costs))


async def test_children_go_on_when_their_parent_has_no_amount_of_its_own_any_more(
    scene: Scene,
) -> None:
    await define(scene, tokens=Budget(20, every=DAY))
    await scene.store.limits.override("tokens", "acme", Budget(20))
    for held in await at_parent(scene, 15, 10, 10):
        await scene.finish(held)
    assert (await bucket(scene, "tokens:acme")).waiting == 2
    heard: list[Wakeup] = []
    unsubscribe = await scene.store.wakeups.subscribe(heard.append)
    await scene.store.limits.override("tokens", "acme", None)
    await wait_until(lambda: any(one.topic is Topic.READY for one in heard), 10, "a wakeup")
    unsubscribe()
    assert (await bucket(scene, "tokens:acme")).waiting == 0
    assert len(await scene.claim(10)) == 2
    await nothing_is_wrong(scene)


@pytest.mark.parametrize("how", ["in time", "by an operator"])
async def test_children_go_on_when_their_parent_was_shut_and_opens(scene: Scene, how: str) -> None:
    await define(scene, tokens=Budget(20, every=DAY))
    for held in await at_parent(scene, 15, 15):
        await scene.finish(held)
    await scene.store.limits.drain({"tokens:acme": 30.0})
    assert not await at_parent(scene, *(10 for _ in range(7)))
    found = await bucket(scene, "tokens:acme")
    assert (found.waiting, found.opens_in) == (7, 30.0)
    if how == "in time":
        scene.clock.advance(30)
    else:
        await scene.store.limits.drain({"tokens:acme": 0.0})
    assert (await bucket(scene, "tokens:acme")).opens_in == 0.0
    assert len(await scene.claim(10)) == 7
    assert (await bucket(scene, "tokens:acme")).waiting == 0
    await nothing_is_wrong(scene)


async def test_a_parent_without_an_amount_of_its_own_raises_no_alarm(scene: Scene) -> None:
    await define(scene, tokens=Budget(20, soft=10))
    await scene.enqueue(**at_cost(TEAM))
    [held] = await scene.claim(1)
    assert not (await bucket(scene, "tokens:acme")).soft_reached
    assert [one.bucket for one in await scene.store.limits.alarms(10)] == ["tokens:acme/ml"]
    await scene.finish(held)
    await scene.store.limits.override("tokens", "acme", Budget(100, soft=20))
    await scene.enqueue(**at_cost({"tokens:acme": 10, "tokens:acme/ops": 10}))
    await scene.claim(1)
    told = {one.bucket for one in await scene.store.limits.alarms(10)}
    assert told == {"tokens:acme", "tokens:acme/ops"}


async def test_a_budget_that_has_spent_is_not_forgotten(scene: Scene) -> None:
    await define(scene, day=Budget(100, every=86_400), ever=Budget(100))
    await scene.enqueue(**costing(day=1, ever=1))
    [held] = await scene.claim(1)
    await scene.finish(held)
    scene.clock.advance(DAY)
    assert (await scene.store.limits.recount(10, idle_for=60.0)).forgotten == 1
    assert await books(scene, "ever:") == (1, 0)


async def test_a_lowered_budget_lets_none_begin_and_stops_nothing(scene: Scene) -> None:
    await define(scene, tokens=Budget(100))
    held = await spending(scene, 60)
    await scene.store.limits.put("tokens", Budget(50))
    await scene.enqueue(**costing(tokens=1))
    assert await scene.claim(1) == []
    await settle(scene, held, tokens=10)
    assert len(await scene.claim(1)) == 1


async def test_what_was_added_is_told_beside_what_was_spent(scene: Scene) -> None:
    await define(scene, tokens=Budget(100, every=1000.0))
    await settle(scene, await spending(scene, 30), tokens=30)
    await scene.store.limits.adjust("tokens:", 50)
    found = await scene.store.limits.adjust("tokens:", 25)
    assert (found.added, found.spent, found.free) == (75, -45, 145)
    await settle(scene, await spending(scene, 10), tokens=10)
    await settle(scene, await spending(scene, 1), RAISED, tokens=5)
    found = await bucket(scene, "tokens:")
    assert (found.added, found.spent + found.added) == (75, 45)
    found = await scene.store.limits.adjust("tokens:", -80)
    assert (found.added, found.spent + found.added, found.free) == (-5, 45, 50)


async def test_what_was_added_is_over_with_the_period_and_with_a_reset(scene: Scene) -> None:
    await define(scene, tokens=Budget(100, every=1000.0))
    await scene.store.limits.adjust("tokens:", 50)
    assert (await scene.store.limits.reset(["tokens:"]))[0].added == 0
    await scene.store.limits.adjust("tokens:", 60)
    scene.clock.advance(1000)
    assert (await bucket(scene, "tokens:")).added == 0
    await settle(scene, await spending(scene, 30), tokens=30)
    found = await bucket(scene, "tokens:")
    assert (found.added, found.spent, found.free) == (0, 30, 70)
    assert (await scene.store.limits.adjust("tokens:", 7)).added == 7


async def test_a_budget_whose_top_up_is_spent_is_not_forgotten(scene: Scene) -> None:
    """It has the books of a new bucket, but for what is told of it."""
    await define(scene, tokens=Budget(100))
    await scene.store.limits.adjust("tokens:", 20)
    await settle(scene, await spending(scene, 20), tokens=20)
    scene.clock.advance(3600)
    assert (await scene.store.limits.recount(10, idle_for=60.0)).forgotten == 0
    found = await bucket(scene, "tokens:")
    assert (found.added, found.spent) == (20, 0)
