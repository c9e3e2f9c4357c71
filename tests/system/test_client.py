"""The verbs of the client, on every store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast.client.client import Client
from holdfast.client.selection import job_filter
from holdfast.clock import ManualClock
from holdfast.errors import (
    BadArguments,
    BadOption,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotSucceeded,
    NotOpen,
    Refused,
    ResultTimeout,
    StoreError,
    UnknownJob,
    UnknownSchedule,
    Unreadable,
)
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.job.checks import PRIORITY_LIMIT
from holdfast.job.ends import DeadlinePassed, HandedBack, Raised, Returned, WasThrottled
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.state import JobState
from holdfast.job.unique import Unique
from holdfast.operations.job_verbs import JOB_VERBS
from holdfast.store.contract.store import Store
from holdfast.store.postgres import reading as postgres_reading
from holdfast.store.sqlite import reading as sqlite_reading
from holdfast.store.valkey import reading as valkey_reading
from tests.conformance.builders import FAILED, QUEUE, TASK, Scene, new_job


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    client = Client(store)
    yield client
    await client.aclose()


# Cancel ---------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED, JobState.SUSPENDED])
async def test_a_waiting_job_is_cancelled_at_once(
    client: Client, scene: Scene, state: JobState
) -> None:
    assert await client.cancel(await scene.in_state(state)) is JobState.CANCELLED


async def test_a_running_job_is_told_and_ends_cancelled_unless_it_returns(
    client: Client, scene: Scene
) -> None:
    claimed = await scene.running()
    assert await client.cancel(claimed.id) is JobState.RUNNING
    assert (await scene.live(claimed.id)).cancel_requested
    await scene.finish(claimed, Raised("E", "interrupted"), cancel_requested=True)
    assert await scene.state(claimed.id) is JobState.CANCELLED


async def test_a_return_that_happened_stands_though_a_cancel_was_asked(
    client: Client, scene: Scene
) -> None:
    claimed = await scene.running()
    await client.cancel(claimed.id)
    await scene.finish(claimed, Returned("1"), cancel_requested=True)
    assert await client.cancel(claimed.id) is JobState.SUCCEEDED


async def test_a_cancel_that_races_with_a_claim_finds_the_job_running(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await scene.enqueue()
    jobs = scene.store.jobs
    finish = jobs.finish

    async def claimed_meanwhile(transitions):  # type: ignore[no-untyped-def]
        monkeypatch.setattr(jobs, "finish", finish)
        await scene.claim_one()
        return await finish(transitions)

    monkeypatch.setattr(jobs, "finish", claimed_meanwhile)
    assert await client.cancel(job) is JobState.RUNNING
    assert (await scene.live(job)).cancel_requested


async def test_a_cancel_that_races_with_a_hand_back_ends_the_job(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = await scene.running()
    jobs = scene.store.jobs
    request_cancel = jobs.request_cancel

    async def handed_back_meanwhile(ids, *more):  # type: ignore[no-untyped-def]
        monkeypatch.setattr(jobs, "request_cancel", request_cancel)
        await scene.finish(claimed, HandedBack())
        return await request_cancel(ids, *more)

    monkeypatch.setattr(jobs, "request_cancel", handed_back_meanwhile)
    assert await client.cancel(claimed.id) is JobState.CANCELLED


# Requeue and the others --------------------------------------------------------------------


async def test_a_requeued_job_has_all_its_attempts_and_its_history(
    client: Client, scene: Scene
) -> None:
    ended = await scene.ended(FAILED)
    await client.requeue(ended.id)
    job = await client.get(ended.id)
    assert (job.state, job.attempts, job.crashes) == (JobState.READY, 0, 0)
    assert [error.message for error in job.errors] == ["give up"]


async def test_a_live_job_cannot_be_requeued(client: Client, scene: Scene) -> None:
    with pytest.raises(Refused, match="only an ended job can be requeued"):
        await client.requeue(await scene.enqueue())


async def test_a_requeue_that_would_break_a_unique_key_is_refused(
    client: Client, scene: Scene
) -> None:
    first = await scene.ended(unique=Unique("k"))
    await scene.enqueue(unique=Unique("k"))
    with pytest.raises(Refused, match=r"another job, or .* holds its unique key"):
        await client.requeue(first.id)


async def test_a_waiting_job_can_be_moved_reprioritised_and_made_due(
    client: Client, scene: Scene
) -> None:
    job = await scene.in_state(JobState.SCHEDULED)
    await client.move(job, "other")
    await client.reprioritise(job, -7)
    await client.reschedule(job, 0)
    found = await client.get(job)
    assert (found.queue, found.priority, found.state) == ("other", -7, JobState.READY)


@pytest.mark.parametrize("delay", [-1.0, float("nan"), float("inf"), 1e300])
async def test_a_delay_that_no_clock_can_count_is_refused(
    client: Client, scene: Scene, delay: float
) -> None:
    job = await scene.enqueue()
    with pytest.raises(BadOption, match="delay must be"):
        await client.reschedule(job, delay)
    with pytest.raises(BadOption, match="delay must be"):
        await client.reschedule_all(delay, queue=QUEUE)


async def test_a_job_is_made_due_at_a_time(client: Client, scene: Scene) -> None:
    job = await scene.enqueue()
    at = scene.after(90)
    await client.reschedule(job, at=at.astimezone(timezone(timedelta(hours=5))))
    assert (await client.get(job)).due_at == at
    assert (await client.reschedule_all(at=scene.after(60), queue=QUEUE)).changed == 1
    assert (await client.get(job)).due_at == scene.after(60)
    await client.reschedule(job, timedelta(minutes=3))
    assert (await client.get(job)).due_at == scene.after(180)


@pytest.mark.parametrize(
    ("when", "named"),
    [
        ({}, "delay and at must be one of the two"),
        ({"delay": 5, "at": datetime(2030, 1, 1, tzinfo=UTC)}, "must be one of the two"),
        ({"at": datetime(2030, 1, 1)}, "with a time zone"),  # noqa: DTZ001 - the point
        ({"at": "tomorrow"}, "delay must be"),
    ],
)
async def test_a_time_that_is_none_is_refused(
    client: Client, scene: Scene, when: dict[str, Any], named: str
) -> None:
    job = await scene.enqueue()
    with pytest.raises(BadOption, match=named):
        await client.reschedule(job, **when)


async def test_a_waiting_job_is_edited_by_name_of_its_arguments(
    client: Client, scene: Scene
) -> None:
    job = await scene.enqueue(args='{"name":"Ada","times":1}', tags=("old",))
    await client.edit(job, args={"name": "Grace"})
    await client.edit(job, tags=["mended"])
    edited = await scene.job(job)
    assert edited.args == {"name": "Grace", "times": 1}
    assert edited.tags == ("mended",)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, BadOption),
        ({"args": "x"}, BadOption),
        ({"args": {5: "x"}}, BadOption),
        ({"tags": "mail"}, BadOption),
        ({"args": {"name": object()}}, BadArguments),
    ],
)
async def test_an_edit_that_makes_no_sense_is_refused(
    client: Client, scene: Scene, changes: dict[str, Any], error: type[Exception]
) -> None:
    job = await scene.enqueue()
    with pytest.raises(error):
        await client.edit(job, **changes)


async def test_only_a_waiting_job_can_be_edited(client: Client, scene: Scene) -> None:
    running, ended = await scene.running(), await scene.ended()
    for job in (running.id, ended.id):
        with pytest.raises(Refused, match="only a waiting job can be edited"):
            await client.edit(job, tags=["late"])
    with pytest.raises(UnknownJob):
        await client.edit(new_job_id(), tags=["late"])


async def test_a_priority_out_of_range_is_refused(client: Client, scene: Scene) -> None:
    job = await scene.enqueue()
    with pytest.raises(BadOption, match="priority must be"):
        await client.reprioritise(job, 2**40)
    with pytest.raises(BadOption, match="priority must be"):
        await client.reprioritise_all(2**40, queue=QUEUE)


async def test_a_running_job_is_not_moved(client: Client, scene: Scene) -> None:
    claimed = await scene.running()
    with pytest.raises(Refused, match="is running"):
        await client.move(claimed.id, "other")


async def test_only_an_ended_job_can_be_deleted(client: Client, scene: Scene) -> None:
    live, ended = await scene.enqueue(queue="other"), await scene.ended()
    with pytest.raises(Refused):
        await client.delete(live)
    await client.delete(ended.id)
    with pytest.raises(UnknownJob):
        await client.get(ended.id)


# Bulk ------------------------------------------------------------------------------------


async def test_a_dry_run_counts_and_changes_nothing(client: Client, scene: Scene) -> None:
    await scene.enqueue_many(5)
    report = await client.cancel_all(queue=QUEUE, dry_run=True)
    assert (report.matched, report.changed) == (5, 0)
    assert await client.count() == {JobState.READY: 5}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("which", "named"),
    [
        ({}, "filter must be at least one word, or everything=True"),
        ({"queue": None, "tag": None}, "filter must be at least one word, or everything=True"),
        ({"everything": False}, "filter must be at least one word, or everything=True"),
        ({"ids": []}, "filter ids must be left out, or not empty"),
        ({"queue": QUEUE, "ids": []}, "filter ids must be left out, or not empty"),
        ({"tag": ""}, "filter tag must be left out, or not empty"),
        ({"queue": QUEUE, "everything": True}, "everything must be left out beside a filter"),
        ({"everything": "yes"}, "everything must be True or False"),
    ],
)
async def test_a_bulk_verb_without_a_filter_is_refused(
    client: Client, scene: Scene, which: dict[str, Any], named: str, dry_run: bool
) -> None:
    job = await scene.enqueue()
    with pytest.raises(BadOption, match=named):
        await client.cancel_all(dry_run=dry_run, **which)
    assert await scene.state(job) is JobState.READY


async def test_a_bulk_verb_on_everything_says_so(client: Client, scene: Scene) -> None:
    await scene.enqueue_many(3)
    assert (await client.cancel_all(everything=True)).changed == 3


async def test_a_bulk_verb_walks_many_pages_and_tells_its_progress(
    client: Client, scene: Scene
) -> None:
    await scene.enqueue_many(2500)
    told: list[tuple[int, int]] = []
    report = await client.cancel_all(
        queue=QUEUE, on_progress=lambda done, of: told.append((done, of))
    )
    assert report.changed == 2500
    assert told[-1] == (2500, 2500)
    assert await client.count() == {JobState.CANCELLED: 2500}


@pytest.fixture
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a rare filter are incomplete, and most of them empty."""
    for store in (postgres_reading, sqlite_reading, valkey_reading):
        monkeypatch.setattr(store, "LOOK", 3)


async def rare_jobs(scene: Scene) -> list[JobId]:
    found = []
    for _ in range(3):
        found.append(await scene.enqueue(tags=("rare",), args='{"customer":42}'))
        await scene.enqueue_many(11)
    return found


@pytest.mark.usefixtures("short_looks")
async def test_a_bulk_verb_goes_on_over_pages_that_are_empty_but_not_complete(
    client: Client, scene: Scene
) -> None:
    rare = await rare_jobs(scene)
    page = await client.page(tag="rare")
    assert (page.jobs, page.complete, page.looked_at) == ((), False, 3)
    report = await client.cancel_all(where="tag:rare args.customer:42")
    assert (report.matched, report.changed) == (3, 3)
    assert await scene.states(rare) == [JobState.CANCELLED] * 3
    assert (await client.count())[JobState.READY] == 33


@pytest.mark.usefixtures("short_looks")
async def test_an_operation_goes_on_over_pages_that_are_empty_but_not_complete(
    client: Client, scene: Scene
) -> None:
    rare = await rare_jobs(scene)
    begun = await client.operations.begin("cancel", where="args.customer:42 task:gr*")
    done = await client.operations.follow(begun.id)
    assert (done.request.matched, done.progress.changed) == (3, 3)
    assert await scene.states(rare) == [JobState.CANCELLED] * 3


async def test_the_audit_names_the_paths_of_arguments_and_not_their_values(
    client: Client, scene: Scene
) -> None:
    await scene.enqueue(args='{"card":"4111"}', priority=0)
    await client.cancel_all(args={"card": "4111"}, priority=0, by="ann")
    [act] = (await client.audit.page(by="ann")).entries
    assert json.loads(act.which or "") == {"args": ["card"], "priority": 0}
    begun = await client.operations.begin("requeue", where="args.card:4111", by="bob")
    await client.operations.follow(begun.id)
    [act] = (await client.audit.page(by="bob")).entries
    assert "card" in str(act.which)
    assert "4111" not in str(act.which)


async def test_a_filter_of_words_and_a_text_narrow_together(client: Client, scene: Scene) -> None:
    both = await scene.enqueue(tags=("a", "b"), priority=0)
    await scene.enqueue(tags=("a",), priority=0)
    await scene.enqueue(tags=("a", "b"), priority=5)
    page = await client.page(tag="a", where="tag:b priority:0", args={"name": "Ada"})
    assert [job.id for job in page.jobs] == [both]


@pytest.mark.parametrize(
    ("which", "named"),
    [
        ({"queue": "a", "where": "queue:b"}, "filter queues must be left out beside a where"),
        ({"args": {"x": 1}, "where": "args.x:2"}, "filter args must be left out beside a where"),
        ({"where": 5}, "where must be text"),
        ({"where": " "}, "where must be 1 to"),
        ({"args": {"x": [1]}}, "filter args must be values by their paths"),
        ({"args": "x"}, "filter args must be values by their paths"),
        ({"args": {"x": float("nan")}}, "filter args must be values by their paths"),
        ({"worker": "ann"}, "worker must be the id of a worker"),
        ({"task": "*"}, "the beginning of a name and a star"),
        ({"task": "a*b"}, "the beginning of a name and a star"),
        ({"queue": 5}, "filter queues must be one text or a list of them"),
        ({"tags": {"vip": 1}}, "filter tags must be one text or a list of them"),
        ({"tags": ["vip", None]}, "filter tags must be 1 to 4096 characters of text"),
        ({"queue": "a\0"}, "filter queues must be 1 to 4096 characters of text"),
        ({"error_text": "\ud800"}, "filter error_text must be 1 to 4096 characters of text"),
        ({"args": {"x": "\0"}}, "filter args must be values by their paths"),
        ({"args": {"\0": 1}}, "filter args must be values by their paths"),
        ({"where": "queue:a\0"}, "the value of 'queue:a.x00' must be text"),
        ({"where": "args.a\0:1"}, "the path of 'args.a.x00:1' must be text"),
        ({"priority": True}, "filter priority must be a whole number"),
        ({"priority_over": float("nan")}, "filter priority_over must be a whole number"),
        ({"attempts_over": -1}, "filter attempts_over must be a whole number"),
        (
            {"created_before": datetime(2026, 1, 1)},  # noqa: DTZ001 - the point
            "filter created_before must be a datetime with a time zone",
        ),
        ({"finished_after": "2h"}, "filter finished_after must be a datetime with"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(which: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOption, match=named):
        job_filter(**which)


async def test_bulk_by_state_never_touches_running_rows(client: Client, scene: Scene) -> None:
    running = await scene.running()
    await scene.enqueue()
    assert (await client.move_all("other", everything=True)).changed == 1
    assert (await client.requeue_all(states=["failed", "succeeded"])).changed == 0
    assert (await client.delete_all(everything=True)).changed == 0
    assert (await client.get(running.id)).state is JobState.RUNNING
    with pytest.raises(BadOption, match="states must be among"):
        await client.delete_all(state="running")


async def test_bulk_requeue_takes_failed_jobs_unless_told_otherwise(
    client: Client, scene: Scene
) -> None:
    failed, succeeded = await scene.ended(FAILED), await scene.ended()
    assert (await client.requeue_all(task=TASK)).changed == 1
    assert await scene.states([failed.id, succeeded.id]) == [JobState.READY, JobState.SUCCEEDED]


def test_a_filter_names_what_it_does_not_know() -> None:
    with pytest.raises(BadOption, match="filter must be one of"):
        job_filter(colour="red")  # type: ignore[call-arg]
    with pytest.raises(BadOption, match="state must be one of"):
        job_filter(state="asleep")


# Results ---------------------------------------------------------------------------------


async def test_a_result_is_waited_for(client: Client, scene: Scene) -> None:
    claimed = await scene.running()
    waiting = asyncio.create_task(client.result(claimed.id, timeout=5))
    await scene.finish(claimed, Returned("[1,2]"))
    assert await waiting == [1, 2]


async def test_many_waiters_share_the_question(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = await scene.enqueue_many(100)
    asked: list[int] = []
    outcomes = scene.store.jobs.outcomes

    async def counted(ids):  # type: ignore[no-untyped-def]
        asked.append(len(ids))
        return await outcomes(ids)

    waiting = [asyncio.create_task(client.result(job, timeout=10)) for job in jobs]
    await asyncio.wait(waiting, timeout=0.2)
    monkeypatch.setattr(scene.store.jobs, "outcomes", counted)
    for claimed in await scene.claim(100):
        await scene.finish(claimed, Returned("7"))
    assert await asyncio.gather(*waiting) == [7] * 100
    assert len(asked) < 100


@pytest.mark.parametrize(("end", "error"), [(FAILED, JobFailed), (DeadlinePassed(), JobExpired)])
async def test_a_job_without_a_result_raises_what_it_ended_in(
    client: Client, scene: Scene, end: Raised | DeadlinePassed, error: type[JobNotSucceeded]
) -> None:
    ended = await scene.ended(end)
    with pytest.raises(error):
        await client.result(ended.id, timeout=1)


async def test_waiting_for_a_cancelled_job_says_so(client: Client, scene: Scene) -> None:
    job = await scene.enqueue()
    await client.cancel(job)
    with pytest.raises(JobCancelled, match="cancelled on request"):
        await client.result(job)


async def test_a_result_that_does_not_come_in_time_says_where_the_job_is(
    client: Client, scene: Scene
) -> None:
    with pytest.raises(ResultTimeout, match="is still ready after"):
        await client.result(await scene.enqueue(), timeout=1)


async def test_a_store_that_cannot_answer_fails_those_who_wait(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await scene.enqueue()

    async def damaged(ids):  # type: ignore[no-untyped-def]
        raise StoreError("the file is damaged")

    monkeypatch.setattr(scene.store.jobs, "outcomes", damaged)
    async with asyncio.timeout(5):
        with pytest.raises(StoreError, match="damaged"):
            await client.result(job)


async def test_closing_tells_those_who_wait_for_a_result(client: Client, scene: Scene) -> None:
    waiting = asyncio.create_task(client.result(await scene.enqueue()))
    await asyncio.wait([waiting], timeout=0.1)
    await client.aclose()
    async with asyncio.timeout(5):
        with pytest.raises(NotOpen):
            await waiting


async def test_nobody_waits_for_a_job_that_is_not_there(client: Client) -> None:
    with pytest.raises(UnknownJob):
        await client.result(new_job_id(), timeout=60)


async def test_a_text_that_is_no_uuid_is_the_id_of_no_job(client: Client) -> None:
    for call in (client.get, client.result, client.explain, client.cancel, client.delete):
        with pytest.raises(UnknownJob, match="no job 'nope': the id of a job is a UUID"):
            await call("nope")
    with pytest.raises(BadOption, match="job id must be a UUID"):
        await client.get(None)  # type: ignore[arg-type]


# Values -----------------------------------------------------------------------------------


async def test_a_job_is_read_as_values(client: Client, scene: Scene) -> None:
    given = new_job(args='{"to":"a","n":[1,2]}', headers='{"trace":"t1"}')
    await scene.store.jobs.insert([given])
    [claimed] = await scene.claim(1)
    await scene.finish(claimed, Returned('{"sent":true}'))
    job = await client.get(given.id)
    assert (job.args, job.headers) == ({"to": "a", "n": [1, 2]}, {"trace": "t1"})
    assert (job.result, job.result_json) == ({"sent": True}, '{"sent":true}')
    assert job.result is job.result, "a large result is decoded once"
    plain = await client.get(await scene.enqueue())
    assert (plain.headers, plain.result) == ({}, None)


async def test_a_text_that_is_no_json_spoils_no_page(client: Client, scene: Scene) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, Returned("{broken"))
    [job] = (await client.page()).jobs
    assert (job.result, job.result_json) == ("{broken", "{broken")
    with pytest.raises(Unreadable, match="cannot read its result"):
        await client.result(claimed.id)
    assert await client.result_json(claimed.id) == "{broken"


# Queues ----------------------------------------------------------------------------------


async def test_tuning_changes_only_what_is_named(client: Client) -> None:
    await client.queues.tune("mail", retain_failed=60.0)
    await client.queues.tune("mail", throttle_cap=30.0)
    [queue] = await client.queues.all("mail")
    assert (queue.settings.retain_failed, queue.settings.throttle_cap) == (60.0, 30.0)


@pytest.mark.parametrize("change", [{"retain_failed": -1.0}, {"colour": 1.0}])
async def test_a_bad_tuning_is_refused(client: Client, change: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        await client.queues.tune("mail", **change)


# Explain ---------------------------------------------------------------------------------


async def codes(client: Client, job: str) -> list[str]:
    return [reason.code for reason in (await client.explain(job)).reasons]


async def test_a_running_job_has_no_reason_to_wait(client: Client, scene: Scene) -> None:
    assert await codes(client, (await scene.running()).id) == []


async def test_every_reason_of_a_ready_job_is_named(client: Client, scene: Scene) -> None:
    await scene.enqueue()
    job = await scene.enqueue()
    await client.queues.pause(QUEUE)
    assert await codes(client, job) == ["queue-paused", "in-line"]


async def test_a_cooling_queue_is_a_reason(client: Client, scene: Scene) -> None:
    await scene.ended(WasThrottled(60.0, "slow down"))
    assert await codes(client, await scene.enqueue()) == ["queue-cooling"]


async def test_without_workers_that_is_the_reason(client: Client, scene: Scene) -> None:
    await scene.lose(scene.worker)
    assert await codes(client, await scene.enqueue()) == ["no-workers"]


async def test_a_queue_nobody_serves_and_a_task_nobody_knows_are_told_apart(
    client: Client, scene: Scene
) -> None:
    assert await codes(client, await scene.enqueue(queue="lonely")) == ["queue-unserved"]
    explained = await client.explain(await scene.enqueue(task="unheard-of"))
    assert explained.reasons[0].code == "task-unknown"
    assert "no live worker runs it" in explained.reasons[0].fact


async def test_busy_slots_are_a_reason(client: Client, scene: Scene) -> None:
    await scene.enqueue_many(10)
    await scene.claim(10)
    assert await codes(client, await scene.enqueue()) == ["no-free-slot"]


async def test_a_retry_says_what_it_waits_for(client: Client, scene: Scene) -> None:
    ended = await scene.ended(Raised("ValueError", "no such user"))
    [reason] = (await client.explain(ended.id)).reasons
    assert reason.code == "not-due"
    assert "no such user" in reason.fact


async def test_a_due_job_that_nobody_promotes_is_noticed(
    client: Client, scene: Scene, clock: ManualClock
) -> None:
    job = await scene.enqueue(delay=10.0)
    clock.advance(11)
    assert await codes(client, job) == ["not-promoted"]
    await scene.lose(scene.worker)
    assert await codes(client, job) == ["no-workers"]


async def test_a_lost_worker_and_a_pending_cancel_are_reasons(client: Client, scene: Scene) -> None:
    claimed = await scene.running()
    await client.cancel(claimed.id)
    assert await codes(client, claimed.id) == ["cancelling"]
    await scene.lose(scene.worker)
    assert await codes(client, claimed.id) == ["worker-lost"]


async def test_a_passed_deadline_is_a_reason(
    client: Client, scene: Scene, clock: ManualClock
) -> None:
    job = await scene.enqueue(deadline_in=5.0)
    clock.advance(6)
    assert "past-deadline" in await codes(client, job)


async def test_a_suspended_and_an_ended_job_say_so(client: Client, scene: Scene) -> None:
    assert await codes(client, await scene.in_state(JobState.SUSPENDED)) == ["suspended"]
    assert await codes(client, await scene.in_state(JobState.FAILED)) == ["ended"]


async def action(client: Client, job: str, code: str) -> Action | None:
    [reason] = [each for each in (await client.explain(job)).reasons if each.code == code]
    return reason.action


async def test_a_reason_carries_the_verb_that_removes_it(client: Client, scene: Scene) -> None:
    failed = await scene.in_state(JobState.FAILED)
    assert await action(client, failed, "ended") == Action(Noun.JOBS, Verb.REQUEUE, failed)
    done = await scene.in_state(JobState.SUCCEEDED)
    assert await action(client, done, "ended") is None
    later = await scene.in_state(JobState.SCHEDULED)
    at_once = Action(Noun.JOBS, Verb.RESCHEDULE, later, value=0)
    assert await action(client, later, "not-due") == at_once
    asleep = await scene.in_state(JobState.SUSPENDED)
    assert await action(client, asleep, "suspended") == Action(Noun.JOBS, Verb.RESUME, asleep)
    lonely = await scene.enqueue(queue="lonely")
    serve = Action(Noun.WORKERS, Verb.START, "lonely")
    assert await action(client, lonely, "queue-unserved") == serve
    await client.queues.pause(QUEUE)
    ready = await scene.enqueue()
    assert await action(client, ready, "queue-paused") == Action(Noun.QUEUES, Verb.RESUME, QUEUE)


async def test_the_way_ahead_of_others_is_a_priority_that_may_be_given(
    client: Client, scene: Scene
) -> None:
    await scene.enqueue_many(1, priority=-PRIORITY_LIMIT)
    first = await scene.enqueue(priority=-PRIORITY_LIMIT)
    assert await action(client, first, "in-line") is None
    later = await scene.enqueue(priority=3)
    ahead = Action(Noun.JOBS, Verb.REPRIORITISE, later, value=2)
    assert await action(client, later, "in-line") == ahead


async def test_what_a_reason_advises_can_be_done(client: Client, scene: Scene) -> None:
    for state in (JobState.FAILED, JobState.SCHEDULED, JobState.SUSPENDED):
        job = await scene.in_state(state)
        [reason] = (await client.explain(job)).reasons
        assert reason.action is not None
        row = JOB_VERBS[reason.action.verb]
        await client.apply(row, reason.action.target, reason.action.value)
        assert await scene.state(job) is JobState.READY
        await client.cancel(job)


async def test_a_handed_back_job_is_next_again(client: Client, scene: Scene) -> None:
    ended = await scene.ended(HandedBack())
    assert await codes(client, ended.id) == ["next"]


@pytest.mark.parametrize(
    "changes",
    [
        {"retain_succeeded": "x"},
        {"retain_failed": True},
        {"retain_other": 10**400},
        {"throttle_base": None},
        {"throttle_cap": float("inf")},
    ],
)
async def test_a_setting_of_a_queue_is_checked_by_type(
    client: Client, changes: dict[str, Any]
) -> None:
    [option] = changes
    with pytest.raises(BadOption, match=option):
        await client.queues.tune(QUEUE, **changes)
    assert await client.queues.all(QUEUE) == []


async def test_a_job_may_be_rescheduled_by_a_timedelta(client: Client, scene: Scene) -> None:
    job_id = await scene.in_state(JobState.READY)
    await client.reschedule(job_id, timedelta(minutes=1))
    assert await scene.state(job_id) is JobState.SCHEDULED


# Other nouns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", "x" * 10_000, ""])
async def test_no_store_is_asked_for_a_text_that_it_could_not_hold(
    client: Client, bad: str
) -> None:
    asked_for: list[dict[str, Any]] = [
        {"name": bad},
        {"tag": ["vip", bad]},
        {"cursor": bad},
        {"state": bad},
    ]
    for which in asked_for:
        with pytest.raises(BadOption):
            await client.flows.page(**which)
    with pytest.raises(BadOption, match="after must be 1 to"):
        await client.limits.buckets(after=bad)
    schedules = client.schedules
    asked = (schedules.get, schedules.pause, schedules.trigger, schedules.history, schedules.delete)
    for ask in asked:
        with pytest.raises(UnknownSchedule):
            await ask(bad)


async def test_flows_are_filtered_by_moments_with_a_zone(client: Client) -> None:
    for word in ("created_after", "created_before"):
        with pytest.raises(BadOption, match="with a time zone"):
            await client.flows.page(**{word: datetime(2030, 1, 1)})  # type: ignore[arg-type]  # noqa: DTZ001
    with pytest.raises(BadOption, match="one text or a list of them"):
        await client.flows.page(name=5)  # type: ignore[arg-type]
