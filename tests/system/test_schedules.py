"""Schedules on every store: what is declared fires, what an operator does counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.errors import BadOption, Refused, UnknownSchedule
from holdfast.job.ends import Returned
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.schedule.model import CatchUp, Decision, Definition, OnCrash, Overlap, Rule
from holdfast.schedule.plan_job import PLAN, SCOPE
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo
from tests.support.schedule_scene import QUEUE, TASK, Scene

START = datetime(2027, 1, 1, tzinfo=UTC)
FIRED, COALESCED, SKIPPED = Decision.FIRED, Decision.COALESCED, Decision.SKIPPED
MISSED, FAILED, WAITING = Decision.MISSED, Decision.FAILED, Decision.WAITING


@pytest.fixture
def scene(store: Store, clock: ManualClock) -> Scene:
    clock.now = START
    return Scene(store, clock)


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[Client]:
    client = Client(scene.store, scene.providers)
    yield client
    await client.aclose()


# Catching up ---------------------------------------------------------------------------------


async def test_a_plan_fires_once_however_often_it_is_evaluated(scene: Scene) -> None:
    await scene.declare(cron="*/10 * * * *")
    await scene.after(minutes=10)
    await scene.after(minutes=1)
    await scene.another().run_once()
    assert await scene.decisions() == [("00:10", FIRED)]
    assert await scene.jobs() == 1


async def test_nothing_fires_that_was_due_before_the_schedule_was_there(scene: Scene) -> None:
    scene.clock.now = START + timedelta(minutes=5)
    await scene.declare(cron="*/10 * * * *")
    await scene.after()
    assert await scene.decisions() == []


async def test_after_a_pause_the_newest_plan_fires_and_takes_the_others_with_it(
    scene: Scene,
) -> None:
    await scene.declare(cron="*/10 * * * *")
    await scene.after(minutes=35)
    assert await scene.decisions() == [("00:10", COALESCED), ("00:20", COALESCED), ("00:30", FIRED)]


async def test_with_catch_up_all_each_fires_oldest_first_and_the_cap_only_delays(
    scene: Scene,
) -> None:
    await scene.declare(cron="*/10 * * * *", catch_up=CatchUp.ALL, cap=2)
    await scene.after(minutes=55)
    assert await scene.decisions() == [(f"00:{n}0", FIRED) for n in range(1, 6)]


async def test_with_catch_up_none_a_late_plan_is_missed(scene: Scene) -> None:
    await scene.declare(cron="*/10 * * * *", catch_up=CatchUp.NONE)
    await scene.after(minutes=25)
    await scene.after(minutes=5, seconds=2)
    assert await scene.decisions() == [("00:10", MISSED), ("00:20", MISSED), ("00:30", FIRED)]


async def test_a_plan_later_than_its_limit_is_missed(scene: Scene) -> None:
    await scene.declare(cron="@hourly", lateness=300)
    await scene.after(hours=1, minutes=10)
    assert await scene.decisions() == [("01:00", MISSED)]


async def test_a_delay_makes_a_plan_due_later_and_leaves_its_time(scene: Scene) -> None:
    scene.clock.advance(minutes=2)
    await scene.declare(every=300, delay=60)
    await scene.after(minutes=3, seconds=59)
    assert await scene.decisions() == []
    await scene.after(seconds=1)
    assert await scene.decisions() == [("00:05", FIRED)]


# What an operator does -----------------------------------------------------------------------


async def test_a_plan_due_before_a_pause_fires_whoever_evaluates_first(
    scene: Scene, client: Client
) -> None:
    await scene.declare(cron="*/10 * * * *")
    scene.clock.advance(minutes=10, seconds=1)
    await client.schedules.pause("job")
    await scene.after(minutes=10)
    assert await scene.decisions() == [("00:10", FIRED), ("00:20", SKIPPED)]
    scene.clock.advance(minutes=5)
    await client.schedules.resume("job")
    await scene.after(minutes=5)
    assert (await scene.decisions())[2:] == [("00:30", FIRED)]


async def test_a_plan_due_before_a_pause_is_caught_up_after_it(
    scene: Scene, client: Client
) -> None:
    await scene.declare(cron="*/10 * * * *", catch_up=CatchUp.ALL, cap=2, overlap=Overlap.REPLACE)
    await scene.declare("newest", cron="*/10 * * * *")
    scene.clock.advance(minutes=31)
    for name in ("job", "newest"):
        await client.schedules.pause(name)
    scene.clock.advance(minutes=20)
    for name in ("job", "newest"):
        await client.schedules.resume(name)
    await scene.after(minutes=10)
    assert await scene.decisions() == [
        ("00:10", COALESCED),
        ("00:20", FIRED),
        ("00:30", COALESCED),
        ("00:40", SKIPPED),
        ("00:50", SKIPPED),
        ("01:00", FIRED),
    ]
    assert await scene.decisions("newest") == [
        *(((f"00:{n}0"), COALESCED) for n in (1, 2, 3)),
        ("00:40", SKIPPED),
        ("00:50", SKIPPED),
        ("01:00", FIRED),
    ]


async def test_plans_of_a_pause_are_skipped_and_not_made_up_for(
    scene: Scene, client: Client
) -> None:
    await scene.declare(cron="*/10 * * * *")
    await client.schedules.pause("job")
    await scene.after(minutes=11)
    scene.clock.advance(minutes=10)
    await client.schedules.resume("job")
    await scene.after(minutes=10)
    assert await scene.decisions() == [("00:10", SKIPPED), ("00:20", SKIPPED), ("00:30", FIRED)]
    assert (await scene.rows())[0].reason == "paused"


async def test_another_rule_counts_from_the_moment_of_its_edit(
    scene: Scene, client: Client
) -> None:
    await scene.declare(cron="0 * * * *")
    await scene.after(hours=1, minutes=30)
    await client.schedules.edit("job", cron="*/10 * * * *")
    await scene.after(minutes=11)
    assert await scene.decisions() == [("01:00", FIRED), ("01:40", FIRED)]


async def test_code_does_not_overwrite_what_an_operator_edited(
    scene: Scene, client: Client
) -> None:
    await scene.declare(cron="0 * * * *")
    await client.schedules.edit("job", cron="30 * * * *")
    await scene.declare(cron="0 * * * *")
    assert (await scene.schedule()).definition.rule.cron == "30 * * * *"


async def test_an_edit_that_is_no_schedule_is_refused(scene: Scene, client: Client) -> None:
    await scene.declare(cron="0 * * * *")
    with pytest.raises(BadOption, match="cron"):
        await client.schedules.edit("job", cron="99 * * * *")
    with pytest.raises(BadOption, match="schedule setting"):
        await client.schedules.edit("job", colour="red")
    with pytest.raises(BadOption, match="schedule setting"):
        await client.schedules.edit("job", overlap="sometimes")
    assert (await scene.schedule()).revision == 1


async def test_a_schedule_made_at_run_time_fires_until_it_is_deleted(
    scene: Scene, client: Client
) -> None:
    definition = Definition(Rule(every=60), task=TASK, queue=QUEUE)
    await client.schedules.create("extra", definition)
    with pytest.raises(Refused, match="there already"):
        await client.schedules.create("extra", definition)
    await scene.after(minutes=1)
    assert await scene.decisions("extra") == [("00:01", FIRED)]
    await client.schedules.delete("extra")
    await scene.after(minutes=1)
    assert await scene.jobs() == 1
    with pytest.raises(UnknownSchedule):
        await client.schedules.history("extra")


async def test_a_trigger_passes_over_nothing_that_is_due(scene: Scene, client: Client) -> None:
    await scene.declare(cron="*/10 * * * *")
    scene.clock.advance(minutes=11)
    job_id = await client.schedules.trigger("job")
    await scene.after()
    rows = await scene.rows()
    assert [(f"{row.at:%H:%M}", row.decision, row.reason) for row in rows] == [
        ("00:10", FIRED, ""),
        ("00:11", FIRED, "triggered by hand"),
    ]
    assert rows[1].job_id == job_id


async def test_a_backfill_counts_first_and_fires_only_what_did_not(
    scene: Scene, client: Client
) -> None:
    await scene.declare(cron="*/10 * * * *")
    await scene.after(minutes=35)
    since, until = START - timedelta(minutes=20), START + timedelta(minutes=30)
    counted = await client.schedules.backfill("job", since, until, dry_run=True)
    assert (counted.planned, counted.fired, counted.capped) == (5, 0, False)
    assert await scene.jobs() == 1
    shown: list[tuple[int, int]] = []
    capped = await client.schedules.backfill(
        "job", since, until, cap=2, on_progress=lambda done, of: shown.append((done, of))
    )
    assert (capped.fired, capped.capped, shown) == (2, True, [(2, 2)])
    rest = await client.schedules.backfill("job", since, until)
    again = await client.schedules.backfill("job", since, until)
    assert (rest.fired, again.planned) == (3, 0)
    assert {row.decision for row in await scene.rows()} == {FIRED}
    assert await scene.jobs() == 6


async def test_a_backfill_fires_nothing_again_whose_row_was_pruned(
    scene: Scene, client: Client
) -> None:
    await scene.declare(cron="*/10 * * * *", keep=600.0)
    for _ in range(6):
        await scene.after(minutes=10)
        await scene.run_all()
    await scene.after(minutes=9)
    assert await scene.store.schedules.prune_ledger(100) == 5
    since, now = START - timedelta(minutes=20), scene.clock.now
    first = await client.schedules.backfill("job", since, now)
    assert (first.fired, first.forgotten_from, first.forgotten_until) == (
        3,
        START + timedelta(minutes=10),
        START + timedelta(minutes=50),
    )
    assert {row.at for row in await scene.rows() if row.reason == "backfilled"} == {
        START - timedelta(minutes=minutes) for minutes in (0, 10, 20)
    }
    asked = await client.schedules.backfill("job", since, now, forgotten=True)
    assert (asked.fired, asked.forgotten_from) == (5, None)


async def test_a_plan_that_waits_fires_though_its_row_is_past_its_time(scene: Scene) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.QUEUE_ONE, keep=60.0)
    await scene.after(minutes=10)
    [job] = await scene.claim()
    await scene.after(minutes=10)
    await scene.after(minutes=5)
    await scene.store.schedules.prune_ledger(100)
    await scene.store.jobs.finish([decide(job, Returned("1"))])
    await scene.after(minutes=1)
    assert ("00:20", FIRED) in await scene.decisions()


async def test_a_backfill_reaches_no_plan_to_come(scene: Scene, client: Client) -> None:
    await scene.declare(cron="*/10 * * * *")
    future = START + timedelta(days=1)
    assert (await client.schedules.backfill("job", START, future, dry_run=True)).planned == 1


# Overlap -------------------------------------------------------------------------------------


async def test_overlap_skip_leaves_a_row_with_the_job_that_was_in_the_way(scene: Scene) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.SKIP)
    await scene.after(minutes=10)
    await scene.after(minutes=10)
    first, second = await scene.rows()
    assert second.decision is SKIPPED
    assert str(first.job_id) in second.reason
    await scene.run_all()
    await scene.after(minutes=10)
    assert (await scene.decisions())[-1] == ("00:30", FIRED)


async def test_overlap_queue_one_lets_one_wait_and_start_when_the_first_has_ended(
    scene: Scene,
) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.QUEUE_ONE)
    for _ in range(3):
        await scene.after(minutes=10)
    assert await scene.decisions() == [("00:10", FIRED), ("00:20", WAITING), ("00:30", SKIPPED)]
    assert await scene.jobs() == 1
    await scene.run_all()
    await scene.after(seconds=1)
    assert await scene.decisions() == [("00:10", FIRED), ("00:20", FIRED), ("00:30", SKIPPED)]


async def test_overlap_replace_cancels_the_one_before(scene: Scene) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.REPLACE)
    await scene.after(minutes=10)
    await scene.after(minutes=10)
    first, second = await scene.rows()
    assert (first.state, second.state) == (JobState.CANCELLED, JobState.READY)


async def test_overlap_is_a_matter_of_one_scope(scene: Scene) -> None:
    scene.providers.scopes["tenants"] = lambda: ["a", "b"]
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.SKIP, scopes="tenants")
    await scene.after(minutes=10)
    [claimed] = await scene.claim(1)
    await scene.store.jobs.finish([decide(claimed, Returned(None))])
    await scene.after(minutes=10)
    later = {row.scope: row.decision for row in await scene.rows() if row.at.minute == 20}
    assert sorted(later.values()) == [FIRED, SKIPPED]


# Scopes and planners -------------------------------------------------------------------------


async def test_each_scope_gets_its_own_plan_and_its_jobs_know_it(scene: Scene) -> None:
    scene.providers.scopes["tenants"] = lambda: ["a", "b"]
    await scene.declare(
        cron="@hourly", scopes="tenants", scope_as="tenant", plan_as="plan", args='{"n":1}'
    )
    await scene.after(hours=1)
    assert [(row.scope, row.decision) for row in await scene.rows()] == [("b", FIRED), ("a", FIRED)]
    jobs = await scene.store.jobs.get([row.job_id for row in await scene.rows() if row.job_id])
    assert {job.args_json for job in jobs} == {
        f'{{"n":1,"tenant":"{scope}","plan":"2027-01-01T01:00:00Z"}}' for scope in "ab"
    }
    assert all({SCOPE, PLAN} <= job.headers.keys() for job in jobs)


async def test_providers_of_every_kind_are_read_page_by_page(scene: Scene) -> None:
    async def stream() -> AsyncIterator[str]:
        for n in range(250):
            yield f"s{n}"

    async def whole() -> list[str]:
        return [scope async for scope in stream()]

    kinds = {
        "stream": stream,
        "coroutine": whole,
        "function": lambda: [f"s{n}" for n in range(250)],
        "generator": lambda: (f"s{n}" for n in range(250)),
    }
    for name, provider in kinds.items():
        scene.providers.scopes[name] = provider
        await scene.declare(name, cron="@hourly", scopes=name)
    await scene.after(hours=1)
    assert [len(await scene.fired(name)) for name in kinds] == [250] * 4


async def test_a_scope_that_is_new_has_no_plans_from_before(scene: Scene) -> None:
    tenants = ["a"]
    scene.providers.scopes["tenants"] = lambda: list(tenants)
    await scene.declare(cron="*/10 * * * *", scopes="tenants", catch_up=CatchUp.ALL)
    await scene.after(minutes=30)
    tenants.append("b")
    await scene.after(minutes=1)
    await scene.after(minutes=9)
    assert [row.scope for row in await scene.rows()].count("b") == 1


async def test_a_plan_without_any_scope_leaves_a_row(scene: Scene) -> None:
    scene.providers.scopes["tenants"] = list
    await scene.declare(cron="@hourly", scopes="tenants")
    await scene.after(hours=1)
    [row] = await scene.rows()
    assert (row.scope, row.decision, row.reason) == ("", SKIPPED, "no scope")


async def test_a_planner_computes_the_plans_itself(scene: Scene) -> None:
    def planner(scope: str, after: datetime, now: datetime) -> list[datetime]:
        return [now - timedelta(minutes=3), now - timedelta(minutes=1)]

    scene.providers.planners["own"] = planner
    await scene.declare(cron="*/10 * * * *", planner="own", catch_up=CatchUp.ALL)
    await scene.after(minutes=10)
    assert await scene.decisions() == [("00:07", FIRED), ("00:09", FIRED)]


async def test_a_planner_that_fails_for_one_scope_leaves_the_others_alone(scene: Scene) -> None:
    def planner(scope: str, after: datetime, now: datetime) -> list[datetime]:
        if scope == "bad":
            raise ValueError("cannot plan")
        return [now]

    scene.providers.scopes["all"] = lambda: ["a", "bad", "c"]
    scene.providers.planners["own"] = planner
    await scene.declare(cron="@hourly", planner="own", scopes="all")
    await scene.after(hours=1)
    assert [row.scope for row in await scene.rows()] == ["c", "a"]
    assert "cannot plan" in str((await scene.schedule()).error)


async def test_a_schedule_whose_code_is_elsewhere_is_left_to_others_and_shows_when_nobody_comes(
    scene: Scene,
) -> None:
    await scene.declare(cron="@hourly", scopes="elsewhere")
    await scene.after(hours=1)
    assert (await scene.schedule()).error is None
    await scene.after(minutes=1)
    assert "'elsewhere'" in str((await scene.schedule()).error)
    scene.providers.scopes["elsewhere"] = lambda: ["a"]
    await scene.after(seconds=1)
    assert (await scene.schedule()).error is None
    assert await scene.decisions() == [("01:00", FIRED)]


# Several at once -----------------------------------------------------------------------------


async def test_many_that_evaluate_at_once_fire_each_plan_once(scene: Scene) -> None:
    await scene.declare(cron="* * * * *", catch_up=CatchUp.ALL, cap=7)
    scene.clock.advance(minutes=40)
    others = [scene.another() for _ in range(4)]
    await asyncio.gather(*(each.run_once() for each in others))
    assert await scene.decisions() == [(f"00:{n:02}", FIRED) for n in range(1, 41)]
    assert await scene.jobs() == 40


async def test_on_crash_fail_is_frozen_into_the_policy(scene: Scene) -> None:
    await scene.declare(cron="@hourly", on_crash=OnCrash.FAIL)
    assert '"max_crashes":1' in (await scene.schedule()).definition.policy


# Start and end ---------------------------------------------------------------------------------


async def test_no_plan_is_made_before_the_start_or_after_the_end(scene: Scene) -> None:
    first, last = START + timedelta(minutes=20), START + timedelta(minutes=40)
    await scene.declare(cron="*/10 * * * *", start=first, end=last, catch_up=CatchUp.ALL)
    for _ in range(7):
        await scene.after(minutes=10)
    assert await scene.decisions() == [("00:20", FIRED), ("00:30", FIRED), ("00:40", FIRED)]


async def test_a_planner_is_bound_to_the_end_of_its_schedule_too(scene: Scene) -> None:
    def minutes(scope: str, after: datetime, now: datetime) -> list[datetime]:
        planned = (START + timedelta(minutes=n) for n in (5, 15, 25, 35))
        return [at for at in planned if after < at <= now]

    scene.providers.planners["minutes"] = minutes
    await scene.declare(
        cron="*/30 * * * *", planner="minutes", end=START + timedelta(minutes=30), catch_up="all"
    )
    await scene.after(minutes=60)
    assert await scene.decisions() == [("00:05", FIRED), ("00:15", FIRED), ("00:25", FIRED)]


async def test_a_backfill_stays_between_start_and_end(scene: Scene, client: Client) -> None:
    await scene.declare(cron="@hourly", start=START - timedelta(hours=3), end=START)
    report = await client.schedules.backfill("job", START - timedelta(hours=9), START, dry_run=True)
    assert (report.planned, report.first) == (4, START - timedelta(hours=3))


async def test_start_and_end_are_edited_and_checked(scene: Scene, client: Client) -> None:
    await scene.declare(cron="@hourly", end=START + timedelta(hours=1))
    edited = await client.schedules.edit("job", end=START + timedelta(hours=2))
    assert edited.definition.rule.end == START + timedelta(hours=2)
    with pytest.raises(BadOption, match="start must be not later than end"):
        await client.schedules.edit("job", start=START + timedelta(hours=3))
    with pytest.raises(BadOption, match="a datetime with a time zone"):
        await client.schedules.edit("job", start=datetime(2027, 1, 1))  # noqa: DTZ001
    assert (await client.schedules.edit("job", end=None)).definition.rule.end is None


# A task that nobody has --------------------------------------------------------------------------


async def alive(scene: Scene, *tasks: str) -> None:
    """One live worker, which knows these tasks."""
    info = WorkerInfo(scene.worker, "w", "host", 1, {QUEUE: 1}, tasks, "0")
    await scene.store.workers.register(info, 1e9)


@pytest.mark.parametrize("catch_up", [CatchUp.LATEST, CatchUp.ALL])
async def test_jobs_of_a_task_that_no_live_worker_knows_do_not_pile_up(
    scene: Scene, catch_up: CatchUp
) -> None:
    await alive(scene, "another")
    await scene.declare(cron="*/10 * * * *", cap=2, catch_up=catch_up)
    for _ in range(4):
        await scene.after(minutes=10)
    assert [decision for _, decision in await scene.decisions()] == [FIRED, FIRED, SKIPPED, SKIPPED]
    assert "no live worker knows task 'task', and 2 jobs wait" in (await scene.rows())[-1].reason
    assert await scene.jobs() == 2
    await alive(scene, TASK)
    await scene.after(minutes=10)
    assert (await scene.decisions())[-1] == ("00:50", FIRED), "a worker that knows it is back"


async def test_an_evaluation_that_makes_up_for_many_plans_counts_its_own(scene: Scene) -> None:
    await alive(scene, "another")
    await scene.declare(cron="*/10 * * * *", cap=3, catch_up=CatchUp.ALL)
    await scene.after(minutes=30)
    await scene.after(minutes=30)
    assert (await scene.jobs(), len(await scene.rows())) == (3, 6)


async def test_without_any_live_worker_jobs_wait_as_always(scene: Scene) -> None:
    await scene.declare(cron="*/10 * * * *", cap=1)
    for _ in range(3):
        await scene.after(minutes=10)
    assert await scene.jobs() == 3


async def test_the_newest_plan_still_replaces_the_one_before_it(scene: Scene) -> None:
    await alive(scene, "another")
    await scene.declare(cron="*/10 * * * *", cap=1, overlap=Overlap.REPLACE)
    for _ in range(3):
        await scene.after(minutes=10)
    assert len(await scene.fired()) == 3
