"""Every way an attempt can end, seen from the job's record."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.context import Context
from holdfast.handlers.registry import Handler
from holdfast.job.ends import Fail, Snooze, Suspend, Throttled
from holdfast.job.policy import Policy, decode_policy
from holdfast.job.record import Job
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.worker.executor import Executor
from tests.support import process_handlers as handlers
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import wait_until
from tests.support.working import ONCE, QUICK, Shop

SLOW_RETRY = Policy(retry=Retry(max_attempts=5, base=600))


async def end_of(shop: Shop, name: str, policy: Policy = QUICK) -> Job:
    job_id = await shop.enqueue(name, policy=policy)
    await shop.drain()
    return await shop.get(job_id)


async def test_a_returned_value_is_kept_as_the_result(live_store: Store) -> None:
    async def double(n: int) -> int:
        return n * 2

    shop = Shop(live_store, double)
    job_id = await shop.enqueue(double, 21)
    assert await shop.drain() == 1
    job = await shop.get(job_id)
    assert (job.state, job.result, job.attempts) == (JobState.SUCCEEDED, 42, 1)


async def test_a_result_nobody_wants_is_neither_encoded_nor_kept(live_store: Store) -> None:
    async def odd() -> None:
        return object()  # type: ignore[return-value]

    job = await end_of(Shop(live_store, odd), "odd", Policy(keep_result=False))
    assert (job.state, job.result) == (JobState.SUCCEEDED, None)


async def test_an_exception_is_retried_until_attempts_are_spent(live_store: Store) -> None:
    async def fail() -> None:
        raise ValueError("no such luck")

    job = await end_of(Shop(live_store, fail), "fail")
    assert (job.state, job.attempts) == (JobState.FAILED, 3)
    assert [(e.attempt, e.kind, e.message) for e in job.errors] == [
        (n, "ValueError", "no such luck") for n in (1, 2, 3)
    ]
    assert "raise ValueError" in (job.errors[0].traceback or "")


async def test_a_retry_after_hint_of_the_exception_is_honoured(live_store: Store) -> None:
    class Busy(Exception):
        retry_after = 1234.0

    async def busy() -> None:
        raise Busy

    job = await end_of(Shop(live_store, busy), "busy")
    assert job.state is JobState.SCHEDULED
    assert job.due_at is not None
    assert 1200 < (job.due_at - job.created_at).total_seconds() < 1300


def off_loop(shop: Shop, mode: str, *functions: Callable[..., Any]) -> None:
    """Register plain functions to run in threads or in child processes."""
    for function in functions:
        process = mode == "process"
        shop.registry.add(Handler.of(function.__name__, function, process=process))


@pytest.mark.parametrize("mode", ["thread", "process"])
async def test_only_the_named_exceptions_are_tried_again(live_store: Store, mode: str) -> None:
    shop = Shop(live_store)
    off_loop(shop, mode, handlers.picky)
    named = f"{handlers.__name__}.Picky"
    kept = await end_of(shop, "picky", Policy(retry=Retry(3, base=0, on=(handlers.Picky,))))
    assert (kept.state, kept.attempts) == (JobState.FAILED, 3)
    other = await end_of(shop, "picky", Policy(retry=Retry(3, base=0, on=(OSError,))))
    assert (other.state, other.attempts) == (JobState.FAILED, 1)
    spared = await end_of(shop, "picky", Policy(retry=Retry(3, base=0, not_on=(named,))))
    assert (spared.state, spared.attempts) == (JobState.FAILED, 1)


@pytest.mark.parametrize("mode", ["thread", "process"])
async def test_a_handler_ends_its_own_job_as_cancelled(live_store: Store, mode: str) -> None:
    shop = Shop(live_store)
    off_loop(shop, mode, handlers.withdraw)
    job = await end_of(shop, "withdraw")
    assert (job.state, job.reason) == (JobState.CANCELLED, "the order was withdrawn")
    assert (job.attempts, job.errors) == (0, ())


@pytest.mark.parametrize("mode", ["thread", "process"])
async def test_a_handler_names_the_time_of_its_next_run(live_store: Store, mode: str) -> None:
    shop = Shop(live_store)
    off_loop(shop, mode, handlers.tomorrow)
    never = Policy(retry=Retry(2, base=0, on=(KeyError,)))
    for counted in (True, False):
        job_id = await shop.enqueue("tomorrow", counted, policy=never)
        await shop.drain()
        job = await shop.get(job_id)
        assert (job.state, job.due_at) == (JobState.SCHEDULED, handlers.TOMORROW)
        assert job.attempts == int(counted)


async def test_fail_ends_the_job_whatever_attempts_are_left(live_store: Store) -> None:
    async def give_up() -> None:
        raise Fail("wrong address")

    job = await end_of(Shop(live_store, give_up), "give_up")
    assert (job.state, job.attempts, job.reason) == (JobState.FAILED, 1, "wrong address")


@pytest.mark.parametrize(
    ("wish", "state"),
    [
        (Snooze(3600), JobState.SCHEDULED),
        (Throttled(3600), JobState.SCHEDULED),
        (Suspend(), JobState.SUSPENDED),
    ],
    ids=["snooze", "throttled", "suspend"],
)
async def test_a_handlers_wish_to_wait_spends_no_attempt(
    live_store: Store, wish: Exception, state: JobState
) -> None:
    async def wait() -> None:
        raise wish

    job = await end_of(Shop(live_store, wait), "wait")
    assert (job.state, job.attempts) == (state, 0)


async def test_a_throttle_cools_the_whole_queue(live_store: Store) -> None:
    async def wait() -> None:
        raise Throttled(3600)

    shop = Shop(live_store, wait)
    await end_of(shop, "wait")
    [queue] = await live_store.queues.find(["default"])
    assert queue.cooling_for is not None
    assert queue.cooling_for > 3000


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, BaseException])
async def test_no_exception_of_a_handler_ends_the_worker(
    live_store: Store, kind: type[BaseException]
) -> None:
    async def exit_loop() -> None:
        if kind is SystemExit:
            sys.exit("the handler leaves")
        raise kind("the handler leaves")

    def exit_thread() -> None:
        raise kind("the handler leaves")

    async def fine() -> int:
        return 1

    shop = Shop(live_store, exit_loop, exit_thread, fine)
    bad = [await shop.enqueue(name, policy=ONCE) for name in ("exit_loop", "exit_thread")]
    good = await shop.enqueue(fine)
    await shop.drain()
    for job_id in bad:
        job = await shop.get(job_id)
        assert (job.state, job.errors[0].kind) == (JobState.FAILED, kind.__name__)
    assert (await shop.get(good)).state is JobState.SUCCEEDED


async def test_a_group_of_exceptions_is_one_failure(live_store: Store) -> None:
    async def several() -> None:
        raise BaseExceptionGroup("two", [ValueError("a"), KeyboardInterrupt("b")])

    job = await end_of(Shop(live_store, several), "several", ONCE)
    assert job.errors[0].kind == "BaseExceptionGroup"


async def test_an_exception_whose_text_cannot_be_made_is_still_an_end(live_store: Store) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    async def fail() -> None:
        raise Broken

    job = await end_of(Shop(live_store, fail), "fail", ONCE)
    assert job.state is JobState.FAILED
    assert "cannot be shown" in job.errors[0].message


async def test_a_cancellation_that_leaks_from_a_handler_is_a_failure_of_it(
    live_store: Store,
) -> None:
    async def leak() -> None:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner

    shop = Shop(live_store, leak)
    job = await end_of(shop, "leak", ONCE)
    assert (job.state, job.errors[0].kind) == (JobState.FAILED, "CancelledError")


async def test_a_handler_that_cancels_its_own_task_fails_and_is_not_stuck(
    live_store: Store,
) -> None:
    async def quit_midway() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    async with asyncio.timeout(10):
        job = await end_of(Shop(live_store, quit_midway), "quit_midway", ONCE)
    assert (job.state, job.errors[0].kind) == (JobState.FAILED, "CancelledError")


async def test_an_exception_whose_hint_cannot_be_read_is_still_an_end(live_store: Store) -> None:
    class Odd(Exception):
        @property
        def retry_after(self) -> float:
            raise KeyError("no such header")

    async def odd() -> None:
        raise Odd("slow down")

    async with asyncio.timeout(10):
        job = await end_of(Shop(live_store, odd), "odd", ONCE)
    assert (job.state, job.errors[0].message) == (JobState.FAILED, "slow down")


async def test_a_defect_between_a_handler_and_its_end_is_shown_on_the_job(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fine() -> None: ...

    async def broken(*_: object) -> None:
        raise RuntimeError("a defect of ours")

    monkeypatch.setattr(Executor, "run", broken)
    async with asyncio.timeout(10):
        job = await end_of(Shop(live_store, fine), "fine")
    assert job.state is JobState.FAILED
    assert "a defect of ours" in (job.reason or "")


async def test_a_throttle_takes_the_text_of_a_header(live_store: Store) -> None:
    async def busy() -> None:
        raise Throttled("30")

    job = await end_of(Shop(live_store, busy), "busy")
    assert (job.state, job.attempts) == (JobState.SCHEDULED, 0)


async def test_an_attempt_that_waited_for_a_thread_until_its_time_was_up_is_not_spent(
    live_store: Store,
) -> None:
    line, release = Line(), threading.Event()

    def hold() -> None:
        release.wait(30)

    def quick() -> int:
        return 1

    shop = Shop(FlakyStore(live_store, line), hold, quick)
    await shop.enqueue(hold)
    waits = await shop.enqueue(quick, policy=Policy(retry=Retry.never(), timeout=0.4))
    async with shop.worker(threads=1) as worker:
        await wait_until(lambda: "finish" in line.calls, 10, "its time is up")
        release.set()
        await worker.drain()
    job = await shop.get(waits)
    assert (job.state, job.attempts, job.errors) == (JobState.SUCCEEDED, 1, ())
    assert job.fence > 1


async def test_a_progress_message_that_a_database_refuses_is_made_fit(live_store: Store) -> None:
    async def tell(ctx: Context) -> None:
        await ctx.progress(0.5, "half\x00way \ud800")

    job = await end_of(Shop(live_store, tell), "tell", ONCE)
    assert job.state is JobState.SUCCEEDED
    assert job.progress is not None
    assert job.progress.message == "half\ufffdway ?"


async def test_arguments_that_no_worker_can_read_fail_for_good_with_the_parameters_name(
    live_store: Store,
) -> None:
    async def greet(name: str) -> None: ...

    shop = Shop(live_store, greet)
    job_id = await shop.insert("greet", '{"title":"x"}')
    await shop.drain(unreadable_for=0)
    job = await shop.get(job_id)
    assert (job.state, job.attempts, job.crashes) == (JobState.FAILED, 1, 0)
    assert job.errors[0].kind == "BadArguments"
    assert "'title'" in job.errors[0].message


async def test_an_oversized_result_fails_once_and_never_runs_again(live_store: Store) -> None:
    runs = []

    async def big() -> str:
        runs.append(1)
        return "ä" * 200_000

    job = await end_of(Shop(live_store, big), "big")
    assert (job.state, len(runs)) == (JobState.FAILED, 1)
    assert "400002 bytes" in (job.reason or "")


async def test_a_result_that_json_cannot_carry_fails_once(live_store: Store) -> None:
    runs = []

    async def odd() -> None:
        runs.append(1)
        return object()  # type: ignore[return-value]

    job = await end_of(Shop(live_store, odd), "odd")
    assert (job.state, job.errors[0].kind, len(runs)) == (JobState.FAILED, "BadResult", 1)


async def test_text_that_a_database_refuses_still_ends_the_job(live_store: Store) -> None:
    async def fail() -> None:
        raise ValueError("nul \x00 and a lone \ud800")

    job = await end_of(Shop(live_store, fail), "fail", ONCE)
    assert job.state is JobState.FAILED


async def test_a_job_whose_policy_cannot_be_read_is_left_and_not_ended(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fine() -> None: ...

    def refuse(text: str) -> Policy:
        policy = decode_policy(text)
        if policy.max_crashes == 1:
            raise ValueError("unreadable policy")
        return policy

    shop = Shop(live_store, fine)
    job_id = await shop.enqueue(fine, policy=Policy(max_crashes=1))
    after = await shop.enqueue(fine)
    monkeypatch.setattr("holdfast.worker.attempt.decode_policy", refuse)
    await shop.drain()
    job = await shop.get(job_id)
    assert (job.state, job.attempts) == (JobState.SCHEDULED, 0)
    assert "unreadable policy" in (job.reason or "")
    assert (await shop.get(after)).state is JobState.SUCCEEDED


async def test_unknown_tasks_are_left_alone(live_store: Store) -> None:
    async def fine() -> None: ...

    shop = Shop(live_store, fine)
    stranger = await shop.insert("stranger", "{}")
    known = await shop.enqueue(fine)
    assert await shop.drain() == 1
    assert (await shop.get(stranger)).state is JobState.READY
    assert (await shop.get(known)).state is JobState.SUCCEEDED


async def test_a_deadline_passes_while_the_handler_runs(live_store: Store) -> None:
    stopped = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(1)
            raise

    shop = Shop(live_store, slow)
    job_id = await shop.enqueue(slow, deadline_in=0.3)
    await shop.drain()
    assert (await shop.get(job_id)).state is JobState.EXPIRED
    assert stopped == [1]


async def test_a_job_past_its_deadline_expires_without_being_run(live_store: Store) -> None:
    ran = []

    async def late() -> None:
        ran.append(1)

    shop = Shop(live_store, late)
    past = await live_store.now() - timedelta(seconds=1)
    job_id = await shop.enqueue(late, deadline_at=past)
    await shop.drain()
    assert (await shop.get(job_id)).state is JobState.EXPIRED
    assert ran == []


async def test_a_job_that_is_claimed_too_late_to_start_does_not_begin(live_store: Store) -> None:
    ran: list[str] = []

    async def work() -> None:
        ran.append("work")

    shop = Shop(live_store, work)
    policy = Policy(retry=Retry.never(), start_only=True)
    job_id = await shop.enqueue(work, policy=policy, deadline_at=datetime(2000, 1, 1, tzinfo=UTC))
    await shop.drain()
    job = await shop.get(job_id)
    assert (job.state, job.reason, ran) == (JobState.EXPIRED, "not started in time", [])


async def test_progress_and_checkpoint_survive_to_the_next_attempt(live_store: Store) -> None:
    saw: list[object] = []

    async def step(ctx: Context) -> None:
        saw.append(ctx.checkpoint)
        await ctx.progress(ctx.attempt / 3, f"attempt {ctx.attempt}", checkpoint={"n": ctx.attempt})
        if ctx.attempt < (ctx.max_attempts or 0):
            raise ValueError("again")

    def step_sync(ctx: Context) -> None:
        saw.append(ctx.checkpoint)
        ctx.progress_sync(checkpoint=[ctx.attempt])
        if ctx.attempt < (ctx.max_attempts or 0):
            raise ValueError("again")

    shop = Shop(live_store, step, step_sync)
    job = await end_of(shop, "step")
    assert saw == [None, {"n": 1}, {"n": 2}]
    assert job.progress is not None
    assert job.progress.message == "attempt 3"
    saw.clear()
    assert (await end_of(shop, "step_sync")).state is JobState.SUCCEEDED
    assert saw == [None, [1], [2]]


async def test_a_delayed_job_that_is_due_is_drained_too(live_store: Store) -> None:
    async def fine() -> None: ...

    shop = Shop(live_store, fine)
    due = await shop.enqueue(fine, delay=0.0)
    later = await shop.enqueue(fine, delay=3600)
    assert await shop.drain() == 1
    assert (await shop.get(due)).state is JobState.SUCCEEDED
    assert (await shop.get(later)).state is JobState.SCHEDULED


async def test_a_job_that_fails_elsewhere_while_a_burst_looks_is_drained_too(
    live_store: Store,
) -> None:
    """It runs while the burst promotes what is due, and is due again when the burst counts what is
    ready or running."""
    release, runs = asyncio.Event(), 0

    async def fails_once() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            await release.wait()
            raise ValueError("again")

    async def fail_now() -> None:
        release.set()
        await elsewhere.until(job_id, lambda job: job.state is JobState.SCHEDULED)

    line = Line()
    elsewhere, here = Shop(live_store, fails_once), Shop(FlakyStore(live_store, line), fails_once)
    job_id = await elsewhere.enqueue(fails_once)
    async with elsewhere.worker():
        await elsewhere.until(job_id, lambda job: job.state is JobState.RUNNING)
        line.first["count"] = fail_now
        await here.drain()
        assert (await here.get(job_id)).state is JobState.SUCCEEDED
