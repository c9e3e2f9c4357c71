"""Claims and ends that want the same buckets at once: nobody waits in a circle, and all that begins
is counted once. The order is forced by locks, in transactions that really overlap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.job.ends import Cancelled
from holdfast.job.ids import JobId
from holdfast.limits.model import Rate
from holdfast.store.contract.limits import Take
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Want
from holdfast.store.postgres import taking
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import QUEUE, TASK, Scene, new_job, new_worker
from tests.conformance.limiting import begun, bucket, in_use, limited, nothing_is_wrong, of, through
from tests.stores.postgres.shared import connected, hired, opened, until_blocked

LOCK = "select from holdfast.bucket where name = $1 for update"
TOTAL = f"queue:{QUEUE}"


@pytest.fixture
async def scene(url: str, clock: ManualClock) -> AsyncIterator[Scene]:
    async with opened(url, clock=clock) as store:
        yield await Scene.on(store, clock)


async def test_a_claim_holds_no_bucket_that_it_opens_while_it_waits_for_another(
    url: str, scene: Scene
) -> None:
    """Whoever ends jobs of both keys locks them by name, and would wait for the claim for ever."""
    await limited(scene, tenant=1)
    await scene.finish((await begun(scene, 1, "tenant:a"))[0])  # there is a row of this bucket
    [held] = await begun(scene, 1, "tenant:z")
    [waits] = await scene.enqueue_many(1, **through("tenant:z"))
    assert await scene.claim(1) == []
    await scene.finish(held)  # the next claim opens the line of `z`
    [other] = await scene.enqueue_many(1, **through("tenant:a"))
    async with connected(url) as mine, mine.transaction():
        await mine.execute(LOCK, "tenant:a")
        claiming = asyncio.create_task(scene.claim(2))
        await until_blocked(url)
        await mine.execute("set local lock_timeout = '200ms'")
        await mine.execute(LOCK, "tenant:z")
    assert {*of(await claiming)} == {waits, other}
    await nothing_is_wrong(scene)
    assert (await bucket(scene, "tenant:z")).opens_in is None


async def test_a_claim_holds_no_bucket_whose_line_jobs_have_left_while_it_waits_for_another(
    url: str, scene: Scene
) -> None:
    await limited(scene, tenant=1)
    await scene.finish((await begun(scene, 1, "tenant:a"))[0])
    await begun(scene, 1, "tenant:z")
    [first, _] = await scene.enqueue_many(2, **through("tenant:z"))
    assert await scene.claim(1) == []
    await scene.finish(await scene.live(first), Cancelled())
    [other] = await scene.enqueue_many(1, **through("tenant:a"))
    async with connected(url) as mine, mine.transaction():
        await mine.execute(LOCK, "tenant:a")
        claiming = asyncio.create_task(scene.claim(2))
        await until_blocked(url)
        await mine.execute("set local lock_timeout = '200ms'")
        await mine.execute(LOCK, "tenant:z")
    assert of(await claiming) == [other]
    assert (await bucket(scene, "tenant:z")).waiting == 1
    await nothing_is_wrong(scene)


async def test_claims_that_waited_for_a_total_share_what_is_left_of_it(
    url: str, scene: Scene
) -> None:
    await scene.store.queues.tune(QUEUE, QueueSettings(max_running=5))
    await scene.enqueue_many(12)
    [held] = await scene.claim(1)
    async with connected(url) as mine, mine.transaction():
        await mine.execute(LOCK, TOTAL)
        claims = [asyncio.create_task(scene.claim(3)) for _ in range(3)]
        await until_blocked(url, 3)
    found = [job.id for claim in claims for job in await claim]
    assert len(found) == len({*found, held.id}) - 1 == 4
    assert await in_use(scene, TOTAL) == 5
    await nothing_is_wrong(scene)


async def test_a_claim_from_a_queue_with_a_total_is_one_statement(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A freed permit is idle for as long as a claim takes, and other claims wait for its lock."""
    await scene.store.queues.tune(QUEUE, QueueSettings(max_running=2))
    jobs, worker, asked = await scene.enqueue_many(4), new_worker(), list[str]()
    await scene.store.workers.register(worker, 60)
    connections: Any = scene.store.jobs._connections  # type: ignore[attr-defined]
    for name in ("timed", "fetch"):
        monkeypatch.setattr(connections, name, noting(getattr(connections, name), asked))

    async def claim() -> list[JobId]:
        asked.clear()
        return of(await scene.store.jobs.claim(worker.id, [Want(QUEUE, 1)], [TASK]))

    assert await claim() == jobs[:1]  # it learns that there is a total
    assert asked == ["jobs/claim", "queues/rules", "limits/make", "limits/claim_total"]
    assert await claim() == jobs[1:2]
    assert asked == ["limits/claim_total"]
    assert await claim() == []
    assert asked == ["limits/claim_total"]
    await scene.store.queues.tune(QUEUE, QueueSettings())
    assert await claim() == jobs[2:3]  # it is told that there is none any more
    assert await claim() == jobs[3:]
    assert asked == ["jobs/claim"]


def noting(method: Any, asked: list[str]) -> Any:
    async def noted(verb: str, *values: Any, **options: Any) -> Any:
        if verb not in asked[-1:]:  # `timed` calls `fetch`
            asked.append(verb)
        return await method(verb, *values, **options)

    return noted


COUNTED = "select slices, scale from holdfast.bucket where name = 'api:'"
NOW = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"


async def claimed_at(store: PostgresStore) -> int:
    worker = await hired(store)
    await store.jobs.insert([new_job(**through("api:"))])
    [job] = await store.jobs.claim(worker, [Want(QUEUE, 1)], [TASK])
    return round(job.claimed_at.timestamp() * 1_000_000)


async def taken_at(store: PostgresStore) -> int:
    return (await store.limits.take([Take("api:")]))[0].at


async def taken_the_long_way_at(store: PostgresStore) -> int:
    async def work(session: Session) -> int:
        [taken] = await taking.take(session, "", [Take("api:")])
        return taken.at

    return await store._connections.run(work, transaction=True)


@pytest.mark.parametrize("began_at", [claimed_at, taken_at, taken_the_long_way_at])
async def test_what_waited_for_a_rate_is_counted_from_the_moment_at_which_it_begins(
    url: str, began_at: Callable[[PostgresStore], Coroutine[Any, Any, int]]
) -> None:
    """Counted from when it was asked for, it would leave the window as much too soon, and more
    would begin in a window than the rate lets pass."""
    async with opened(url) as store, connected(url) as mine:
        await store.limits.declare({"api": Rate(5, per=0.64)})  # slices of ten milliseconds
        await mine.execute("insert into holdfast.bucket (name, touched_at) values ('api:', now())")
        async with mine.transaction():
            await mine.execute(LOCK, "api:")
            begins = asyncio.create_task(began_at(store))
            await until_blocked(url)
            await mine.execute("select pg_sleep(0.05)")
            unlocked = await mine.fetchval(NOW)
        assert await begins >= unlocked
        [(slices, length)] = await mine.fetch(COUNTED)
        assert [number >= unlocked // length for number in slices] == [True]
