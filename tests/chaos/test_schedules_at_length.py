"""Thirty days around a change of clocks with four real processes, one killed again and again."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from holdfast.store.contract.store import Store
from tests.support.backends import opened
from tests.support.schedule_replica import FileClock
from tests.support.waiting import wait_until
from tests.system.test_schedules_dst import (
    EXPRESSIONS,
    SKEWS,
    WINDOWS,
    assert_the_ledger_is_complete,
    declared,
    expected_plans,
    name_of,
    steps,
)

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

DAYS = 30
KILLS = 10
"""In each window: a hundred in the ten windows of a store."""
ROOT = Path(__file__).parents[2]


class Replicas:
    """Four processes; one that is killed is replaced at once."""

    def __init__(self, url: str, clock: Path) -> None:
        self._arguments = url, str(clock)
        self._running = [self._start(skew) for skew in SKEWS]
        self.kills = 0

    def _start(self, skew: float) -> subprocess.Popen[bytes]:
        module = "tests.support.schedule_replica"
        command = [sys.executable, "-m", module, *self._arguments, str(skew)]
        return subprocess.Popen(command, cwd=ROOT)

    def kill_one(self, rng: random.Random) -> None:
        number = rng.randrange(len(SKEWS))
        self._running[number].kill()
        self._running[number].wait()
        self._running[number] = self._start(SKEWS[number])
        self.kills += 1

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


@contextmanager
def replicas(url: str, clock: Path) -> Iterator[Replicas]:
    started = Replicas(url, clock)
    try:
        yield started
    finally:
        started.end()


@pytest.mark.parametrize(("zone", "change"), WINDOWS, ids=[f"{z} {c[:10]}" for z, c in WINDOWS])
async def test_the_ledger_is_the_expected_list_whichever_process_is_killed(
    shared_url: str, tmp_path: Path, zone: str, change: str
) -> None:
    rng = random.Random(f"{zone} {change}")
    moment = datetime.fromisoformat(change).replace(tzinfo=UTC)
    clock = FileClock(tmp_path / "clock")
    start = moment - timedelta(days=DAYS / 2)
    clock.set(start)
    looks = steps(rng, moment, DAYS)
    deadly = set(rng.sample(range(len(looks)), KILLS))
    async with opened(shared_url, ManualClock(start)) as store:
        scene = await declared(store, ManualClock(start), zone, moment, DAYS)
        with replicas(shared_url, tmp_path / "clock") as fleet:
            for number, now in enumerate(looks):
                clock.set(now)
                if number in deadly:
                    fleet.kill_one(rng)
                look = partial(caught_up, store, zone, start, now)
                await wait_until(look, 60, f"plans by {now}")
        assert fleet.kills == KILLS
        await assert_the_ledger_is_complete(scene, zone, moment, looks[-1], DAYS)


async def caught_up(store: Store, zone: str, start: datetime, now: datetime) -> bool:
    for text in EXPRESSIONS:
        due = [at for at in _all_plans(text, zone, start) if at <= now]
        cursors = await store.schedules.cursors(name_of(text), [""])
        if due and cursors.get("", start) < due[-1]:
            return False
    return True


def _all_plans(text: str, zone: str, start: datetime) -> list[datetime]:
    return expected_plans(text, zone, start, start + timedelta(days=DAYS))
