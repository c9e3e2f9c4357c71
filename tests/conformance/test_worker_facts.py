"""Facts: what workers say of themselves, and what they have counted together."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.job.ids import WorkerId, new_worker_id
from holdfast.store.contract.facts import NO_FACTS, ReconcilerFacts, SlotFacts, WorkerFacts
from holdfast.store.contract.workers import WorkerInfo, WorkerStanding
from tests.conformance.builders import Scene, new_worker
from tests.support.backends import siblings

SAID = WorkerFacts(
    slots={"mail": SlotFacts(used=3, free=6, stuck=1), "eu*": SlotFacts(free=5)},
    up_for=12.5,
    cpu=0.25,
    memory=50_000_000,
    threads=7,
    loop_lag=0.002,
    store_out_of_reach_for=0.0,
    unwritten=2,
    leaving=False,
    python="3.13.1",
    platform="Linux größe",
    last_errors={"promotion": "ValueError: 'no' \N{PILE OF POO} \"such\" \\ thing\n"},
    counts={"claimed": 10, "reconciler.promotion.mended": 4, "reconciler.promotion.errors": 1},
)


async def info(scene: Scene, worker: WorkerId) -> WorkerInfo:
    [found] = [one for one in await scene.store.workers.find() if one.id == worker]
    return found


async def say(scene: Scene, worker: WorkerId, facts: WorkerFacts) -> None:
    assert (await scene.store.workers.heartbeat(worker, 30, [], facts=facts)).known


async def count(scene: Scene, worker: WorkerId, **counts: int) -> None:
    await say(scene, worker, WorkerFacts(counts=counts))


async def test_a_worker_that_said_nothing_has_no_facts(scene: Scene) -> None:
    assert (await info(scene, scene.worker)).facts == NO_FACTS


async def test_a_beat_brings_the_facts_of_its_worker(scene: Scene) -> None:
    worker = await scene.hire()
    await say(scene, worker, SAID)
    assert (await info(scene, worker)).facts == SAID
    assert (await info(scene, scene.worker)).facts == NO_FACTS


async def test_the_last_beat_is_what_counts(scene: Scene) -> None:
    await say(scene, scene.worker, SAID)
    await say(scene, scene.worker, WorkerFacts(threads=3))
    assert (await info(scene, scene.worker)).facts == WorkerFacts(threads=3)


async def test_a_registration_brings_facts_too(scene: Scene) -> None:
    worker = new_worker(facts=SAID)
    for _ in range(2):
        await scene.store.workers.register(worker, 30)
    assert (await info(scene, worker.id)).facts == SAID


async def test_every_worker_tells_its_own_facts_not_the_leaders_alone(scene: Scene) -> None:
    """Elsewhere only the leader's own gauges were stored."""
    workers = [await scene.hire() for _ in range(3)]
    assert await scene.store.workers.lead("evaluator", workers[0], 30)
    for threads, worker in enumerate(workers, 1):
        await say(scene, worker, WorkerFacts(threads=threads))
    assert [(await info(scene, one)).facts.threads for one in workers] == [1, 2, 3]


async def test_a_stale_worker_is_never_counted_as_live(scene: Scene) -> None:
    """Elsewhere stale rows were counted as live workers."""
    worker = await scene.hire(lease=30)
    await say(scene, worker, SAID)
    assert (await info(scene, worker)).standing is WorkerStanding.ALIVE
    scene.clock.advance(31)
    stale = await info(scene, worker)
    assert stale.standing is WorkerStanding.LAPSED
    assert not stale.available
    assert stale.facts == SAID, "what it said last is kept, to look at"


async def test_ages_are_told_by_one_clock(scene: Scene) -> None:
    """Elsewhere an age was the difference of two machines' clocks. Here both moments are the
    store's: the manual clock of this test is nowhere near this machine's time."""
    worker = await scene.hire()
    scene.clock.advance(20)
    await say(scene, worker, SAID)
    scene.clock.advance(7.5)
    found = await info(scene, worker)
    assert found.heartbeat_age == pytest.approx(7.5)
    assert found.read_at == scene.clock.now


async def test_stuck_handlers_make_a_queue_or_a_pattern_smaller(scene: Scene) -> None:
    worker = await scene.hire(queues={"mail": 10, "eu*": 5})
    slots = {"mail": SlotFacts(stuck=2), "eu*": SlotFacts(stuck=1)}
    await say(scene, worker, WorkerFacts(slots=slots))
    found = await info(scene, worker)
    assert [found.usable_slots(name) for name in ("mail", "eu-1", "eu-2")] == [8, 4, 4]
    await say(scene, worker, NO_FACTS)
    assert (await info(scene, worker)).usable_slots("mail") == 10


# Counts ------------------------------------------------------------------------------------------


async def test_counts_are_summed_over_all_workers(scene: Scene) -> None:
    other = await scene.hire()
    assert await scene.store.workers.counts() == {}
    await count(scene, scene.worker, claimed=3, ended=2)
    await count(scene, other, claimed=4)
    assert await scene.store.workers.counts() == {"claimed": 7, "ended": 2}


async def test_a_repeated_beat_counts_nothing_twice(scene: Scene) -> None:
    for claimed in (3, 3, 5):
        await count(scene, scene.worker, claimed=claimed)
    assert await scene.store.workers.counts() == {"claimed": 5}


async def test_what_a_worker_counted_stays_when_it_leaves(scene: Scene) -> None:
    leaving, staying = await scene.hire(), await scene.hire()
    await count(scene, leaving, claimed=3)
    await count(scene, staying, claimed=4)
    for _ in range(2):
        await scene.store.workers.deregister(leaving)
    assert await scene.store.workers.counts() == {"claimed": 7}


async def test_a_leaving_worker_brings_its_last_counts(scene: Scene) -> None:
    worker = await scene.hire()
    await count(scene, worker, claimed=3)
    last = WorkerFacts(counts={"claimed": 5, "ended": 5})
    for _ in range(2):
        await scene.store.workers.deregister(worker, last)
    assert await scene.store.workers.counts() == {"claimed": 5, "ended": 5}


async def test_a_stranger_that_leaves_counts_nothing(scene: Scene) -> None:
    last = WorkerFacts(counts={"claimed": 5})
    await scene.store.workers.deregister(new_worker_id(), last)
    assert await scene.store.workers.counts() == {}


async def test_what_swept_workers_counted_stays(scene: Scene) -> None:
    for claimed in (1, 2, 3):
        await count(scene, await scene.hire(lease=30), claimed=claimed)
    scene.clock.advance(1_000)
    for expected in (2, 1, 0):
        assert await scene.store.workers.sweep(2, lapsed_for=60) == expected
        assert await scene.store.workers.counts() == {"claimed": 6}
        if expected == 1:
            break


async def test_no_sum_goes_down_while_workers_come_and_go(scene: Scene) -> None:
    """All of it at once, through several programs: a sum that is read between the two steps of a
    departure would dip, or count a worker twice."""
    workers = [await scene.hire() for _ in range(8)]
    for worker in workers:
        await count(scene, worker, claimed=10)
    sums: list[int] = []

    async with siblings(scene.store, 2) as [one, other]:

        async def leave() -> None:
            for worker in workers:
                await one.workers.deregister(worker, WorkerFacts(counts={"claimed": 11}))

        async def look() -> None:
            while not leaving.done():
                sums.append((await other.workers.counts())["claimed"])

        leaving = asyncio.create_task(leave())
        await asyncio.gather(leaving, look())
    assert sums == sorted(sums)
    assert await scene.store.workers.counts() == {"claimed": 88}


# What facts say ----------------------------------------------------------------------------------


def test_facts_of_a_later_release_are_read_as_far_as_this_one_knows_them() -> None:
    text = '{"threads":3,"mood":"good","slots":{"mail":{"used":1,"reserved":2}},"counts":{"x":1}}'
    found = WorkerFacts.from_json(text)
    assert (found.threads, found.slots) == (3, {"mail": SlotFacts(used=1)})
    assert (found.memory, found.counts) == (None, {"x": 1})


@pytest.mark.parametrize("text", ['{"threads":"many"}', "[]", "", '{"mail":2}'])
def test_facts_that_cannot_be_read_count_as_not_said(text: str) -> None:
    assert WorkerFacts.from_json(text) == NO_FACTS


def test_the_counts_of_reconcilers_are_told_by_name() -> None:
    found = SAID.reconcilers
    assert found == {
        "promotion": ReconcilerFacts(mended=4, errors=1, last_error=SAID.last_errors["promotion"])
    }
    odd = WorkerFacts(counts={"reconciler.a.b.mended": 1, "reconciler.a.eaten": 2, "mended": 3})
    assert odd.reconcilers == {"a.b": ReconcilerFacts(mended=1)}
