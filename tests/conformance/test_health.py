"""Health.check: what the store can tell about its own health."""

from __future__ import annotations

import pytest

import holdfast.store.postgres.health
import holdfast.store.sqlite.health
import holdfast.store.valkey.lists
from holdfast.clock import ManualClock
from holdfast.job.step import StepRecord
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.health import Severity
from holdfast.store.contract.store import Store
from tests.conformance.builders import FAILED, REACHABLE, Scene
from tests.conformance.streaming import append, frames_of
from tests.support.backends import Inspectable, opened


async def problems(store: Store, *, deep: bool = False) -> list[str]:
    found = await store.health.check(deep=deep)
    return [f"{one.check}: {one.saw}" for one in found if one.severity is Severity.PROBLEM]


async def table(inspectable: Inspectable, url: str, *names: str) -> list[str]:
    """The tables of these plain names, as a statement has to write them."""
    plain = {
        full.rpartition(".")[2].strip('"').removeprefix("holdfast_"): full
        for full in await inspectable.tables(url)
    }
    return [plain[name] for name in names]


async def test_an_empty_store_is_well(scene: Scene) -> None:
    findings = await scene.store.health.check()
    assert findings
    assert all(one.check and one.saw for one in findings)
    assert await problems(scene.store) == []


async def test_a_store_with_jobs_in_every_state_is_well(scene: Scene) -> None:
    for state in REACHABLE:
        await scene.in_state(state, queue=state)
    assert await problems(scene.store) == []


async def test_a_store_that_is_well_needs_no_repair(scene: Scene) -> None:
    for state in REACHABLE:
        await scene.in_state(state, queue=state)
    before = await scene.store.jobs.count(JobFilter())
    assert await scene.store.health.repair() == 0
    assert await scene.store.jobs.count(JobFilter()) == before
    assert await problems(scene.store, deep=True) == []


async def test_what_is_not_well_comes_with_advice(scene: Scene) -> None:
    for one in await scene.store.health.check():
        assert one.severity is Severity.OK or one.advice


@pytest.fixture
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check looks at one job of either end, a deep one at two at a time."""
    of_tables = (holdfast.store.postgres.health, holdfast.store.sqlite.health)
    for module in of_tables:
        monkeypatch.setattr(module, "JOBS_SAMPLED", 1)
    for module in (*of_tables, holdfast.store.valkey.lists):
        monkeypatch.setattr(module, "JOBS_AT_ONCE", 2)


@pytest.mark.usefixtures("short_looks")
async def test_a_deep_check_looks_at_every_job_and_says_how_far_it_is(scene: Scene) -> None:
    for state in REACHABLE:
        await scene.in_state(state, queue=state)
        await scene.in_state(state, queue=state)
    jobs = sum((await scene.store.jobs.count(JobFilter())).values())
    heard: list[int] = []
    found = await scene.store.health.check(deep=True, looked=heard.append)
    assert [one for one in found if one.severity is Severity.PROBLEM] == []
    assert heard == sorted(heard)
    assert heard[-1] == jobs >= 2 * len(REACHABLE)
    assert len(heard) >= jobs // 2


@pytest.mark.usefixtures("short_looks")
async def test_only_a_deep_check_finds_what_is_wrong_between_the_oldest_and_the_newest_jobs(
    inspectable: Inspectable, clock: ManualClock
) -> None:
    url = await inspectable.empty()
    async with opened(url, clock) as store:
        jobs = await (await Scene.on(store, clock)).enqueue_many(9)
        [bodies] = await table(inspectable, url, "job")
        await inspectable.query(url, f"delete from {bodies} where id = '{jobs[4]}'")
        assert await problems(store) == []
        [problem] = await problems(store, deep=True)
        assert "without a job" in problem


@pytest.mark.usefixtures("short_looks")
@pytest.mark.parametrize("place", [0, -1], ids=["the oldest", "the newest"])
async def test_a_check_looks_at_the_oldest_and_the_newest_jobs(
    inspectable: Inspectable, clock: ManualClock, place: int
) -> None:
    url = await inspectable.empty()
    async with opened(url, clock) as store:
        jobs = await (await Scene.on(store, clock)).enqueue_many(9)
        ready = [name for name in await inspectable.tables(url) if "ready" in name]
        for name in ready:
            await inspectable.query(url, f"delete from {name} where job_id = '{jobs[place]}'")
        [problem] = await problems(store)
        assert problem.startswith(("jobs in no place", "jobs without a place"))


async def test_a_job_in_two_places_is_a_problem(
    inspectable: Inspectable, clock: ManualClock
) -> None:
    url = await inspectable.empty()
    async with opened(url, clock) as store:
        scene = await Scene.on(store, clock)
        await scene.ended()
        await scene.enqueue()
        [ready] = [
            name for name in await inspectable.tables(url) if name.strip('"').endswith("ready")
        ]
        [outcome] = [name for name in await inspectable.tables(url) if "outcome" in name]
        await inspectable.query(url, f"update {ready} set job_id = (select job_id from {outcome})")
        assert await problems(store) != []


async def test_a_place_without_a_body_is_a_problem(
    inspectable: Inspectable, clock: ManualClock
) -> None:
    url = await inspectable.empty()
    async with opened(url, clock) as store:
        await (await Scene.on(store, clock)).enqueue()
        [bodies] = await table(inspectable, url, "job")
        await inspectable.query(url, f"delete from {bodies}")
        assert await problems(store) != []


async def test_a_happening_without_a_job_is_a_problem(
    inspectable: Inspectable, clock: ManualClock
) -> None:
    url = await inspectable.empty()
    async with opened(url, clock) as store:
        scene = await Scene.on(store, clock)
        await scene.ended(FAILED)
        jobs, outcomes = await table(inspectable, url, "job", "outcome")
        assert await problems(store) == []
        await inspectable.query(url, f"delete from {outcomes}")
        await inspectable.query(url, f"delete from {jobs}")
        [problem] = await problems(store)
        assert "happenings without a job" in problem


@pytest.mark.parametrize("what", ["step", "frames"])
async def test_a_step_or_frames_without_a_job_are_a_problem(
    inspectable: Inspectable, clock: ManualClock, what: str
) -> None:
    url = await inspectable.empty()
    async with opened(url, clock) as store:
        scene = await Scene.on(store, clock)
        claimed = await scene.running()
        if what == "step":
            await store.steps.record([StepRecord(claimed.id, claimed.fence, "pay", 1, result="1")])
        else:
            await append(scene, frames_of(claimed))
        await scene.finish(claimed)
        jobs, outcomes = await table(inspectable, url, "job", "outcome")
        assert await problems(store) == []
        await inspectable.query(url, f"delete from {outcomes}")
        await inspectable.query(url, f"delete from {jobs}")
        [problem] = await problems(store)
        assert "steps or frames without a job" in problem
