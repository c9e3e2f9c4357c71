"""Jobs that cost more than one: how much of a bucket they take, and who waits for whom."""

from __future__ import annotations

from holdfast.job.ends import Cancelled, HandedBack
from holdfast.job.passing import Passed
from holdfast.limits.model import Concurrency
from tests.conformance.builders import RAISED, Scene
from tests.conformance.limiting import (
    at_cost,
    bucket,
    costing,
    in_use,
    limited,
    nothing_is_wrong,
    of,
    through,
)


async def test_a_job_takes_what_it_costs(scene: Scene) -> None:
    await limited(scene, memory=10)
    jobs = [await scene.enqueue(**costing(memory=4)) for _ in range(3)]
    held = await scene.claim(10)
    assert of(held) == jobs[:2]
    assert await in_use(scene, "memory:") == 8
    await scene.finish(held[0])
    assert await in_use(scene, "memory:") == 4
    assert of(await scene.claim(10)) == jobs[2:]
    await nothing_is_wrong(scene)


async def test_each_bucket_has_a_cost_of_its_own(scene: Scene) -> None:
    await limited(scene, memory=10, tenant=2)
    units = {"memory:": 5, "tenant:a": 1}
    job = await scene.enqueue(**at_cost(units))
    assert await scene.store.limits.of([job]) == {job: Passed("memory:\ntenant:a", "5,1")}
    [held] = await scene.claim(10)
    assert (await in_use(scene, "memory:"), await in_use(scene, "tenant:a")) == (5, 1)
    await scene.finish(held)
    assert (await in_use(scene, "memory:"), await in_use(scene, "tenant:a")) == (0, 0)


async def test_an_attempt_that_is_repeated_costs_the_same_again(scene: Scene) -> None:
    await limited(scene, memory=10)
    await scene.enqueue(**costing(memory=7))
    await scene.finish(await scene.claim_one(), RAISED)
    assert await in_use(scene, "memory:") == 0
    scene.clock.advance(60)
    await scene.store.jobs.promote_due(10)
    await scene.claim_one()
    assert await in_use(scene, "memory:") == 7
    await nothing_is_wrong(scene)


async def test_jobs_of_one_line_may_cost_differently_and_keep_their_order(scene: Scene) -> None:
    await limited(scene, memory=10)
    costs = [3, 6, 2, 1]
    jobs = [await scene.enqueue(**costing(memory=cost)) for cost in costs]
    held = await scene.claim(10)
    assert of(held) == jobs[:2], "who comes behind a job that has no room waits too"
    await scene.finish(held[1])
    assert of(await scene.claim(10)) == jobs[2:]


async def test_small_jobs_do_not_keep_a_big_one_waiting_at_its_bucket(scene: Scene) -> None:
    await limited(scene, memory=10, tenant=100)
    first = await scene.enqueue(**costing(memory=6))
    [held] = await scene.claim(10)
    big = await scene.enqueue(**at_cost({"memory:": 8, "tenant:big": 1}))
    assert await scene.claim(10) == []
    small = await scene.enqueue(**at_cost({"memory:": 1, "tenant:small": 1}))
    assert await scene.claim(10) == [], "there is room for 4, and somebody waits for 8"
    assert (await bucket(scene, "memory:")).needs == 8
    assert held.id == first
    await scene.finish(held)
    assert set(of(await scene.claim(10))) == {big, small}
    await nothing_is_wrong(scene)


async def test_who_waits_behind_a_cancelled_big_job_begins(scene: Scene) -> None:
    await limited(scene, memory=10, tenant=100)
    await scene.enqueue(**costing(memory=6))
    await scene.claim(10)
    big = await scene.enqueue(**at_cost({"memory:": 8, "tenant:a": 1}))
    behind = await scene.enqueue(**at_cost({"memory:": 2, "tenant:a": 1}))
    other = await scene.enqueue(**at_cost({"memory:": 1, "tenant:b": 1}))
    assert await scene.claim(10) == []
    await scene.finish(await scene.live(big), Cancelled())
    assert set(of(await scene.claim(10))) == {behind, other}


async def test_who_waits_behind_a_big_job_of_lower_priority_begins(scene: Scene) -> None:
    """It is moved out of the way by an operator."""
    await limited(scene, memory=10)
    await scene.enqueue(**costing(memory=6))
    await scene.claim(10)
    big = await scene.enqueue(**costing(memory=8))
    behind = await scene.enqueue(**costing(memory=2))
    assert await scene.claim(10) == []
    await scene.store.jobs.move([big], "elsewhere")
    assert of(await scene.claim(10)) == [behind]


async def test_a_small_job_that_comes_back_to_the_head_begins(scene: Scene) -> None:
    await limited(scene, memory=10, tenant=100)
    small = await scene.enqueue(**at_cost({"memory:": 2, "tenant:a": 1}))
    [held] = await scene.claim(10)
    await scene.enqueue(**costing(memory=5))
    await scene.claim(10)
    big = await scene.enqueue(**at_cost({"memory:": 6, "tenant:a": 1}))
    assert await scene.claim(10) == []
    await scene.finish(held, HandedBack())
    assert of(await scene.claim(10)) == [small]
    assert await scene.claim(10) == []
    assert (await scene.live(big)).state == "ready"


async def test_a_cost_above_the_limit_waits_and_holds_up_nobody_else(scene: Scene) -> None:
    await limited(scene, memory=10, tenant=100)
    huge = await scene.enqueue(**at_cost({"memory:": 11, "tenant:a": 1}))
    assert await scene.claim(10) == []
    other = await scene.enqueue(**at_cost({"memory:": 9, "tenant:b": 1}))
    assert of(await scene.claim(10)) == [other]
    await scene.store.limits.put("memory", Concurrency(20))
    assert of(await scene.claim(10)) == [huge]


async def test_a_costly_job_and_others_share_a_shared_bucket(scene: Scene) -> None:
    await limited(scene, memory=10)
    await scene.enqueue_many(3, **through("memory:"))
    await scene.enqueue(**costing(memory=7))
    assert len(await scene.claim(10)) == 4
    assert await in_use(scene, "memory:") == 10
    await nothing_is_wrong(scene)


async def test_who_is_let_go_on_begins_before_who_still_waits(scene: Scene) -> None:
    """Although the one that still waits needs more than is left then."""
    await limited(scene, memory=10, tenant=100)
    held = await scene.running(**costing(memory=10))
    jobs = [
        await scene.enqueue(**at_cost({"memory:": cost, f"tenant:{cost}": 1})) for cost in (2, 3, 9)
    ]
    assert await scene.claim(10) == []
    await scene.finish(held)
    assert set(of(await scene.claim(10)) + of(await scene.claim(10))) == set(jobs[:2])
    assert (await bucket(scene, "memory:")).needs == 9
    await nothing_is_wrong(scene)
