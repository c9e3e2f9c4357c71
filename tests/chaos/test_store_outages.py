"""The store goes away, or refuses, or lies about the time, while jobs run on living workers.

What must hold after each fault, on every store where it can happen:
what returned in time stands, what never began is not charged, nothing is stuck, and nothing
runs twice beside a living worker.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.job.record import Job
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.testing.servers import PostgresServer, ThrowawayPostgres, ThrowawayValkey
from tests.chaos.faults import Place, PostgresPlace, SqlitePlace, ValkeyPlace
from tests.support import books
from tests.support.processes import Fleet, fleet_on
from tests.support.program import CLOCK, SteppedClock, app, await_sign, linger
from tests.support.waiting import wait_until
from tests.system.test_valkey_outages import durable_valkey

__all__ = ["durable_valkey"]

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

LEASE = 2.0
WORKERS, SLOTS = 2, 10
OF_EACH = 4
ONCE = Retry.never()

AWAY = [0.3, 0.9, 1.5, 5.0]
STEPS = [45.0, -45.0, 3600.0, -3600.0]


@dataclass
class Jobs:
    """What runs when the fault comes: ids by what the jobs are to show."""

    in_time: list[str] = field(default_factory=list)
    within_timeout: list[str] = field(default_factory=list)
    within_deadline: list[str] = field(default_factory=list)
    too_long: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    @property
    def running(self) -> list[str]:
        return [
            *self.in_time,
            *self.within_timeout,
            *self.within_deadline,
            *self.too_long,
            *self.after,
        ]

    @property
    def early(self) -> list[str]:
        return [*self.in_time, *self.within_timeout, *self.within_deadline]


class Scene:
    """A fleet at work at a place, and the signs at which its handlers return."""

    def __init__(self, fleet: Fleet, store: Store, folder: Path) -> None:
        self.fleet = fleet
        self.store = store
        self._now, self._later = folder / "now", folder / "later"

    async def begin(self, outage: float) -> Jobs:
        """Every slot is taken, and as many jobs again wait for one."""
        jobs = Jobs()
        now, later = str(self._now), str(self._later)
        limit = 2.0 + outage / 2
        for _ in range(OF_EACH):
            jobs.in_time.append((await await_sign.enqueue(now)).id)
            timed = await_sign.using(timeout=limit)
            jobs.within_timeout.append((await timed.enqueue(now)).id)
            bound = await_sign.using(deadline=limit)
            jobs.within_deadline.append((await bound.enqueue(now)).id)
            endless = linger.using(retry=ONCE, timeout=limit)
            jobs.too_long.append((await endless.enqueue(600)).id)
            jobs.after.append((await await_sign.enqueue(later)).id)
        await self._until("started", jobs.running, 20)
        for _ in range(WORKERS * SLOTS):
            jobs.waiting.append((await linger.using(retry=ONCE).enqueue(0.01)).id)
        return jobs

    async def let_return(self, jobs: Jobs) -> None:
        self._now.touch()
        await self._until("returned", jobs.early, 5)

    async def let_the_rest_return(self, jobs: Jobs) -> None:
        self._later.touch()

        async def all_ended() -> bool:
            return await books.live_jobs(self.store) == 0

        await wait_until(all_ended, 40, "everything ends once the fault is over", look_every=0.2)

    def written(self, ids: list[str]) -> list[str]:
        """Which of these ends the store acknowledged to a worker."""
        accepted = {e.job for e in self.fleet.diary.entries("finish") if e.accepted}
        return [job for job in ids if job in accepted]

    async def _until(self, what: str, ids: list[str], within: float) -> None:
        def noted() -> bool:
            return {entry.job for entry in self.fleet.diary.entries(what)} >= set(ids)

        await wait_until(noted, within, f"{len(ids)} jobs have {what}")


async def judge(scene: Scene, jobs: Jobs) -> None:
    found: dict[str, Job] = {
        job.id: job for job in await books.all_of(scene.store, [*jobs.running, *jobs.waiting])
    }
    runs = Counter(entry.job for entry in scene.fleet.diary.entries("started"))
    for job_id in [*jobs.early, *jobs.after, *jobs.waiting]:
        job = found[job_id]
        seen = (job.state, job.attempts, job.crashes, runs[job_id])
        assert seen == (JobState.SUCCEEDED, 1, 0, 1), f"{seen}, errors {job.errors}"
    for job_id in jobs.too_long:
        job = found[job_id]
        kinds = [error.kind for error in job.errors]
        assert (job.state, kinds) == (JobState.FAILED, ["TimedOut"])
        assert (job.crashes, runs[job_id]) == (0, 1)
    assert len(scene.fleet.alive()) == WORKERS, "a worker has left"
    await books.the_store_finds_nothing_wrong(scene.store)


async def strike(
    scene: Scene, fault: AbstractAsyncContextManager[None], seconds: float, *, mute: bool
) -> None:
    """The fault for so long; `mute` faults let no end be acknowledged while they last."""
    jobs = await scene.begin(seconds)
    async with fault:
        began = time.monotonic()
        await scene.let_return(jobs)
        await asyncio.sleep(max(0.0, seconds - (time.monotonic() - began)))
        if mute:
            assert not scene.written(jobs.early), "the store answered all the time"
    await scene.let_the_rest_return(jobs)
    await judge(scene, jobs)


# Places ------------------------------------------------------------------------------------


@pytest.fixture
async def sqlite_place(tmp_path: Path) -> AsyncIterator[SqlitePlace]:
    place = SqlitePlace(tmp_path)
    await place.prepare()
    yield place
    place.close()


@pytest.fixture
async def postgres_place(
    durable_postgres: PostgresServer, tmp_path: Path
) -> AsyncIterator[PostgresPlace]:
    assert isinstance(durable_postgres, ThrowawayPostgres)
    place = PostgresPlace(durable_postgres, tmp_path)
    await place.prepare()
    yield place
    place.close()


@pytest.fixture
async def valkey_place(
    durable_valkey: ThrowawayValkey, tmp_path: Path
) -> AsyncIterator[ValkeyPlace]:
    place = ValkeyPlace(durable_valkey, tmp_path)
    await place.prepare()
    yield place
    place.close()


@pytest.fixture(params=["sqlite", "postgres", "valkey"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture(params=["postgres", "valkey"])
def server_place(request: pytest.FixtureRequest) -> PostgresPlace | ValkeyPlace:
    found: PostgresPlace | ValkeyPlace = request.getfixturevalue(f"{request.param}_place")
    return found


Begin = Callable[[Place], AbstractAsyncContextManager[Scene]]


@pytest.fixture
def scene_at(tmp_path: Path) -> Begin:
    @asynccontextmanager
    async def begin(place: Place) -> AsyncIterator[Scene]:
        with fleet_on(place.url, tmp_path, **{CLOCK: str(place.clock)}) as fleet:
            await fleet.workers(WORKERS, slots=SLOTS, lease=LEASE)
            with app.using_store(place.url, SteppedClock(place.clock)):
                async with app:
                    yield Scene(fleet, app.store, tmp_path)

    return begin


# Faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("leases", AWAY)
async def test_a_store_that_was_away_costs_no_job_anything(
    place: SqlitePlace | PostgresPlace | ValkeyPlace, scene_at: Begin, leases: float
) -> None:
    async with scene_at(place) as scene:
        await strike(scene, place.away(), leases * LEASE, mute=True)


@pytest.mark.parametrize("seconds", STEPS)
async def test_a_clock_that_was_set_costs_no_job_anything(
    place: Place, scene_at: Begin, seconds: float
) -> None:
    async with scene_at(place) as scene:
        await strike(scene, place.stepped(seconds), 1.5 * LEASE, mute=False)


@pytest.mark.parametrize("fault", ["black_hole", "answers_lost"])
async def test_a_network_that_swallows_costs_no_job_anything(
    server_place: PostgresPlace | ValkeyPlace, scene_at: Begin, fault: str
) -> None:
    async with scene_at(server_place) as scene:
        await strike(scene, getattr(server_place, fault)(), 1.5 * LEASE, mute=True)


@pytest.mark.parametrize(
    "fault", ["login_refused", "password_rotated", "grant_missing", "connection_limit", "read_only"]
)
async def test_a_postgres_that_refuses_costs_no_job_anything(
    postgres_place: PostgresPlace, scene_at: Begin, fault: str
) -> None:
    async with scene_at(postgres_place) as scene:
        await strike(scene, getattr(postgres_place, fault)(), 1.5 * LEASE, mute=True)


@pytest.mark.parametrize("fault", ["password_rotated", "grant_missing", "connection_limit"])
async def test_a_valkey_that_refuses_costs_no_job_anything(
    valkey_place: ValkeyPlace, scene_at: Begin, fault: str
) -> None:
    async with scene_at(valkey_place) as scene:
        await strike(scene, getattr(valkey_place, fault)(), 1.5 * LEASE, mute=True)


async def test_a_valkey_at_its_memory_limit_costs_no_job_anything(
    valkey_place: ValkeyPlace, scene_at: Begin
) -> None:
    async with scene_at(valkey_place) as scene:
        await strike(scene, valkey_place.memory_limit(), 1.5 * LEASE, mute=False)


async def test_a_full_disk_costs_no_job_anything(
    sqlite_place: SqlitePlace, scene_at: Begin
) -> None:
    async with scene_at(sqlite_place) as scene:
        await strike(scene, sqlite_place.disk_full(), 1.5 * LEASE, mute=True)
