"""Limits at the points where a program, a server or a user's transaction may die.

After each: buckets count what their leases say, and everybody who waits can still begin.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from holdfast.clock import ManualClock
from holdfast.job.ends import Reclaimed
from holdfast.job.outcome import decide
from holdfast.limits.model import Concurrency
from holdfast.store.contract.store import Store
from holdfast.testing.servers import ThrowawayValkey, find_valkey
from tests.conformance.builders import RETURNED, Scene, ids, insert_within, new_job
from tests.conformance.limiting import begun, in_use, limited, nothing_is_wrong, through
from tests.support import books
from tests.support.backends import BACKENDS, Backend, opened, siblings
from tests.support.flaky import FlakyStore, Line
from tests.support.limit_kills import limited_fleet, nothing_is_held, seat_at
from tests.support.limited import hold
from tests.support.processes import Fleet
from tests.support.waiting import wait_until
from tests.support.working import Shop


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


# Answers that are lost


@pytest.mark.parametrize("verb", ["claim", "finish"])
async def test_an_answer_lost_after_the_commit_neither_keeps_nor_doubles_a_permit(
    sealed_store: Store, verb: str
) -> None:
    """The claim is done and its worker does not know; the end is written and is sent again."""
    line, ran = Line(), list[int]()

    async def greet(n: int) -> None:
        ran.append(n)

    await sealed_store.limits.declare({"tenant": Concurrency(1)})
    shop = Shop(FlakyStore(sealed_store, line), greet)
    jobs = [new_job(args=f'{{"n":{n}}}', **through("tenant:a")) for n in range(6)]
    await sealed_store.jobs.insert(jobs)
    line.lose.add(verb)
    async with shop.worker(lease=1.0) as worker:

        async def all_ended() -> bool:
            return await books.live_jobs(sealed_store) == 0

        await wait_until(all_ended, 15, "all six begin, one after the other")
        await worker.drain()
    assert not line.lose
    assert sorted(ran) == list(range(6))
    await nothing_is_held(sealed_store)


# A zombie and whoever takes its job away


async def test_a_reclaim_beside_the_zombies_end_gives_back_once(scene: Scene) -> None:
    """Both at the same moment, in two sessions, time and again: one of them is accepted."""
    await limited(scene, tenant=3)
    winners = list[str]()
    async with siblings(scene.store, 1) as [other]:
        for _ in range(30):
            worker = await scene.hire(lease=30.0)
            await scene.enqueue_many(3, **through("tenant:a"))
            held = await scene.claim(3, worker=worker)
            assert len(held) == 3
            scene.clock.advance(31)
            lapsed = await scene.store.jobs.lapsed_leases(10)
            taken = [decide(one, Reclaimed("lapsed", suspected=False)) for one in lapsed]
            ended = [decide(one, RETURNED) for one in held]
            by_heir, by_zombie = await asyncio.gather(
                other.jobs.reclaim(taken), scene.store.jobs.finish(ended)
            )
            accepted = {v.id: v.accepted for v in by_heir}
            for verdict in by_zombie:
                assert verdict.accepted != accepted[verdict.id]
                winners.append("zombie" if verdict.accepted else "heir")
            assert await in_use(scene, "tenant:a") == 0
            await scene.store.jobs.finish([decide(one, RETURNED) for one in await scene.claim(9)])
            await scene.lose(worker)
    assert await in_use(scene, "tenant:a") == 0
    await nothing_is_wrong(scene)
    assert winners


# Programs killed in the middle of a write


@pytest.fixture
def fleet(shared_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with limited_fleet(shared_url, tmp_path) as fleet:
        yield fleet


@pytest.mark.parametrize("role", ["changer", "claimer"])
async def test_a_program_killed_inside_a_write_leaves_all_of_it_or_nothing(
    fleet: Fleet, role: str
) -> None:
    """One declares, puts, overrides and drains all the time, the other claims and ends: each is
    killed at moments of chance."""
    chance = random.Random(role)
    async with seat_at(fleet) as app:
        await app.store.limits.put("tenant", Concurrency(3))
        for _ in range(4):
            await hold.enqueue_many((f"k{n % 5}", 1.0) for n in range(60))
            process = fleet.start(role)
            await fleet.ready(process)
            await asyncio.sleep(chance.uniform(0.01, 0.15))
            process.kill()
            [found] = await app.store.limits.find(["tenant"])
            assert found.settings in [Concurrency(most) for most in range(10)]
            assert (await app.store.limits.recount(1_000, mend=False)).wrong == ()
        await app.store.limits.put("tenant", Concurrency(3))
        await app.store.limits.drain({f"tenant:k{n}": 0.0 for n in range(5)})
        await fleet.workers(1, lease=2.0, slots=20)

        async def all_ended() -> bool:
            return await books.live_jobs(app.store) == 0

        await wait_until(all_ended, 30, "nobody is left behind", look_every=0.1)
        await nothing_is_held(app.store)


# A user's transaction


@pytest.fixture(scope="session")
def only_postgres(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS["postgres"](request)


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_transaction_held_open_holds_up_only_its_own_job(
    only_postgres: Backend, clock: ManualClock, end: str
) -> None:
    await _a_transaction_held_open(only_postgres, clock, end, seconds=1.0)


async def _a_transaction_held_open(
    postgres: Backend, clock: ManualClock, end: str, seconds: float
) -> None:
    """Its insert appends; so claims of the same key go on all the time."""
    url = await postgres.empty()
    async with opened(url, clock) as store:
        scene = await Scene.on(store, clock)
        await limited(scene, tenant=1)
        users = await asyncpg.connect(url)
        transaction = users.transaction()
        await transaction.start()
        own = new_job(**through("tenant:a"))
        await insert_within(store.jobs, users, [own])
        loop = asyncio.get_running_loop()
        until, served = loop.time() + seconds, 0
        while loop.time() < until or served < 5:
            other = await scene.enqueue(**through("tenant:a"))
            async with asyncio.timeout(10):
                [held] = await scene.claim(5)
            assert held.id == other
            await scene.finish(held)
            served += 1
        await (transaction.commit() if end == "commit" else transaction.rollback())
        await users.close()
        assert ids(await scene.claim(5)) == ([own.id] if end == "commit" else [])
        assert await in_use(scene, "tenant:a") == (1 if end == "commit" else 0)
        await nothing_is_wrong(scene)


# Valkey forgets its last second


async def test_a_valkey_that_forgets_its_last_writes_keeps_counts_and_leases_together(
    clock: ManualClock,
) -> None:
    """Records and buckets are in one log: what is forgotten is forgotten of both."""
    with ThrowawayValkey(find_valkey(), fsync="everysec") as server:
        async with opened(server.new_namespace(), clock) as store:
            scene = await Scene.on(store, clock)
            await limited(scene, tenant=3)
            kept = await begun(scene, 2, "tenant:a")
            server.say("SAVE")
            log = max(
                [
                    *server.directory.glob("appendonly.aof"),
                    *server.directory.glob("appendonlydir/*.incr.aof"),
                ],
                key=lambda path: path.stat().st_mtime,
            )
            await asyncio.sleep(1.2)
            size = log.stat().st_size
            await scene.finish(kept[0])
            await begun(scene, 2, "tenant:a")
            assert await in_use(scene, "tenant:a") == 3
            server.halt()
            with log.open("r+b") as file:
                file.truncate(size)
            server.resume()

            async def answers() -> bool:
                try:
                    return await in_use(scene, "tenant:a") == 2
                except Exception:  # noqa: BLE001 - the connection is noticed to be gone
                    return False

            await wait_until(answers, 10, "two are counted, as before")
            await nothing_is_wrong(scene)
            assert (await scene.finish(kept[0])).accepted
            assert (await scene.finish(kept[1])).accepted
            assert await in_use(scene, "tenant:a") == 0
            await nothing_is_wrong(scene)
