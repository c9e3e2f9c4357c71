"""A store of several partitions acts as one."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    BadOption,
    NotCapable,
    StoreError,
)
from holdfast.job.ends import WorkerLost
from holdfast.job.ids import new_job_id
from holdfast.job.outcome import decide
from holdfast.job.ties import Tie
from holdfast.job.unique import Unique
from holdfast.limits.model import Concurrency
from holdfast.store.contract.filters import JobFilter
from holdfast.store.open import open_store
from holdfast.testing.servers import ThrowawayValkey, ValkeyServer
from tests.conformance.builders import (
    QUEUE,
    Scene,
    accepted,
    ids,
    new_job,
)
from tests.support.backends import opened

PARTITIONS = 4


@pytest.fixture
def partitions() -> int:
    return PARTITIONS


async def test_the_number_of_partitions_is_fixed_at_the_first_start(
    server: ThrowawayValkey,
) -> None:
    url = server.new_namespace()
    async with opened(f"{url}&partitions=4"):
        pass
    with pytest.raises(StoreError, match=r"first used with 4 partitions.*\?partitions=4"):
        await open_store(f"{url}&partitions=8").open()
    server.clear(url)


async def test_all_keys_of_a_partition_share_its_hash_tag(
    scene: Scene, server: ThrowawayValkey
) -> None:
    await scene.enqueue_many(50, tags=("t",), deadline_in=60.0)
    await scene.enqueue_many(10, delay=60.0)
    for job in await scene.claim(20):
        await scene.finish(job)
    keys = [str(key) for key in _keys_of_all(server)]
    tags = {key.partition("}")[0] + "}" for key in keys}
    assert all(key.startswith("{") for key in keys)
    assert {tag.partition(":")[2] for tag in tags} == {"", *(f"{n}}}" for n in range(PARTITIONS))}


def _keys_of_all(server: ValkeyServer) -> list[object]:
    answer = server.say("KEYS", "*")
    assert isinstance(answer, list)
    return list(answer)


async def test_jobs_of_several_partitions_are_one_line(scene: Scene) -> None:
    jobs = [await scene.enqueue(priority=n % 3) for n in range(30)]
    expected = sorted(range(30), key=lambda n: (n % 3, n))
    claimed = [*await scene.claim(7), *await scene.claim(23)]
    assert ids(claimed) == [jobs[n] for n in expected]


async def test_jobs_of_one_insert_keep_their_order_across_partitions(scene: Scene) -> None:
    jobs = await scene.enqueue_many(300)
    assert len({int(job[-3:], 16) % PARTITIONS for job in jobs}) == PARTITIONS
    assert ids(await scene.claim(300)) == jobs


async def test_a_unique_job_lies_beside_its_key(scene: Scene) -> None:
    for n in range(20):
        key = Unique(f"key {n}")
        first = await scene.insert(unique=key)
        assert await scene.insert(unique=key) == type(first)(first.id, "existing")


async def test_an_id_that_does_not_lie_beside_its_key_is_refused(scene: Scene) -> None:
    right = new_job_id("k")
    wrong = right[:-1] + f"{(int(right[-1], 16) + 1) % 16:x}"
    with pytest.raises(BadOption, match="leave the id out"):
        await scene.store.jobs.insert([new_job(id=wrong, unique=Unique("k"))])
    assert await scene.store.jobs.count(JobFilter()) == {}


async def test_a_pause_and_a_lease_hold_in_every_partition(scene: Scene) -> None:
    await scene.enqueue_many(40)
    await scene.store.queues.pause([QUEUE])
    assert await scene.claim(40) == []
    await scene.store.queues.resume([QUEUE])
    worker = await scene.hire(lease=30)
    scene.clock.advance(31)
    assert await scene.claim(40, worker=worker) == []
    await scene.store.workers.heartbeat(worker, 30, [])
    assert len(await scene.claim(40, worker=worker)) == 40


async def test_free_slots_are_counted_over_all_partitions(scene: Scene) -> None:
    await scene.enqueue_many(40)
    claimed = await scene.claim(40, free=7)
    assert [job.ahead for job in claimed] == [False] * 7 + [True] * 33


async def test_a_reclaimer_that_had_a_break_is_refused_in_every_partition(scene: Scene) -> None:
    lost, mine = await scene.hire(lease=30), await scene.hire(lease=60)
    await scene.enqueue_many(40)
    await scene.claim(40, worker=lost)
    scene.clock.advance(31)
    [judge] = [one for one in await scene.store.workers.find() if one.id == mine]
    found = await scene.store.jobs.lapsed_leases(100)
    moves = [decide(job, WorkerLost()) for job in found]
    scene.clock.advance(100)
    await scene.store.workers.heartbeat(mine, 60, [])
    assert not any(accepted(await scene.store.jobs.reclaim(moves, judge)))
    [judge] = [one for one in await scene.store.workers.find() if one.id == mine]
    assert accepted(await scene.store.jobs.reclaim(moves, judge)) == [True] * 40


async def test_limits_are_refused_because_a_script_must_see_a_job_and_its_buckets(
    scene: Scene,
) -> None:
    limits = scene.store.limits
    for change in (
        limits.declare({"host": Concurrency(3)}),
        limits.put("host", Concurrency(3)),
        limits.drain({"host:x": 3.0}),
        scene.store.jobs.insert([new_job(buckets="host:x", ties=int(Tie.PERMITS))]),
    ):
        with pytest.raises(NotCapable, match="several partitions"):
            await change
    assert await limits.find() == []
    assert await limits.opens_in() is None
