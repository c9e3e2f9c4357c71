"""Jobs that cost more than their limit ever lets pass: they keep nobody waiting who can begin."""

from __future__ import annotations

import pytest

from holdfast.job.ends import Cancelled
from holdfast.job.passing import Passed
from holdfast.job.record import Claimed
from holdfast.limits.model import Budget, Concurrency, Rate, Settings
from holdfast.store.contract.limits import Take
from tests.conformance.builders import FAILED, Scene
from tests.conformance.limiting import (
    at_cost,
    begun,
    bucket,
    costing,
    define,
    in_use,
    limited,
    nothing_is_wrong,
    of,
)


async def test_a_job_that_can_never_pass_keeps_nobody_of_its_line_waiting(scene: Scene) -> None:
    await limited(scene, memory=10)
    jobs = [await scene.enqueue(**costing(memory=cost)) for cost in (11, 4, 12, 3, 3)]
    assert of(await scene.claim(10)) == [jobs[1], jobs[3], jobs[4]], "in their order"
    assert await in_use(scene, "memory:") == 10
    assert {(await scene.live(job)).state for job in (jobs[0], jobs[2])} == {"ready"}
    await nothing_is_wrong(scene)


@pytest.mark.parametrize(
    ("settings", "lower"),
    [
        (Concurrency(10), Concurrency(4)),
        (Rate(10, per=1), Rate(4, per=1)),
        (Rate(10, per=1, burst=10), Rate(10, per=1, burst=4)),
        (Budget(10), Budget(4)),
    ],
)
async def test_a_limit_that_is_lowered_lets_the_others_pass(
    scene: Scene, settings: Settings, lower: Settings
) -> None:
    await define(scene, memory=settings)
    big = await scene.enqueue(**costing(memory=8))
    small = await scene.enqueue(**costing(memory=2))
    await scene.store.limits.put("memory", lower)
    assert of(await scene.claim(10)) == [small]
    await scene.store.limits.put("memory", settings)
    assert of(await scene.claim(10)) == [big]
    await nothing_is_wrong(scene)


async def test_who_waits_for_room_behind_a_job_that_cannot_pass_any_more_begins(
    scene: Scene,
) -> None:
    """The line is parked when the limit is lowered, and its first job can never pass then."""
    await limited(scene, memory=10)
    held = await scene.running(**costing(memory=7))
    big = await scene.enqueue(**costing(memory=8))
    small = await scene.enqueue(**costing(memory=2))
    assert await scene.claim(10) == []
    await scene.store.limits.put("memory", Concurrency(5))
    assert await scene.claim(10) == [], "seven of five are in use"
    await scene.finish(held)
    assert of(await scene.claim(10)) == [small]
    assert (await scene.live(big)).state == "ready"


async def test_a_lowered_limit_with_room_lets_the_next_of_a_parked_line_begin(
    scene: Scene,
) -> None:
    await limited(scene, memory=10)
    await scene.running(**costing(memory=3))
    await scene.enqueue(**costing(memory=8))
    small = await scene.enqueue(**costing(memory=2))
    assert await scene.claim(10) == []
    await scene.store.limits.put("memory", Concurrency(7))
    assert of(await scene.claim(10)) == [small]


async def test_those_who_stand_aside_begin_when_the_limit_lets_them_pass(scene: Scene) -> None:
    """Each for itself: one that costs still too much keeps no other one waiting."""
    await limited(scene, memory=5)
    jobs = {cost: await scene.enqueue(**costing(memory=cost)) for cost in (30, 20, 10, 1)}
    assert of(await scene.claim(10)) == [jobs[1]]
    await scene.store.limits.put("memory", Concurrency(21))
    assert set(of(await scene.claim(10)) + of(await scene.claim(10))) == {jobs[20]}
    await scene.store.limits.put("memory", Concurrency(100))
    assert set(of(await scene.claim(10)) + of(await scene.claim(10))) == {jobs[30], jobs[10]}
    await nothing_is_wrong(scene)


async def test_a_limit_that_lets_nothing_pass_is_shut_and_keeps_the_order(scene: Scene) -> None:
    await limited(scene, memory=10)
    jobs = [await scene.enqueue(**costing(memory=cost)) for cost in (5, 1, 4)]
    await scene.store.limits.put("memory", Concurrency(0))
    assert await scene.claim(10) == []
    found = await bucket(scene, "memory:")
    assert (found.waiting, found.stuck) == (1, 0)
    await scene.store.limits.put("memory", Concurrency(9))
    assert of(await scene.claim(10)) == jobs[:2]


async def test_a_limit_that_was_shut_and_is_opened_a_little_lets_the_small_begin(
    scene: Scene,
) -> None:
    await limited(scene, memory=0)
    await scene.enqueue(**costing(memory=5))
    small = await scene.enqueue(**costing(memory=2))
    assert await scene.claim(10) == []
    await scene.store.limits.put("memory", Concurrency(3))
    assert of(await scene.claim(10)) == [small]


async def test_more_jobs_that_can_never_pass_than_a_claim_looks_at(scene: Scene) -> None:
    await limited(scene, memory=5)
    await scene.enqueue_many(60, **costing(memory=6))
    small = await scene.enqueue(**costing(memory=2))
    claimed: list[Claimed] = []
    for _ in range(20):
        if claimed := await scene.claim(1):
            break
    assert of(claimed) == [small]
    assert await scene.claim(1) == []
    found = await bucket(scene, "memory:")
    assert (found.waiting, found.stuck) == (1, 1), "all that cost the same are one line"


async def test_a_level_of_a_path_makes_its_jobs_stand_aside(scene: Scene) -> None:
    await define(scene, tokens=Budget(1000))
    await scene.store.limits.override("tokens", "acme", Budget(100))
    path = ("tokens:acme", "tokens:acme/ml")
    big = await scene.enqueue(**at_cost(dict.fromkeys(path, 500)))
    small = await scene.enqueue(**at_cost(dict.fromkeys(path, 50)))
    assert of(await scene.claim(10)) == [small]
    await scene.store.limits.override("tokens", "acme", None)
    assert of(await scene.claim(10)) == [big]


async def test_what_stands_aside_is_what_it_was(scene: Scene) -> None:
    """It passes the same limits, and is cancelled, moved and given another priority as before."""
    await limited(scene, memory=5, tenant=9)
    jobs = [await scene.enqueue(**at_cost({"memory:": 9, "tenant:a": 1})) for _ in range(4)]
    assert await scene.claim(10) == []
    passed = Passed("memory:\ntenant:a", "9,1")
    assert await scene.store.limits.of(jobs) == dict.fromkeys(jobs, passed)
    await scene.finish(await scene.live(jobs[0]), Cancelled())
    await scene.store.jobs.move([jobs[1]], "elsewhere")
    await scene.store.jobs.reprioritise([jobs[2]], -1)
    assert await scene.claim(10) == []
    await scene.store.limits.put("memory", Concurrency(50))
    assert set(of(await scene.claim(10)) + of(await scene.claim(10))) == {jobs[2], jobs[3]}
    assert of(await scene.claim(10, "elsewhere")) == [jobs[1]]
    await nothing_is_wrong(scene)


async def test_an_attempt_of_what_stood_aside_is_repeated_in_its_line(scene: Scene) -> None:
    await limited(scene, memory=5)
    job = await scene.enqueue(**costing(memory=9))
    assert await scene.claim(10) == []
    await scene.store.limits.put("memory", Concurrency(9))
    held = await scene.claim_one()
    assert held.id == job
    await scene.finish(held)
    assert await in_use(scene, "memory:") == 0
    await scene.store.jobs.requeue([job])
    assert of(await scene.claim(10)) == [job]
    await nothing_is_wrong(scene)


async def test_who_stands_aside_is_named(scene: Scene) -> None:
    await limited(scene, memory=5)
    huge = await scene.enqueue(**costing(memory=9))
    fits = await scene.enqueue(**costing(memory=5))
    waits = await scene.enqueue(**costing(memory=4))
    assert of(await scene.claim(10)) == [fits]
    assert await scene.claim(10) == []
    limits = scene.store.limits
    found = await bucket(scene, "memory:")
    assert (found.waiting, found.stuck, found.needs, found.free) == (2, 1, 4, 0)
    [stuck] = await limits.waiters("memory:", 10, never=True)
    assert (stuck.job_id, stuck.needs, stuck.queue) == (huge, 9, "default")
    [waiter] = await limits.waiters("memory:", 10)
    assert (waiter.job_id, waiter.needs) == (waits, 4)
    await limits.put("memory", Concurrency(20))
    assert (await bucket(scene, "memory:")).stuck == 0


async def test_the_job_before_others_of_its_line_is_named(scene: Scene) -> None:
    await limited(scene, memory=5, tenant=5)
    first = await scene.enqueue(**costing(memory=5))
    second = await scene.enqueue(**costing(memory=1))
    other = await scene.enqueue(**at_cost({"memory:": 5, "tenant:a": 1}))
    plain = await scene.enqueue()
    found = await scene.store.limits.before([first, second, other, plain])
    assert found == {second: first}
    assert await scene.store.limits.before([]) == {}


async def test_who_comes_to_stand_aside_is_kept_where_the_one_before_has_just_left(
    scene: Scene,
) -> None:
    """The claim that removes the empty line of those who stand aside lets another job stand there:
    a job in a line that is gone would never begin."""
    await limited(scene, memory=4)
    first = await scene.enqueue(**costing(memory=5))
    assert await scene.claim(10) == []
    assert (await scene.finish(await scene.live(first), Cancelled())).accepted
    job = await scene.enqueue(**costing(memory=5))
    assert await scene.claim(10) == []
    await scene.store.limits.put("memory", Concurrency(5))
    assert of([*await scene.claim(10), *await scene.claim(10)]) == [job]


@pytest.mark.parametrize(("hard", "cost"), [(0, 1), (0, 5), (4, 5)])
@pytest.mark.parametrize("is_first", [False, True])
async def test_a_budget_that_is_topped_up_lets_so_much_more_pass_in_its_period(
    scene: Scene, hard: int, cost: int, is_first: bool
) -> None:
    limits = scene.store.limits
    await define(scene, purse=Budget(hard, every=1000.0))
    if is_first:
        await limits.adjust("purse:", 6)
    big = await scene.enqueue(**costing(purse=cost))
    if not is_first:
        assert await scene.claim(10) == []
        await limits.adjust("purse:", 6)
    [held, *_] = [*await scene.claim(10), *await scene.claim(10)]
    assert held.id == big
    [taken] = await limits.take([Take("purse:", 6 + hard - cost)])
    assert taken.granted
    assert (await scene.finish(held)).accepted
    assert (await bucket(scene, "purse:")).room == 0
    await nothing_is_wrong(scene)


async def test_a_top_up_is_over_with_its_period(scene: Scene) -> None:
    """Who costs more than the budget has without it stands aside again, and keeps nobody
    waiting."""
    await define(scene, purse=Budget(4, every=1000.0))
    await scene.store.limits.adjust("purse:", 2)
    [held] = await begun(scene, 1, "purse:")
    big = await scene.enqueue(**costing(purse=6))
    assert await scene.claim(10) == []
    assert (await bucket(scene, "purse:")).stuck == 0, "it waits for the one that runs"
    assert (await scene.finish(held, FAILED)).accepted
    scene.clock.advance(1000)
    small = await scene.enqueue(**costing(purse=3))
    assert of([*await scene.claim(10), *await scene.claim(10)]) == [small]
    assert await scene.claim(10) == []
    assert (await bucket(scene, "purse:")).stuck == 1
    [waiter] = await scene.store.limits.waiters("purse:", 5, never=True)
    assert waiter.job_id == big
    await scene.store.limits.adjust("purse:", 9)
    assert of([*await scene.claim(10), *await scene.claim(10)]) == [big]
    await nothing_is_wrong(scene)
