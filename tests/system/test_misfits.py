"""A rolling deploy: a job whose arguments do not fit a worker is left for one that can read it."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from holdfast import App, Snooze
from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.events import Event
from holdfast.fleet.reading import KIND, notes
from holdfast.handlers.registry import Handler
from holdfast.insights.actions import Action, Noun, Verb
from holdfast.insights.checks import check_policies
from holdfast.insights.explain import explain
from holdfast.insights.reasons import Reason, Who
from holdfast.job.ids import JobId, new_worker_id
from holdfast.job.outcome import LEFT
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.reconcile.unserved import UnservedReconciler
from holdfast.store.contract.facts import WorkerFacts
from holdfast.store.contract.health import Severity
from holdfast.store.contract.shelf import Put
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo
from holdfast.testing import DrainFailed, Harness
from holdfast.worker import misfits
from tests.support import process_handlers as handlers
from tests.support.reconcile_scene import made
from tests.support.waiting import wait_until
from tests.support.working import Shop

LIMIT = 900.0


async def old_greet(name: str) -> str:
    return f"hello {name}"


async def new_greet(name: str, greeting: str) -> str:
    return f"{greeting} {name}"


def shop_of(store: Store, function: Callable[..., Any]) -> Shop:
    shop = Shop(store)
    shop.registry.add(Handler.of("greet", function))
    return shop


@pytest.fixture
def old(store: Store) -> Shop:
    return shop_of(store, old_greet)


@pytest.fixture
def new(store: Store) -> Shop:
    return shop_of(store, new_greet)


async def assert_left(shop: Shop, job_id: JobId) -> None:
    job = await shop.get(job_id)
    assert (job.state, job.attempts, job.crashes) == (JobState.SCHEDULED, 0, 0)
    assert str(job.reason).startswith(LEFT)


# Both directions ----------------------------------------------------------------------------


async def test_a_job_of_new_code_is_left_by_an_old_worker_and_run_by_a_new_one(
    old: Shop, new: Shop, clock: ManualClock
) -> None:
    job_id = await new.enqueue("greet", "Ann", "good day")
    await old.drain()
    await assert_left(old, job_id)
    clock.advance(10)
    await new.drain()
    job = await new.get(job_id)
    assert (job.state, job.attempts, job.result) == (JobState.SUCCEEDED, 1, "good day Ann")
    assert job.errors == ()


async def test_a_job_of_old_code_is_left_by_a_new_worker_and_run_by_an_old_one(
    old: Shop, new: Shop, clock: ManualClock
) -> None:
    job_id = await old.enqueue("greet", "Ann")
    await new.drain()
    await assert_left(new, job_id)
    clock.advance(10)
    await old.drain()
    job = await old.get(job_id)
    assert (job.state, job.attempts, job.result) == (JobState.SUCCEEDED, 1, "hello Ann")


async def test_a_worker_tells_once_of_a_job_that_it_leaves(old: Shop, clock: ManualClock) -> None:
    job_id = await old.insert("greet", '{"name":"Ann","greeting":"good day"}')
    async with old.worker() as worker:
        for _ in range(3):
            await worker.drain()
            clock.advance(10)
    [event] = old.reported("job.left")
    assert event.fields["job_id"] == job_id
    assert "'greeting'" in str(event.fields["error"])
    lives = await old.store.jobs.life([job_id])
    assert {happening.what for happening in lives} == {What.PUT_OFF}
    assert LEFT in str(lives[0].message)


# The time limit -----------------------------------------------------------------------------


async def test_it_fails_when_no_live_worker_could_read_it_for_the_limit(
    old: Shop, new: Shop, clock: ManualClock
) -> None:
    job_id = await new.enqueue("greet", "Ann", "good day")
    for _ in range(15):
        await old.drain(name="old-7")
        await assert_left(old, job_id)
        clock.advance(LIMIT / 15)
    await old.drain(name="old-7")
    job = await old.get(job_id)
    assert (job.state, job.crashes) == (JobState.FAILED, 0)
    [error] = job.errors
    assert error.kind == "BadArguments"
    assert "'greeting'" in error.message
    assert "for 900 s no live worker could read them" in error.message
    assert "tried by 'old-7' (code " in error.message
    [reason] = (await explain(old.store, job)).reasons
    assert reason.advice == "deploy a worker whose code takes its arguments, then run it again"
    assert reason.action == Action(Noun.JOBS, Verb.REQUEUE, job_id)


async def test_it_does_not_fail_while_a_live_worker_may_read_it(
    old: Shop, new: Shop, clock: ManualClock
) -> None:
    """Such a worker may be busy all the time."""
    job_id = await new.enqueue("greet", "Ann", "good day")
    busy = await register(new.store, code="another", lease=10 * LIMIT)
    for _ in range(20):
        await old.drain()
        clock.advance(LIMIT / 5)
    await old.drain()
    await assert_left(old, job_id)
    await old.store.workers.deregister(busy)
    clock.advance(LIMIT - 1)
    await old.drain()
    await assert_left(old, job_id)
    clock.advance(11)
    await old.drain()
    assert (await old.get(job_id)).state is JobState.FAILED


async def test_workers_of_the_same_code_do_not_keep_it(
    old: Shop, new: Shop, clock: ManualClock
) -> None:
    job_id = await new.enqueue("greet", "Ann", "good day")
    async with old.worker() as worker:
        code = worker._running_pipeline.setup.code
    await register(old.store, code=code, lease=10 * LIMIT)
    await old.drain()
    clock.advance(LIMIT + 1)
    await old.drain()
    assert (await old.get(job_id)).state is JobState.FAILED


async def register(store: Store, *, code: str, lease: float) -> Any:
    worker = WorkerInfo(new_worker_id(), "busy", "host", 1, {"default": 1}, ("greet",), "0")
    await store.workers.register(worker, lease)
    await store.workers.heartbeat(worker.id, lease, [], facts=WorkerFacts(code=code))
    return worker.id


async def test_the_time_begins_again_when_a_worker_has_read_it(
    store: Store, clock: ManualClock
) -> None:
    async def naps(name: str, greeting: str) -> None:
        raise Snooze(60)

    old, napping = shop_of(store, old_greet), shop_of(store, naps)
    job_id = await napping.enqueue("greet", "Ann", "good day")
    await old.drain()
    clock.advance(LIMIT - 100)
    await napping.drain()
    for _ in range(9):
        clock.advance(100)
        await old.drain()
        await assert_left(old, job_id)
    clock.advance(100)
    await old.drain()
    assert (await old.get(job_id)).state is JobState.FAILED


async def test_an_operator_who_runs_it_again_gives_it_the_whole_time_again(
    old: Shop, new: Shop, clock: ManualClock
) -> None:
    job_id = await new.enqueue("greet", "Ann", "good day")
    await old.drain()
    clock.advance(LIMIT + 1)
    await old.drain()
    assert (await old.get(job_id)).state is JobState.FAILED
    await old.store.jobs.requeue([job_id])
    await old.drain()
    await assert_left(old, job_id)


async def test_a_limit_of_0_fails_it_at_once(old: Shop, new: Shop) -> None:
    job_id = await new.enqueue("greet", "Ann", "good day")
    await old.drain(unreadable_for=0)
    assert (await old.get(job_id)).state is JobState.FAILED


# Many of them, and many workers -------------------------------------------------------------


async def test_a_job_reaches_the_one_of_ten_workers_that_can_read_it(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process the same worker is the first to claim each time."""
    monkeypatch.setattr(misfits, "A_READER_LIVES", (0.05, 0.1))
    monkeypatch.setattr(misfits, "FLEET_SECONDS", 0.1)
    old, new = shop_of(live_store, old_greet), shop_of(live_store, new_greet)
    job_id = await new.enqueue("greet", "Ann", "good day")
    workers = [old.new_worker(lease=3.0, name=f"old-{n}") for n in range(9)]
    workers.append(new.new_worker(lease=3.0, name="new"))

    async def ended() -> bool:
        await live_store.jobs.promote_due(10)
        return (await new.get(job_id)).ended

    async with AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        await wait_until(ended, 60, "the new worker has run it")
    job = await new.get(job_id)
    assert (job.state, job.attempts) == (JobState.SUCCEEDED, 1)


async def test_hundreds_of_them_neither_hold_up_others_nor_keep_a_worker_busy(
    live_store: Store,
) -> None:
    shop = shop_of(live_store, old_greet)
    unread = [await shop.insert("greet", '{"greeting":"good day"}') for _ in range(300)]
    known = [await shop.enqueue("greet", "Ann") for _ in range(50)]
    async with shop.worker({"default": 10}) as worker:

        async def ended() -> bool:
            await live_store.jobs.promote_due(1_000)
            return all([(await shop.get(job_id)).ended for job_id in known])

        await wait_until(ended, 20, "the jobs that it can read end")
        fetcher, began = worker._running_pipeline.fetcher, worker._loop.time()
        before = fetcher.claimed

        async def two_seconds_passed() -> bool:
            await live_store.jobs.promote_due(1_000)
            return worker._loop.time() > began + 2

        await wait_until(two_seconds_passed, 10, "two seconds pass")
        claims = fetcher.claimed - before
    assert claims < 3 * 2 * misfits.A_SECOND, "a hot loop"
    jobs = [await shop.get(job_id) for job_id in unread]
    assert {job.attempts for job in jobs} == {0}
    assert not any(job.ended for job in jobs)


async def test_a_worker_that_runs_until_idle_does_not_wait_for_them(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if they are due again at once."""
    monkeypatch.setattr(misfits, "NO_READER_LIVES", (0.0, 0.0))
    monkeypatch.setattr(misfits, "A_SECOND", 1_000_000)
    shop = shop_of(live_store, old_greet)
    unread = [await shop.insert("greet", '{"greeting":"good day"}') for _ in range(20)]
    known = await shop.enqueue("greet", "Ann")
    await shop.drain()
    assert (await shop.get(known)).state is JobState.SUCCEEDED
    assert not any([(await shop.get(job_id)).ended for job_id in unread])


async def test_a_store_that_does_not_answer_leaves_them_all_the_same(
    old: Shop, new: Shop, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise OSError("away")

    monkeypatch.setattr(misfits, "notes", refuse)
    job_id = await new.enqueue("greet", "Ann", "good day")
    await old.drain()
    await assert_left(old, job_id)
    [event] = old.reported("worker.misfits_not_noted")
    assert event.fields["jobs"] == 1
    assert await notes(old.store, [job_id]) == {}


async def test_a_note_of_another_release_counts_as_none(old: Shop, new: Shop) -> None:
    job_id = await new.enqueue("greet", "Ann", "good day")
    await old.store.shelf.put(KIND, [Put(key=job_id, value='{"surprise":1}')])
    await old.drain()
    await assert_left(old, job_id)
    assert (await notes(old.store, [job_id]))[job_id].times == 1


async def test_a_job_in_a_child_process_is_left_too(store: Store) -> None:
    shop = Shop(store, refuse=handlers.refuse)
    job_id = await shop.insert("refuse", '{"gone":1}')
    await shop.drain(processes=1)
    await assert_left(shop, job_id)


async def test_a_cancel_is_obeyed_while_it_waits(old: Shop, new: Shop) -> None:
    job_id = await new.enqueue("greet", "Ann", "good day")
    await old.drain()
    client = Client(old.store)
    assert await client.cancel(job_id) is JobState.CANCELLED
    await client.aclose()


# What people see ----------------------------------------------------------------------------


async def test_explain_says_who_tried_and_when_it_fails(
    old: Shop, new: Shop, clock: ManualClock
) -> None:
    job_id = await new.enqueue("greet", "Ann", "good day")
    await old.drain(name="old-7")
    clock.advance(LIMIT / 3)
    reason = await misfit_of(old, job_id)
    assert "no live worker can read its arguments" in reason.fact
    assert "it takes no 'greeting'" in reason.fact
    assert "or the code that gives the arguments has a slip" in reason.fact
    assert re.search(r"tried: 'old-7' \(code [0-9a-f]{8}\)", reason.fact)
    assert "it fails in 10 min" in reason.fact
    assert reason.who is Who.DEVELOPER
    assert reason.advice.startswith("deploy a worker whose code takes them")
    assert reason.advice.endswith("to give it up before it fails")
    assert reason.action == Action(Noun.JOBS, Verb.CANCEL, job_id)

    await old.store.jobs.promote_due(10)
    ready = await misfit_of(old, job_id)
    assert (ready.advice, "it fails in 10 min" in ready.fact) == (reason.advice, True)
    await register(old.store, code="another", lease=LIMIT)
    hopeful = await misfit_of(old, job_id)
    assert "do not fit the workers that tried" in hopeful.fact
    assert "may read them: 'busy' (code another)" in hopeful.advice

    clock.advance(LIMIT + 1)
    assert "the next worker that claims the job" in (await misfit_of(old, job_id)).fact
    await new.drain()
    codes = [reason.code for reason in (await explain(new.store, await new.get(job_id))).reasons]
    assert codes == ["ended"]


async def test_explain_does_not_advise_to_run_it_now(old: Shop, new: Shop) -> None:
    """That would begin the time anew, and no worker could read the job any better."""
    job_id = await new.enqueue("greet", "Ann", "good day")
    await old.drain()
    found = await explain(old.store, await old.get(job_id))
    actions = {reason.code: reason.action for reason in found.reasons}
    assert actions["not-due"] is None
    assert [one.verb for one in actions.values() if one is not None] == [Verb.CANCEL]


async def misfit_of(shop: Shop, job_id: JobId) -> Reason:
    found = await explain(shop.store, await shop.get(job_id))
    [reason] = [one for one in found.reasons if one.code == "arguments-misfit"]
    return reason


async def test_a_job_that_sleeps_after_it_was_read_is_no_misfit(
    store: Store, clock: ManualClock
) -> None:
    async def naps(name: str, greeting: str) -> None:
        raise Snooze(60)

    old, napping = shop_of(store, old_greet), shop_of(store, naps)
    job_id = await napping.enqueue("greet", "Ann", "good day")
    await old.drain()
    clock.advance(10)
    await napping.drain()
    found = await explain(store, await old.get(job_id))
    assert [reason.code for reason in found.reasons] == ["not-due"]


async def test_doctor_and_the_alarm_tell_of_them(old: Shop, new: Shop, clock: ManualClock) -> None:
    job_id = await new.enqueue("greet", "Ann", "good day")
    await old.drain()
    [found] = await check_policies(old.store)
    assert (found.severity, job_id in found.saw) == (Severity.WARNING, True)

    seen = list[Event]()
    alarm = made(UnservedReconciler, old.store, seen)
    assert (await alarm.run_once()).found == 1
    [event] = [event for event in seen if event.name == "queue.unserved"]
    told = [event.fields[key] for key in ("queue", "task", "misfits", "jobs")]
    assert told == ["default", "greet", True, 1]
    clock.advance(10)
    await new.drain()
    assert (await alarm.run_once()).found == 0
    assert seen[-1].name == "queue.served"


async def test_a_harness_fails_it_at_once() -> None:
    app = App("postgres://nobody.invalid/nothing")

    @app.task
    async def greet(name: str) -> None: ...

    async with Harness(app) as harness:
        flow = app.flow("misfit")
        flow.add(greet, flow.add(app.task(number), 5).output)  # type: ignore[arg-type]
        await flow.start()
        with pytest.raises(DrainFailed, match="BadArguments"):
            await harness.drain()


async def number(given: int) -> int:
    return given
