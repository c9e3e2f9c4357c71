"""What is said of jobs that wait behind others: in their lines, and at their buckets."""

from __future__ import annotations

import pytest

from holdfast.clock import ManualClock
from holdfast.insights.explain import explain
from holdfast.insights.limits import check_limits
from holdfast.insights.reasons import Reason
from holdfast.job.ids import JobId
from holdfast.limits.model import Concurrency
from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene
from tests.conformance.limiting import at_cost, costing, limited, of


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
