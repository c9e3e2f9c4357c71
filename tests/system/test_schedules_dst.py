"""Ten days around each change of clocks: whoever dies, the ledger is the expected list.

Four evaluators share one store whose clock the test moves. In each window five of them die at a
write of the ledger, before or after it, which makes fifty over the ten windows of a store. Their
own clocks are an hour ahead or behind: nothing they decide may depend on them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import pytest

from holdfast import clock as own_clock
from holdfast.clock import ManualClock
from holdfast.schedule.evaluator import Evaluator
from holdfast.schedule.model import CatchUp, Decision
from holdfast.store.contract.store import Store
from tests.properties.wall_walk import Expression, walk
from tests.support.backends import siblings
from tests.support.dying import Dying
from tests.support.schedule_scene import Scene

DAYS = 10
"""`make chaos` takes thirty, with processes for evaluators."""
NEAR = timedelta(hours=5)
REPLICAS = 4
KILLS = 5
SKEWS = (-3600.0, 3600.0, 0.0, 1800.0)

CHANGES = {
    "Europe/Berlin": ("2027-03-28T01:00", "2027-10-31T01:00"),
    "America/New_York": ("2027-03-14T07:00", "2027-11-07T06:00"),
    "America/Santiago": ("2027-04-04T03:00", "2027-09-05T04:00"),
    "Australia/Lord_Howe": ("2027-04-03T15:00", "2027-10-02T15:30"),
    "Asia/Kathmandu": ("2027-03-28T01:00", "2027-10-31T01:00"),  # which never changes its clock
}
WINDOWS = [(zone, change) for zone, changes in CHANGES.items() for change in changes]

EVERY_HOUR = frozenset(range(24))
EXPRESSIONS = {
    "in the gap or the fold": Expression(frozenset({10, 40}), frozenset({0, 1, 2, 23}), None, None),
    "every hour": Expression(frozenset({15, 45}), EVERY_HOUR, None, None),
    "on working days": Expression(frozenset({0}), frozenset({9}), None, frozenset(range(1, 6))),
}


@lru_cache
def expected_plans(text: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """A walk of many days takes a while, and every store expects the same."""
    return walk(EXPRESSIONS[text], zone, start, end, timedelta(minutes=5))


def name_of(expression: str) -> str:
    return expression.replace(" ", "-")


def steps(rng: random.Random, change: datetime, days: int = DAYS) -> list[datetime]:
    """Moments at which a replica evaluates: now and then, and often near the change."""
    moment, end = change - timedelta(days=days / 2), change + timedelta(days=days / 2)
    begins, ends = change - NEAR, change + NEAR
    found = []
    while moment < end:
        if moment < begins:
            moment = min(moment + timedelta(hours=rng.uniform(10, 40)), begins)
        else:
            hours = rng.uniform(0.3, 0.9) if moment < ends else rng.uniform(10, 40)
            moment = min(moment + timedelta(hours=hours), end)
        found.append(moment)
    return found


class Fleet:
    """Evaluators on stores of their own; one that dies is replaced by one that knows nothing."""

    def __init__(self, scene: Scene, stores: list[Store], rng: random.Random) -> None:
        self._scene = scene
        self._stores = stores
        self._rng = rng
        self._doomed = ""
        self.deaths = 0

    def _replica(self, number: int) -> Evaluator:
        skew = SKEWS[number]
        mortal: Store = Dying(self._stores[number], self._verdict)
        return Evaluator(
            mortal,
            self._scene.events,
            monotonic=lambda: time.monotonic() + skew,
        )

    def _verdict(self) -> str | None:
        side, self._doomed = self._doomed, ""
        return side or None

    async def evaluate(self, *, deadly: bool) -> None:
        """The leader evaluates first, and dies if it must; then other replicas evaluate, or none
        does."""
        leader, *others = self._rng.sample(range(REPLICAS), 3)
        self._doomed = self._rng.choice(["before", "after"]) if deadly else ""
        with suppress(asyncio.CancelledError):
            await self._replica(leader).run_once()
            if deadly and not self._doomed:
                raise AssertionError("the doomed replica outlived its own death")
        self.deaths += deadly and not self._doomed
        self._doomed = ""
        if deadly or self._rng.random() < 0.2:
            await asyncio.gather(*(self._replica(other).run_once() for other in others))


@pytest.mark.parametrize(("zone", "change"), WINDOWS, ids=[f"{z} {c[:10]}" for z, c in WINDOWS])
async def test_the_ledger_is_the_expected_list_whoever_dies(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, zone: str, change: str
) -> None:
    rng = random.Random(f"{zone} {change}")
    moment = datetime.fromisoformat(change).replace(tzinfo=UTC)
    scene = await declared(store, clock, zone, moment)
    skew_the_local_clock(monkeypatch)
    moments = steps(rng, moment)
    deadly = set(rng.sample(range(len(moments) - 1), 3 * KILLS))
    async with siblings(store, REPLICAS) as stores:
        fleet = Fleet(scene, stores, rng)
        for number, now in enumerate(moments):
            clock.now = now
            await fleet.evaluate(deadly=number in deadly and fleet.deaths < KILLS)
    assert fleet.deaths == KILLS
    await assert_the_ledger_is_complete(scene, zone, moment, moments[-1])


async def declared(
    store: Store, clock: ManualClock, zone: str, change: datetime, days: int = DAYS
) -> Scene:
    scene = Scene(store, clock)
    clock.now = change - timedelta(days=days / 2)
    for text, expression in EXPRESSIONS.items():
        await scene.declare(
            name_of(text), expression.text, timezone=zone, catch_up=CatchUp.ALL, window=3 * 86_400.0
        )
    return scene


def skew_the_local_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[[], float] = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    monkeypatch.setattr(own_clock, "utcnow", lambda: datetime(1999, 1, 1, tzinfo=UTC))


async def assert_the_ledger_is_complete(
    scene: Scene, zone: str, change: datetime, end: datetime, days: int = DAYS
) -> None:
    start = change - timedelta(days=days / 2)
    total = 0
    for text in EXPRESSIONS:
        expected = expected_plans(text, zone, start, end)
        rows = await scene.rows(name_of(text))
        assert {row.decision for row in rows} == {Decision.FIRED}
        assert [row.at for row in rows] == expected
        assert len({row.job_id for row in rows}) == len(rows)
        total += len(rows)
    assert await scene.jobs() == total
