"""A worker that ends a node is given the next one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from holdfast.errors import NotCapable
from holdfast.job.ends import End
from holdfast.job.ids import WorkerId, new_worker_id
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed, times_taken
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.store.contract.queues import EVERY_QUEUE, QueueSettings, jobs_of
from holdfast.store.contract.records import Capability, Room, Verdict
from holdfast.store.contract.wakeups import Topic
from tests.conformance.builders import FAILED, QUEUE, RETURNED, TASK, Scene
from tests.conformance.limiting import limited, through
from tests.support.flows import Trip, Waits
from tests.support.listening import listening

TWO: dict[str, Waits] = {"a": [], "b": ["a"]}
Answer = tuple[Verdict, Claimed | None]


@pytest.fixture
def capable(scene: Scene) -> Scene:
    if Capability.HAND_OVER not in scene.store.capabilities:
        pytest.skip(f"this store does not {Capability.HAND_OVER}")
    return scene


async def hand_over(
    scene: Scene,
    job: Claimed,
    end: End = RETURNED,
    *,
    worker: WorkerId | None = None,
    queues: tuple[str, ...] = (QUEUE,),
    tasks: tuple[str, ...] = (TASK,),
) -> Answer:
    room = Room(worker or scene.worker, queues, tasks)
    return await scene.store.jobs.hand_over(decide(job, end), room)


async def test_the_released_node_comes_with_the_verdict(capable: Scene) -> None:
    trip = await Trip.begin(capable, TWO, node_options={"b": {"tags": ("t",), "priority": 3}})
    verdict, brought = await hand_over(capable, await capable.claim_one())
    assert verdict == Verdict(trip.ids["a"], accepted=True)
    assert brought is not None
    assert (brought.id, brought.tags, brought.priority) == (trip.ids["b"], ("t",), 3)
    assert (times_taken(brought.fence), brought.ahead) == (1, False)
    assert await trip.states() == {"a": "succeeded", "b": "running"}
    assert await capable.claim() == []


async def test_a_node_that_was_handed_over_ends_as_one_that_was_claimed(capable: Scene) -> None:
    trip = await Trip.begin(capable, {**TWO, "c": ["b"]})
    job: Claimed | None = await capable.claim_one()
    for _ in trip.ids:
        assert job is not None
        verdict, job = await hand_over(capable, job)
        assert verdict.accepted
    assert job is None
    assert set((await trip.states()).values()) == {"succeeded"}
    assert (await trip.info()).state == "succeeded"


async def test_nobody_is_woken_for_a_node_that_was_handed_over(capable: Scene) -> None:
    await Trip.begin(capable, TWO)
    job = await capable.claim_one()
    async with listening(capable.store) as ear:
        _, brought = await hand_over(capable, job)
        await capable.insert(queue="other")
        assert await ear.hears(Topic.READY, "other")
        assert brought is not None
        assert [one.name for one in ear.heard if one.topic is Topic.READY] == ["other"]


async def test_a_job_that_stands_before_the_node_is_claimed_first(capable: Scene) -> None:
    trip = await Trip.begin(capable, TWO)
    job = await capable.claim_one()
    first = await capable.enqueue()
    _, brought = await hand_over(capable, job)
    assert brought is None
    assert [one.id for one in await capable.claim(2)] == [first, trip.ids["b"]]


async def test_a_refused_end_hands_nothing_over(capable: Scene) -> None:
    trip = await Trip.begin(capable, TWO)
    job = await capable.claim_one()
    late = msgspec.structs.replace(job, fence=job.fence + 1)
    verdict, brought = await hand_over(capable, late)
    assert (verdict.accepted, verdict.state, brought) == (False, JobState.RUNNING, None)
    assert await trip.states() == {"a": "running", "b": "blocked"}


async def test_a_failed_end_skips_what_it_would_have_released(capable: Scene) -> None:
    trip = await Trip.begin(capable, TWO)
    verdict, brought = await hand_over(capable, await capable.claim_one(), FAILED)
    assert (verdict.accepted, brought) == (True, None)
    assert await trip.states() == {"a": "failed", "b": "skipped"}


async def test_a_plain_job_ends_as_by_finish(capable: Scene) -> None:
    job = await capable.running()
    verdict, brought = await hand_over(capable, job)
    assert (verdict.accepted, brought) == (True, None)
    assert await capable.state(job.id) is JobState.SUCCEEDED


async def test_of_several_released_nodes_each_begins(capable: Scene) -> None:
    trip = await Trip.begin(capable, {**TWO, "c": ["a"]})
    _, brought = await hand_over(capable, await capable.claim_one())
    begun = [*([] if brought is None else [brought]), *await capable.claim(2)]
    assert {job.id for job in begun} == {trip.ids["b"], trip.ids["c"]}


Obstacle = Callable[[Scene, Trip], Awaitable[dict[str, Any]]]


async def paused_queue(scene: Scene, trip: Trip) -> dict[str, Any]:
    await scene.store.queues.pause([QUEUE])
    return {}


async def paused_queues(scene: Scene, trip: Trip) -> dict[str, Any]:
    await scene.store.queues.pause([EVERY_QUEUE])
    return {}


async def paused_task(scene: Scene, trip: Trip) -> dict[str, Any]:
    await scene.store.queues.pause([jobs_of(TASK)])
    return {}


async def paused_flow(scene: Scene, trip: Trip) -> dict[str, Any]:
    await scene.store.flows.pause([trip.id])
    return {}


async def no_slot_of_its_queue(scene: Scene, trip: Trip) -> dict[str, Any]:
    return {"queues": ("other",)}


async def another_task(scene: Scene, trip: Trip) -> dict[str, Any]:
    return {"tasks": ("other",)}


async def unknown_worker(scene: Scene, trip: Trip) -> dict[str, Any]:
    return {"worker": new_worker_id()}


async def lapsed_worker(scene: Scene, trip: Trip) -> dict[str, Any]:
    worker = await scene.hire(lease=1.0)
    scene.clock.advance(2.0)
    return {"worker": worker}


@pytest.mark.parametrize(
    "obstacle",
    [
        *(paused_queue, paused_queues, paused_task, paused_flow),
        *(no_slot_of_its_queue, another_task, unknown_worker, lapsed_worker),
    ],
    ids=lambda obstacle: obstacle.__name__,
)
async def test_nothing_is_handed_over_that_a_claim_would_not_give(
    capable: Scene, obstacle: Obstacle
) -> None:
    trip = await Trip.begin(capable, TWO)
    job = await capable.claim_one()
    verdict, brought = await hand_over(capable, job, **await obstacle(capable, trip))
    assert (verdict.accepted, brought) == (True, None)
    await capable.store.queues.resume([QUEUE, EVERY_QUEUE, jobs_of(TASK)])
    await capable.store.flows.resume([trip.id])
    assert [one.id for one in await capable.claim()] == [trip.ids["b"]]


async def test_a_node_with_a_delay_is_scheduled(capable: Scene) -> None:
    trip = await Trip.begin(capable, TWO, delays={"b": 5.0})
    _, brought = await hand_over(capable, await capable.claim_one())
    assert brought is None
    assert await trip.state("b") is JobState.SCHEDULED


async def test_a_node_with_limits_passes_them(capable: Scene) -> None:
    await limited(capable, tenant=1)
    passing = {**through("tenant:a"), "ties": int(Tie.NODE | Tie.PERMITS)}
    trip = await Trip.begin(capable, TWO, node_options={"b": passing})
    job = await capable.claim_one()
    await capable.running(**through("tenant:a"))
    _, brought = await hand_over(capable, job)
    assert brought is None
    assert await capable.claim() == []
    assert await trip.state("b") is JobState.READY


@pytest.mark.usefixtures("totals")
async def test_a_queue_with_a_total_gives_no_more_than_that(capable: Scene) -> None:
    await capable.store.queues.tune(QUEUE, QueueSettings(max_running=1))
    await Trip.begin(capable, {**TWO, "c": []})
    first = await capable.claim_one()
    assert await capable.claim() == []
    _, brought = await hand_over(capable, first)
    begun = [*([] if brought is None else [brought]), *await capable.claim(2)]
    assert len(begun) == 1


async def test_a_store_that_cannot_hand_over_says_so(scene: Scene) -> None:
    if Capability.HAND_OVER in scene.store.capabilities:
        pytest.skip(f"this store does {Capability.HAND_OVER}")
    job = await scene.running()
    with pytest.raises(NotCapable):
        await hand_over(scene, job)
    assert await scene.state(job.id) is JobState.RUNNING
