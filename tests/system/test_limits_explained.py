"""What is said of jobs that wait behind others: in their lines, and at their buckets."""

from __future__ import annotations

import pytest

from holdfast.clock import ManualClock
from holdfast.insights.explain import explain
from holdfast.insights.limits import check_limits
from holdfast.insights.reasons import Reason, Who
from holdfast.job.ids import JobId
from holdfast.limits.model import Budget, Concurrency
from holdfast.store.contract.queues import QueueSettings, jobs_of
from holdfast.store.contract.store import Store
from tests.conformance.builders import QUEUE, TASK, Scene
from tests.conformance.limiting import at_cost, costing, define, limited, of, through


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


async def reason(scene: Scene, job: JobId) -> Reason:
    [found] = (await explain(scene.store, await scene.job(job))).reasons
    return found


async def test_explain_names_the_first_job_of_a_line_and_what_it_waits_for(scene: Scene) -> None:
    await limited(scene, memory=10)
    await scene.running(**costing(memory=6))
    big = await scene.enqueue(**costing(memory=8))
    small = await scene.enqueue(**costing(memory=2))
    assert await scene.claim(10) == []
    found = await reason(scene, small)
    assert found.code == "not-first"
    assert f"job {big} is before it in its line and waits (limit-full)" in found.fact
    assert "limit 'memory': 6 of 10 run" in found.fact
    assert found.advice is not None
    assert "or cancel that job, or move it" in found.advice


async def test_explain_names_who_came_first_at_a_bucket(scene: Scene) -> None:
    await limited(scene, memory=10, tenant=100)
    await scene.running(**costing(memory=6))
    big = await scene.enqueue(**at_cost({"memory:": 8, "tenant:a": 1}))
    assert await scene.claim(10) == []
    small = await scene.enqueue(**at_cost({"memory:": 1, "tenant:b": 1}))
    assert await scene.claim(10) == []
    found = await reason(scene, small)
    assert found.code == "not-its-turn"
    assert "limit 'memory': 4 is free and it needs 1" in found.fact
    assert f"but job {big} of queue 'default' came first and needs 8" in found.fact


async def test_explain_and_the_doctor_name_jobs_that_can_never_pass(scene: Scene) -> None:
    await limited(scene, memory=10)
    big = await scene.enqueue(**costing(memory=8))
    small = await scene.enqueue(**costing(memory=2))
    await scene.store.limits.put("memory", Concurrency(5))
    found = await reason(scene, small)
    assert found.code == "not-first"
    assert f"job {big} is before it in its line, and the next claim sets it aside" in found.fact
    assert of(await scene.claim(10)) == [small]
    assert await scene.claim(10) == []
    found = await reason(scene, big)
    assert found.code == "cost-too-big"
    assert "it costs 8 of limit 'memory', which never lets more than 5 pass" in found.fact
    [warning] = [one for one in await check_limits(scene.store) if one.severity == "warning"]
    assert "jobs cost more than limit 'memory' ever lets pass, 5: job" in warning.saw
    assert f"job {big} needs 8" in warning.saw
    await scene.store.limits.put("memory", Concurrency(50))
    assert [one.severity for one in await check_limits(scene.store)] == ["ok"]


async def test_explain_names_what_stays_when_the_limit_has_room(scene: Scene) -> None:
    """Whoever is told of the limit alone waits for it, and the queue is paused all the while."""
    await limited(scene, tenant=1)
    await scene.running(**through("tenant:"))
    job = await scene.enqueue(**through("tenant:"))
    await scene.store.queues.pause([QUEUE, jobs_of(TASK)])
    assert await codes(scene, job) == ["limit-full", "task-paused", "queue-paused"]
    await scene.store.queues.resume([QUEUE, jobs_of(TASK)])
    capable = await scene.enqueue(**through("tenant:", labels=["gpu"]))
    assert await codes(scene, capable) == ["limit-full", "no-capable-worker"]
    unserved = await scene.enqueue(queue="elsewhere", **through("tenant:"))
    assert await codes(scene, unserved) == ["limit-full", "queue-unserved"]
    unknown = await scene.enqueue(queue="elsewhere", **through("nosuch:"))
    assert await codes(scene, unknown) == ["limit-unknown", "queue-unserved"]


async def codes(scene: Scene, job: JobId) -> list[str]:
    return [one.code for one in (await explain(scene.store, await scene.job(job))).reasons]


async def test_explain_names_the_operator_where_nothing_ever_passes(scene: Scene) -> None:
    await define(scene, tenant=Concurrency(0), tokens=Budget(0, every="day"))
    for options in (through("tenant:"), through("tokens:")):
        job = await scene.enqueue(**options)
        assert (await reason(scene, job)).who is Who.OPERATOR
    await scene.store.queues.tune("shut", QueueSettings(max_running=0))
    job = await scene.enqueue(queue="shut")
    found = (await explain(scene.store, await scene.job(job))).reasons[0]
    assert (found.code, found.who) == ("queue-full", Who.OPERATOR)


async def test_explain_names_a_step_of_a_path_that_is_shut(scene: Scene) -> None:
    """Without amounts of its own a step of a path holds nobody up, unless it is drained."""
    await define(scene, tokens=Budget(100))
    job = await scene.enqueue(**through("tokens:acme", "tokens:acme/ml"))
    await scene.store.limits.drain({"tokens:acme": 60.0})
    assert await scene.claim(1) == []
    found = await reason(scene, job)
    assert found.code == "limit-drained"
    assert "limit 'tokens' for 'acme' is shut" in found.fact
