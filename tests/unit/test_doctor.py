"""What the doctor finds in a store where something is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.insights.diagnosis import Diagnosis
from holdfast.insights.doctor import examine
from holdfast.insights.explain import explain
from holdfast.insights.worker_checks import alarms
from holdfast.insights.workforce import read_workforce
from holdfast.job.policy import Policy
from holdfast.job.state import JobState
from holdfast.store.contract.audit import AuditFilter
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.health import Severity
from holdfast.store.contract.operations import (
    Advance,
    OperationProgress,
    OperationRequest,
    OperationState,
    new_operation_id,
)
from holdfast.store.contract.queues import EVERY_QUEUE, Paused, jobs_of
from holdfast.store.contract.telemetry import Tally
from holdfast.store.open import open_store
from tests.conformance.builders import STEADY, Scene, new_worker
from tests.support.backends import opened

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


@pytest.fixture
def clock() -> ManualClock:
    """Near the machine's own, so that only the test about clocks sees a skew."""
    return ManualClock(datetime.now(UTC))


@pytest.fixture
async def scene(clock: ManualClock) -> AsyncIterator[Scene]:
    async with opened("sqlite://", clock) as store:
        yield await Scene.on(store, clock)


async def findings(scene: Scene, check: str) -> list[Diagnosis]:
    """What is not well about one thing."""
    found = await examine(scene.store.sibling())
    return [each for each in found if each.check == check and each.severity is not OK]


async def test_a_healthy_store_has_no_finding_that_is_not_well(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue()
        await scene.enqueue(delay=60.0)
        found = await examine(store.sibling())
        assert [each for each in found if each.severity is PROBLEM] == []
        assert {"store", "clock", "workers", "queues", "tasks", "running", "waiting"} <= {
            each.check for each in found
        }


async def test_every_finding_that_is_not_well_says_what_to_do(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = Scene(store, clock, new_worker().id)
        await scene.enqueue_many(3)
        await scene.hire(lease=-90.0)
        found = await examine(store.sibling())
        assert all(each.advice for each in found if each.severity is PROBLEM)


async def test_jobs_without_any_worker_are_a_problem(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = Scene(store, clock, new_worker().id)
        await scene.enqueue_many(3)
        [finding] = await findings(scene, "workers")
        assert finding.severity is PROBLEM
        assert "no worker is alive while 3 jobs wait" in finding.saw


async def test_a_queue_nobody_serves_is_a_problem(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue_many(2, queue="lonely")
        [finding] = await findings(scene, "queues")
        assert finding.severity is PROBLEM
        assert "2 jobs are ready in queue 'lonely' but no live worker serves it" in finding.saw
        assert finding.actions == (
            Action(Noun.WORKERS, Verb.START, "lonely"),
            Action(Noun.JOBS, Verb.MOVE, which={"queue": "lonely"}, value="default"),
        )
        await scene.enqueue(queue="once")
        assert "1 job is ready in queue 'once'" in (await findings(scene, "queues"))[1].saw


async def test_a_task_nobody_knows_is_a_problem_and_is_counted(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue_many(4, task="forgotten")
        await scene.enqueue()
        [finding] = await findings(scene, "tasks")
        assert finding.severity is PROBLEM
        assert finding.saw.startswith("4 ready jobs of task 'forgotten'")


async def test_a_paused_queue_with_work_is_worth_a_warning(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue()
        await store.queues.pause(["default"])
        [finding] = await findings(scene, "queues")
        assert finding.severity is WARNING
        assert finding.actions == (Action(Noun.QUEUES, Verb.RESUME, "default"),)


async def test_a_pause_of_everything_or_of_a_task_is_worth_a_warning(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue()
        await store.queues.pause([EVERY_QUEUE, jobs_of("mail.send")])
        queues, tasks = await findings(scene, "queues"), await findings(scene, "tasks")
        assert [finding.saw for finding in queues if finding.severity is WARNING] == [
            "every queue is paused, while 1 job is ready"
        ]
        [paused] = [finding for finding in tasks if finding.severity is WARNING]
        assert paused.actions == (Action(Noun.TASKS, Verb.RESUME, "mail.send"),)


async def test_a_queue_that_lags_is_worth_a_warning(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue()
        clock.advance(minutes=10)
        [finding] = await findings(scene, "queues")
        assert finding.severity is WARNING
        assert "has waited 600 s" in finding.saw


async def test_only_a_live_worker_is_said_to_take_over(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.hire(lease=-5.0, name="lost")
        [beside] = await findings(scene, "workers")
        assert beside.advice == "a live worker takes its jobs over within seconds"
        await store.workers.deregister(scene.worker)
        [alone] = await findings(scene, "workers")
        assert alone.advice.startswith("start a worker")


async def test_a_worker_that_lapsed_with_jobs_is_a_problem_after_a_while(
    clock: ManualClock,
) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        lost = await scene.hire(lease=30.0, name="lost")
        await scene.running(worker=lost)
        clock.advance(31)
        [early] = await findings(scene, "workers")
        clock.advance(90)
        [late] = await findings(scene, "workers")
        assert (early.severity, late.severity) == (WARNING, PROBLEM)
        assert "worker lost lapsed 91 s ago and still holds 1 running" in late.saw


async def test_orphaned_running_jobs_are_found(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        lost = await scene.hire(lease=30.0)
        await scene.running(worker=lost)
        clock.advance(31)
        [finding] = await findings(scene, "running")
        assert finding.saw == "1 running job belongs to a worker that is gone"


async def test_attempts_that_outlived_their_timeout_are_a_problem(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.running(policy=Policy(retry=STEADY.retry, timeout=10.0))
        clock.advance(65)
        await scene.wrote_all()
        assert await findings(scene, "running") == []
        clock.advance(10)
        await scene.wrote_all()
        [finding] = await findings(scene, "running")
        assert finding.severity is PROBLEM
        assert finding.saw.startswith("1 attempt is past its timeout")


async def test_scheduled_jobs_that_nobody_promoted_are_a_problem(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue(delay=5.0)
        await scene.enqueue(delay=86_400.0)
        clock.advance(60)
        assert await findings(scene, "waiting") == []
        clock.advance(10)
        [finding] = await findings(scene, "waiting")
        assert finding.severity is PROBLEM
        assert finding.saw.startswith("1 scheduled job is due")


async def test_a_deadline_nobody_kept_is_a_problem(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue(deadline_in=10.0)
        clock.advance(100)
        [finding] = await findings(scene, "waiting")
        assert finding.saw == "1 live job is past its deadline by more than 60 s"


@pytest.mark.parametrize(("seconds", "severity"), [(10, WARNING), (3600, PROBLEM), (-10, WARNING)])
async def test_a_clock_that_differs_is_found(seconds: float, severity: Severity) -> None:
    clock = ManualClock(datetime.now(UTC))
    clock.advance(seconds)
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        [finding] = await findings(scene, "clock")
        assert finding.severity is severity
        assert ("ahead of" if seconds > 0 else "behind") in finding.saw


async def test_a_store_out_of_reach_is_a_finding_and_not_an_error() -> None:
    [finding] = await examine(open_store("postgres://ann:secret@127.0.0.1:1/jobs"))
    assert (finding.check, finding.severity) == ("store", PROBLEM)
    assert "secret" not in finding.saw


# Operations


async def test_an_operation_that_nobody_works_on_is_named(scene: Scene) -> None:
    operation = new_operation_id()
    request = OperationRequest(verb="requeue", matched=1_000)
    await scene.store.operations.begin(operation, request)
    assert await findings(scene, "operations") == []
    scene.clock.advance(61)
    [found] = await findings(scene, "operations")
    assert found.severity is WARNING
    assert f"operation {operation} (requeue, 0 of 1,000 jobs) is to run" in found.saw
    assert "nobody has worked on it for 61 s" in found.saw


async def test_a_slow_pace_is_no_neglect(scene: Scene) -> None:
    request = OperationRequest(verb="requeue", matched=1_000, pace=0.01)
    await scene.store.operations.begin(new_operation_id(), request)
    scene.clock.advance(150)
    assert await findings(scene, "operations") == []


async def test_a_canary_that_was_forgotten_is_named(scene: Scene) -> None:
    operation = new_operation_id()
    await scene.store.operations.begin(operation, OperationRequest(verb="requeue", canary=1))
    move = Advance(state=OperationState.WAITING, progress=OperationProgress(changed=1))
    await scene.store.operations.advance(operation, 1, move)
    scene.clock.advance(3_500)
    assert await findings(scene, "operations") == []
    scene.clock.advance(200)
    [found] = await findings(scene, "operations")
    assert found.actions == (
        Action(Noun.OPERATIONS, Verb.GO_ON, operation),
        Action(Noun.OPERATIONS, Verb.STOP, operation),
    )


async def test_books_that_are_wrong_are_found_and_put_right(clock: ManualClock) -> None:
    async def books(**how: Any) -> list[Diagnosis]:
        found = await examine(store.sibling(), **how)
        return [each for each in found if each.check == "books"]

    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue_many(3)
        await store.telemetry.correct([Tally("default", "greet", JobState.READY, 4)])
        assert await books() == []
        [wrong] = await books(deep=True)
        assert wrong.severity is PROBLEM
        assert "-4 ready of greet in default" in wrong.saw
        assert wrong.actions == (Action(Noun.BOOKS, Verb.CORRECT),)
        [mended] = await books(fix=True, by="ann")
        assert mended.severity is OK
        [act] = (await store.audit.page(AuditFilter(), 9)).entries
        assert (act.by, act.verb, act.outcome, act.changed) == ("ann", "books.correct", "done", 1)
        assert act.arguments is not None
        assert '"jobs":-4' in act.arguments
        [right] = await books(deep=True)
        assert right.saw == "the tallies equal a recount of all jobs"


@pytest.mark.parametrize(
    ("jobs", "saw"),
    [
        (0, "no live jobs"),
        (1, "1 job examined can be read"),
        (2, "2 jobs examined can all be read"),
    ],
)
async def test_the_doctor_says_how_many_jobs_it_could_read(
    clock: ManualClock, jobs: int, saw: str
) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue_many(jobs)
        told = [one.saw for one in await examine(store.sibling()) if one.check == "policies"]
        assert told == [saw]


async def test_a_deep_examination_tells_how_far_it_is(clock: ManualClock) -> None:
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        await scene.enqueue_many(3)
        told: list[str] = []
        await examine(store.sibling(), tell=told.append)
        assert told == []
        await examine(store.sibling(), deep=True, tell=told.append)
        assert told[0] == "looking at 3 jobs"
        assert told[1] == "3 of 3 jobs looked at"
        assert told[2] == "counting all jobs, and comparing the books"


async def test_workers_of_several_releases_are_a_warning_when_none_is_new(scene: Scene) -> None:
    for version in ("1.0", "1.1", "1.1"):
        await scene.hire(lease=10_000, version=version)
    assert await findings(scene, "workers") == []
    told = [each.saw for each in await examine(scene.store.sibling()) if each.check == "workers"]
    assert "workers of several releases: 2 run 1.0, 2 run 1.1" in told
    scene.clock.advance(1_000)
    [finding] = await findings(scene, "workers")
    assert (finding.severity, "and none is new" in finding.saw) == (WARNING, True)


async def test_a_queue_that_only_draining_workers_serve_is_unserved(scene: Scene) -> None:
    clerk = await scene.hire(queues={"mail": 5})
    await scene.enqueue(queue="mail")
    assert await findings(scene, "queues") == []
    await scene.store.workers.request_drain([clerk])
    [finding] = await findings(scene, "queues")
    assert "no live worker serves it" in finding.saw
    [job] = (await scene.store.jobs.page(JobFilter(queues=("mail",)), 1)).jobs
    [reason, *_] = (await explain(scene.store, job)).reasons
    assert reason.fact == "no live worker but those that drain serves queue 'mail'"


async def test_alarms_are_what_is_wrong_with_workers_and_queues_the_worst_first(
    scene: Scene,
) -> None:
    lost = await scene.hire(lease=30, name="lost", queues={"lonely": 1})
    await scene.running(worker=lost)
    await scene.enqueue(queue="lonely")
    scene.clock.advance(1_000)
    workforce = await read_workforce(scene.store)
    assert [one.name for one in workforce.workers if not one.alive] == ["lost"]
    assert [one.name for one in workforce.unserved] == ["lonely"]
    found = alarms(workforce, Paused())
    assert [each.severity for each in found] == [PROBLEM, PROBLEM]
    assert "lost lapsed" in found[0].saw
    assert "'lonely'" in found[1].saw
