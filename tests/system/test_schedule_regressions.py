"""What earlier schedulers got wrong, each by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.client.schedules import ScheduleVerbs
from holdfast.clock import ManualClock
from holdfast.errors import StoreUnavailable
from holdfast.job.ends import Raised, WorkerLost
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.job.text import MESSAGE_LIMIT
from holdfast.job.transition import Transition
from holdfast.schedule.agenda import Entry
from holdfast.schedule.model import CatchUp, Decision, Definition, OnCrash, Overlap, Plan, Rule
from holdfast.schedule.service import ScheduleService
from holdfast.schedule.status import contested
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import Held
from tests.support.flaky import FlakyStore, Line
from tests.support.schedule_scene import TASK, Scene
from tests.support.working import Shop

START = datetime(2027, 1, 1, tzinfo=UTC)
FIRED, SKIPPED, MISSED, FAILED = (
    Decision.FIRED,
    Decision.SKIPPED,
    Decision.MISSED,
    Decision.FAILED,
)


@pytest.fixture
def scene(store: Store, clock: ManualClock) -> Scene:
    clock.now = START
    return Scene(store, clock)


class Refusing:
    """A store whose ledger refuses plans of some scopes, until it is told to take them."""

    def __init__(self, store: Store, *scopes: str) -> None:
        self._store = store
        self.schedules: Any = self
        self.refused = set(scopes)
        self.batches: list[int] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store.schedules, name, None)
        return found if found is not None else getattr(self._store, name)

    async def now(self) -> datetime:
        return await self._store.now()

    async def record(self, plans: Sequence[Plan]) -> list[bool]:
        self.batches.append(len(plans))
        if any(plan.scope in self.refused and plan.job is not None for plan in plans):
            raise ValueError("this job cannot be written")
        return await self._store.schedules.record(plans)


# A passing enqueue error permanently disables a cron row --------------------------------------


async def test_a_passing_enqueue_error_disables_nothing(scene: Scene) -> None:
    refusing = Refusing(scene.store, "")
    scene.evaluator = scene.another(refusing)
    await scene.declare(cron="*/10 * * * *")
    await scene.after(minutes=10)
    [row] = await scene.rows()
    assert (row.decision, row.reason) == (FAILED, "ValueError: this job cannot be written")
    refusing.refused.clear()
    await scene.after(seconds=2)
    await scene.after(minutes=10)
    assert await scene.decisions() == [("00:10", FIRED), ("00:20", FIRED)]
    assert (await scene.schedule()).error is None


async def test_a_plan_that_can_never_start_is_given_up_when_its_row_is_past_its_time(
    scene: Scene,
) -> None:
    scene.evaluator = scene.another(Refusing(scene.store, ""))
    await scene.declare(cron="0 0 1 * *", keep=60.0, window=3600.0)
    await scene.at(START + timedelta(days=31))
    await scene.after(minutes=60)
    assert [row.decision for row in await scene.rows()] == [FAILED]
    await scene.after(minutes=1)
    [row] = await scene.rows()
    assert row.decision is MISSED
    assert row.reason.startswith("could not be started for 3600 s: ValueError")


async def test_an_outage_of_the_store_leaves_no_trace_on_a_schedule(
    scene: Scene, store: Store
) -> None:
    line = Line()
    scene.evaluator = scene.another(FlakyStore(store, line))
    await scene.declare(cron="*/10 * * * *")
    line.lose.add("record")
    with pytest.raises(StoreUnavailable):
        await scene.after(minutes=10)
    await scene.after(seconds=1)
    assert await scene.decisions() == [("00:10", FIRED)]
    assert await scene.jobs() == 1
    assert (await scene.schedule()).error is None


async def test_a_job_that_cannot_be_written_holds_up_no_other_scope(scene: Scene) -> None:
    refusing = Refusing(scene.store, "s13")
    scene.evaluator = scene.another(refusing)
    scene.providers.scopes["all"] = lambda: [f"s{n}" for n in range(50)]
    await scene.declare(cron="@hourly", scopes="all")
    await scene.after(hours=1)
    decisions = {row.scope: row.decision for row in await scene.rows()}
    assert [scope for scope, decision in decisions.items() if decision is not FIRED] == ["s13"]
    assert decisions["s13"] is FAILED


# Overlap is decided before it is recorded ------------------------------------------------------


class Overtaken:
    """A store in which something else happens just before plans are recorded, a few times."""

    def __init__(self, store: Store, meanwhile: Callable[[], Awaitable[Any]], times: int) -> None:
        self._store = store
        self.schedules: Any = self
        self._meanwhile = meanwhile
        self.left = times

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store.schedules, name, None)
        return found if found is not None else getattr(self._store, name)

    async def now(self) -> datetime:
        return await self._store.now()

    async def record(self, plans: Sequence[Plan]) -> list[bool]:
        if self.left:
            self.left -= 1
            await self._meanwhile()
        return await self._store.schedules.record(plans)


async def test_a_job_that_starts_while_overlap_is_decided_is_seen(scene: Scene) -> None:
    verbs = ScheduleVerbs(scene.store, scene.providers)
    store = Overtaken(scene.store, lambda: verbs.trigger("job"), 1)
    scene.evaluator = scene.another(store)
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.SKIP)
    await scene.after(minutes=10, seconds=1)
    [planned, triggered] = await scene.rows()
    assert (store.left, triggered.reason) == (0, "triggered by hand")
    assert planned.decision is SKIPPED
    assert planned.reason == f"overlap: job {triggered.job_id} has not ended"
    assert await scene.jobs() == 1


async def test_a_job_that_ends_while_overlap_is_decided_is_not_in_the_way(scene: Scene) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.SKIP)
    await scene.after(minutes=10)
    scene.evaluator = scene.another(Overtaken(scene.store, scene.run_all, 1))
    await scene.after(minutes=10)
    assert await scene.decisions() == [("00:10", FIRED), ("00:20", FIRED)]


async def test_where_jobs_start_again_and_again_the_next_evaluation_goes_on(scene: Scene) -> None:
    verbs = ScheduleVerbs(scene.store, scene.providers)
    store = Overtaken(scene.store, lambda: verbs.trigger("job"), 4)
    scene.evaluator = scene.another(store)
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.REPLACE)
    await scene.after(minutes=10)
    rows = {row.at: row.decision for row in await scene.rows()}
    assert rows[START + timedelta(minutes=10)] is FIRED
    assert (await scene.schedule()).error is None


async def test_a_plan_that_was_backfilled_first_is_not_decided_again_and_again(
    scene: Scene,
) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.SKIP)
    scene.clock.advance(minutes=10)
    verbs = ScheduleVerbs(scene.store, scene.providers)
    assert (await verbs.backfill("job", START, scene.clock.now)).fired == 2
    await scene.run_all()
    evaluated = await scene.evaluator.evaluate(Entry(await scene.schedule()))
    assert evaluated is not None
    assert not evaluated.more
    assert await scene.jobs() == 2


# Two deployments declare one schedule differently ---------------------------------------------


async def test_two_deployments_that_differ_do_not_change_a_schedule_back_and_forth(
    scene: Scene,
) -> None:
    def deployment(cron: str) -> ScheduleService:
        declared = {"job": Definition(Rule(cron=cron), task=TASK, queue="default")}
        return ScheduleService(scene.store, scene.events, declared)

    old, new = deployment("*/30 * * * *"), deployment("*/10 * * * *")
    await old.run_once()
    scene.clock.advance(1)
    for _ in range(12):
        await new.run_once()
        await old.run_once()
        scene.clock.advance(minutes=10)
    found = await scene.schedule()
    assert (found.definition.rule.cron, found.revision) == ("*/10 * * * *", 2)
    assert "cron '*/30 * * * *' instead of '*/10 * * * *'" in str(contested(found, scene.clock.now))
    assert {row.decision for row in await scene.rows()} == {FIRED}
    assert len(await scene.rows()) == 11


# A bad expression or zone; others go on -------------------------------------------------------


async def test_one_bad_schedule_touches_only_itself_and_heals_by_itself(scene: Scene) -> None:
    def broken() -> list[str]:
        raise ConnectionError("tenants out of reach")

    scene.providers.scopes["tenants"] = broken
    await scene.declare_unchecked("bad-expression", "99 * * * *")
    await scene.declare_unchecked("bad-zone", "@hourly", timezone="Mars/Olympus")
    await scene.declare("bad-provider", "@hourly", scopes="tenants")
    await scene.declare("good", "@hourly")
    await scene.after(hours=1)
    errors = {each.name: each.error for each in await scene.store.schedules.find()}
    assert "cron must be" in str(errors["bad-expression"])
    assert "Mars/Olympus" in str(errors["bad-zone"])
    assert "tenants out of reach" in str(errors["bad-provider"])
    assert errors["good"] is None
    assert await scene.decisions("good") == [("01:00", FIRED)]

    scene.providers.scopes["tenants"] = lambda: ["a"]
    await scene.declare("bad-expression", "@hourly")
    await scene.after(minutes=1)
    errors = {each.name: each.error for each in await scene.store.schedules.find()}
    assert (errors["bad-provider"], errors["bad-expression"]) == (None, None)
    assert await scene.decisions("bad-provider") == [("01:00", FIRED)]


# Re-entry is bypassed through the FAILED branch -----------------------------------------------


async def test_a_plan_that_may_not_be_entered_again_is_not(scene: Scene) -> None:
    policy = encode_policy(Policy(retry=Retry(max_attempts=5, base=0)))
    await scene.declare(cron="@hourly", on_crash=OnCrash.FAIL, policy=policy)
    await scene.after(hours=1)
    [job] = await scene.claim()
    await scene.store.jobs.finish([decide(job, WorkerLost())])
    for _ in range(3):
        await scene.after(minutes=5)
    [row] = await scene.rows()
    assert (row.decision, row.state, row.attempts) == (FIRED, JobState.FAILED, 1)
    assert await scene.claim() == []
    assert await scene.jobs() == 1


async def test_a_plan_that_may_be_entered_again_is(scene: Scene) -> None:
    policy = encode_policy(Policy(retry=Retry(max_attempts=5, base=0)))
    await scene.declare(cron="@hourly", policy=policy)
    await scene.after(hours=1)
    [job] = await scene.claim()
    await scene.store.jobs.finish([decide(job, WorkerLost())])
    [row] = await scene.rows()
    assert row.state is JobState.SCHEDULED


# The tick's "now" is reused after long work ---------------------------------------------------


async def test_each_batch_of_scopes_is_decided_by_the_time_it_is_then(scene: Scene) -> None:
    """A provider that takes an hour for its second page: by then another plan is due."""

    async def slow() -> AsyncIterator[str]:
        for n in range(100):
            yield f"early{n}"
        scene.clock.advance(hours=1)
        yield "late"

    scene.providers.scopes["slow"] = slow
    await scene.declare(cron="@hourly", scopes="slow")
    await scene.after(hours=1)
    late = [row for row in await scene.rows() if row.scope == "late"]
    assert [(f"{row.at:%H:%M}", row.decision) for row in late] == [
        ("01:00", Decision.COALESCED),
        ("02:00", FIRED),
    ]
    assert late[-1].recorded_at >= late[-1].at


# One slow handler blocks the replica ----------------------------------------------------------


async def test_a_provider_that_hangs_holds_up_nobody(live_store: Store) -> None:
    scene = Scene(live_store, ManualClock())
    hanging = asyncio.Event()

    async def hang() -> list[str]:
        await hanging.wait()
        return []

    scene.providers.scopes["hang"] = hang
    await scene.declare("hangs", every=1, scopes="hang")
    await scene.declare("goes-on", every=1)
    await until_fired(scene, "goes-on", 2)
    hanging.set()


async def until_fired(scene: Scene, name: str, number: int) -> None:
    from tests.support.waiting import wait_until

    stop = asyncio.Event()
    running = asyncio.create_task(scene.evaluator.run(stop))

    async def enough() -> bool:
        return len(await scene.fired(name)) >= number

    try:
        await wait_until(enough, 10, f"{number} plans of {name}")
    finally:
        stop.set()
        await running


# A failed plan followed by a newer one is stranded --------------------------------------------


async def test_an_older_failed_plan_is_not_stranded_by_newer_ones(scene: Scene) -> None:
    refusing = Refusing(scene.store, "")
    scene.evaluator = scene.another(refusing)
    await scene.declare(cron="*/10 * * * *")
    await scene.after(minutes=10)
    await scene.after(minutes=10)
    assert await scene.decisions() == [("00:10", FAILED), ("00:20", FAILED)]
    refusing.refused.clear()
    await scene.after(minutes=10)
    assert await scene.decisions() == [("00:10", FIRED), ("00:20", FIRED), ("00:30", FIRED)]


async def test_a_failed_job_is_retried_by_its_policy_while_newer_plans_fire(scene: Scene) -> None:
    policy = encode_policy(Policy(retry=Retry(max_attempts=3, base=1800, jitter=0)))
    await scene.declare(cron="@hourly", policy=policy)
    await scene.after(hours=1)
    [job] = await scene.claim()
    await scene.store.jobs.finish([decide(job, Raised("ValueError", "no"))])
    await scene.after(hours=1)
    await scene.store.jobs.promote_due(10)
    claimed = await scene.claim()
    assert sorted(each.attempts for each in claimed) == [0, 1]
    assert job.id in {each.id for each in claimed}


async def test_a_failed_plan_that_became_too_late_is_missed(scene: Scene) -> None:
    refusing = Refusing(scene.store, "")
    scene.evaluator = scene.another(refusing)
    await scene.declare(cron="@hourly", lateness=600)
    await scene.after(hours=1)
    await scene.after(minutes=11)
    [row] = await scene.rows()
    assert row.decision is MISSED
    assert "cannot be written" in row.reason


# An over-large result makes the success write fail and the job run again ----------------------


async def test_a_scheduled_job_with_an_oversized_result_runs_once(live_store: Store) -> None:
    runs: list[int] = []

    async def task() -> str:
        runs.append(1)
        return "ä" * 200_000

    scene, shop = Scene(live_store, ManualClock()), Shop(live_store, task)
    await scene.declare(every=1)
    await until_fired(scene, "job", 1)
    await shop.drain()
    [row, *_] = await scene.rows()
    assert (row.state, row.attempts) == (JobState.FAILED, 1)
    assert len(runs) == len({each.job_id for each in await scene.rows() if each.state})


# Cutting a message by bytes splits a character ------------------------------------------------


async def test_a_long_complaint_is_cut_between_characters(scene: Scene) -> None:
    def broken() -> list[str]:
        raise ValueError("ü€😀" * MESSAGE_LIMIT)

    scene.providers.scopes["tenants"] = broken
    await scene.declare(cron="@hourly", scopes="tenants")
    await scene.after(hours=1)
    error = (await scene.schedule()).error
    assert error is not None
    assert len(error) <= MESSAGE_LIMIT
    assert set(error.removeprefix("ValueError: ")) <= set("ü€😀…")


# An empty backoff means an immediate retry though documented as none --------------------------


async def test_a_job_without_retries_is_not_retried(scene: Scene) -> None:
    await scene.declare(cron="@hourly", policy=encode_policy(Policy(retry=Retry.never())))
    await scene.after(hours=1)
    [job] = await scene.claim()
    ended: Transition = decide(job, Raised("ValueError", "no"))
    await scene.store.jobs.finish([ended])
    await scene.after(minutes=1)
    [row] = await scene.rows()
    assert (row.decision, row.state, row.attempts) == (FIRED, JobState.FAILED, 1)
    assert "no" in str(row.error)


# A lost heartbeat does not stop the handler ---------------------------------------------------


async def test_a_replaced_job_that_runs_is_told_to_stop(scene: Scene) -> None:
    await scene.declare(cron="*/10 * * * *", overlap=Overlap.REPLACE)
    await scene.after(minutes=10)
    [job] = await scene.claim()
    await scene.after(minutes=10)
    beat = await scene.store.workers.heartbeat(scene.worker, 1e9, [Held(job.id, job.fence)])
    assert beat.cancel == (job.id,)


# A schedule idle for long never fires again because of an occurrence cap ----------------------


@pytest.mark.parametrize("catch_up", CatchUp)
async def test_a_schedule_that_slept_for_years_fires_again(scene: Scene, catch_up: CatchUp) -> None:
    await scene.declare("minutely", "* * * * *", catch_up=catch_up, window=600, cap=20)
    await scene.declare("leap", "0 0 29 2 *", catch_up=catch_up)
    await scene.at(datetime(2044, 2, 29, 0, 0, 10, tzinfo=UTC))
    newest = datetime(2044, 2, 29, tzinfo=UTC)
    assert (await scene.fired("minutely"))[-1] == newest
    assert (await scene.fired("leap"))[-1] == newest
    rows = await scene.rows("minutely")
    assert len(rows) <= 41
    assert rows[0].decision is MISSED
    assert "stands for every plan from 2027-01-01T00:01:00Z" in rows[0].reason
    await scene.after(minutes=1)
    assert (await scene.fired("minutely"))[-1] == newest + timedelta(minutes=1)


# Skipped fires leave no row -------------------------------------------------------------------


async def test_every_plan_that_did_not_fire_has_a_row_that_says_why(scene: Scene) -> None:
    await scene.declare("skips", "*/10 * * * *", overlap=Overlap.SKIP)
    await scene.declare("late", "*/10 * * * *", lateness=60)
    await scene.after(minutes=10)
    await scene.after(minutes=15)
    skips, late = await scene.rows("skips"), await scene.rows("late")
    assert [row.decision for row in skips] == [FIRED, SKIPPED]
    assert [row.decision for row in late] == [FIRED, MISSED]
    assert all(row.reason for row in (*skips, *late) if row.decision is not FIRED)


# Two leaders at once --------------------------------------------------------------------------


async def test_a_clock_that_jumps_back_fires_nothing_twice(scene: Scene) -> None:
    await scene.declare(cron="*/10 * * * *")
    await scene.after(minutes=30)
    await scene.at(START + timedelta(minutes=5))
    await scene.at(START + timedelta(minutes=31))
    await scene.at(START + timedelta(minutes=41))
    assert [f"{at:%H:%M}" for at in await scene.fired()] == ["00:30", "00:40"]
    assert await scene.jobs([TASK]) == 2


async def test_a_definition_of_a_newer_program_hides_no_other_schedule(scene: Scene) -> None:
    newer: Any = "a rule of tomorrow"
    strange = Definition(Rule(cron="* * * * *"), task=TASK, queue="default", overlap=newer)
    await scene.store.schedules.declare({"strange": strange})
    await scene.declare(cron="* * * * *")
    await scene.after(minutes=1)
    assert await scene.decisions() == [("00:01", FIRED)]
    assert await scene.decisions("strange") == []
    assert "unreadable by this program" in str((await scene.schedule("strange")).error)
