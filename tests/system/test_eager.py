"""Eager jobs: what runs where it is enqueued, what is kept, and what is raised."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    App,
    BadArguments,
    BadOption,
    BadResult,
    Cancel,
    Context,
    Event,
    Fail,
    JobCancelled,
    JobFailed,
    JobState,
    PayloadTooLarge,
    ResultTimeout,
    Retry,
    Shared,
    Snooze,
    current_job,
)
from holdfast.events import ON_REQUEST

NOWHERE = "postgres://nobody@127.0.0.1:1/nothing"
"""No server is there: whatever touches the store fails."""


@pytest.fixture
def app() -> App:
    return App(NOWHERE, eager=True)


def test_a_plain_function_runs_in_the_callers_thread_through_the_codec(app: App) -> None:
    @app.task(tags=["a"], headers={"trace": "t"})
    def work(moment: timedelta, numbers: tuple[int, int]) -> tuple[int, int]:
        seen.append((threading.get_ident(), moment, numbers))
        return numbers

    seen: list[Any] = []
    handle = work.using(delay=3600, unique="once").enqueue_sync(timedelta(seconds=2), (1, 2))
    assert seen == [(threading.get_ident(), timedelta(seconds=2), (1, 2))]
    assert (handle.created, handle.result_sync()) == (True, (1, 2))
    job = handle.get_sync()
    assert (job.state, job.attempts, job.result) == (JobState.SUCCEEDED, 1, [1, 2])
    assert (job.args["numbers"], job.tags, job.headers) == ([1, 2], ("a",), {"trace": "t"})
    assert work.job(handle.id).result_sync() == (1, 2), "another request finds it"
    assert handle.cancel_sync() is JobState.SUCCEEDED
    with pytest.raises(BadArguments):
        work.enqueue_sync("soon", (1, 2))  # type: ignore[arg-type]


def test_a_coroutine_runs_without_a_loop_and_may_enqueue(app: App) -> None:
    @app.task()
    async def child(number: int) -> int:
        return number + 1

    @app.task()
    async def parent(ctx: Context, number: int) -> int:
        await ctx.progress(0.5, "half", checkpoint={"at": number})
        await ctx.progress(message="nearly")
        handle = await child.enqueue(number)
        return await handle.result(timeout=1) * 10

    handle = parent.enqueue_sync(1)
    assert handle.result_sync() == 20
    progress = handle.get_sync().progress
    assert progress is not None
    assert (progress.fraction, progress.message, progress.checkpoint) == (0.5, "nearly", {"at": 1})


async def test_a_program_with_a_loop_needs_no_store_either(app: App) -> None:
    @app.task()
    async def on_loop() -> bool:
        return asyncio.get_running_loop() is loop

    @app.task(process=True)
    def elsewhere(number: int) -> tuple[int, bool]:
        return number, threading.current_thread() is not threading.main_thread()

    loop = asyncio.get_running_loop()
    assert await (await on_loop.enqueue()).result() is True
    assert (await (await on_loop.enqueue()).get()).state is JobState.SUCCEEDED
    handles = await elsewhere.enqueue_many((n,) for n in range(3))
    assert [await handle.result() for handle in handles] == [(0, True), (1, True), (2, True)]
    assert [h.result_sync() for h in elsewhere.enqueue_many_sync([(7,)])] == [(7, False)]
    assert on_loop.enqueue_sync().result_sync() is False, "this loop cannot wait for itself"
    assert await (await elsewhere.enqueue_json('{"number":4}')).result() == (4, True)


def test_a_failure_is_raised_at_the_enqueue_after_one_attempt(app: App) -> None:
    @app.task(retry=Retry(max_attempts=5))
    def work(ctx: Context) -> None:
        seen.append((ctx.attempt, ctx.max_attempts))
        raise LookupError("gone")

    seen: list[Any] = []
    with pytest.raises(LookupError, match="gone"):
        work.enqueue_sync()
    assert seen == [(1, 1)]

    @app.task(retry=Retry(max_attempts=5))
    async def slow() -> None:
        await asyncio.sleep(60)

    with pytest.raises(TimeoutError, match=r"timed out after 0\.01 s"):
        slow.using(timeout=0.01).enqueue_sync()


def test_a_result_that_no_store_would_take_is_raised(app: App) -> None:
    @app.task()
    def strange() -> Any:
        return object()

    @app.task()
    def large() -> str:
        return "x" * 300_000

    with pytest.raises(BadResult):
        strange.enqueue_sync()
    with pytest.raises(PayloadTooLarge, match="the result"):
        large.enqueue_sync()
    assert large.using(keep_result=False).enqueue_sync().result_sync() is None


def test_without_raises_the_handle_tells() -> None:
    app = App(NOWHERE)

    @app.task()
    def work(how: str) -> None:
        match how:
            case "fail":
                raise Fail("never mind")
            case "cancel":
                raise Cancel("not wanted")
            case "snooze":
                raise Snooze(60)

    with app.eager(raises=False):
        failed = work.enqueue_sync("fail")
    with app.eager():
        cancelled, snoozed = work.enqueue_sync("cancel"), work.enqueue_sync("snooze")
        with pytest.raises(Fail):
            work.enqueue_sync("fail")
    with pytest.raises(JobFailed, match="never mind"):
        failed.result_sync()
    assert "never mind" in (failed.get_sync().errors[0].traceback or "")
    with pytest.raises(JobCancelled, match="not wanted"):
        cancelled.result_sync()
    with pytest.raises(ResultTimeout, match="still scheduled"):
        snoozed.result_sync()
    assert snoozed.get_sync().due_at is not None


def test_the_switch_ends_with_its_block(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'real.db'}")

    @app.task()
    def work() -> None: ...

    with app.eager():
        assert work.enqueue_sync().get_sync().state is JobState.SUCCEEDED
    assert work.enqueue_sync().get_sync().state is JobState.READY
    assert app.sync.count() == {JobState.READY: 1}
    app.close_sync()


def test_eager_jobs_are_warned_of_once(app: App) -> None:
    events: list[Event] = []
    app.events.subscribe(events.append)

    @app.task()
    def work() -> None: ...

    work.enqueue_many_sync([(), ()])
    app.worker()
    assert [(event.name, event.level) for event in events] == [("program.eager", 30)]


SWITCHED = """
from holdfast import App

app = App("postgres://nobody@127.0.0.1:1/nothing")

@app.task()
def work() -> str:
    return "ran"

print(work.enqueue_sync().result_sync())
"""


@pytest.mark.parametrize(("value", "said"), [("1", "ran"), ("true", "ran"), ("maybe", "BadOption")])
def test_the_environment_can_switch_it_on(value: str, said: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SWITCHED],
        env={"HOLDFAST_EAGER": value, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert said in ran.stdout + ran.stderr


def test_the_switch_is_a_flag() -> None:
    with pytest.raises(BadOption, match="eager must be True or False"):
        App("sqlite://", eager="sometimes")  # type: ignore[arg-type]


# What lies around ---------------------------------------------------------------------------


@asynccontextmanager
async def pool() -> AsyncIterator[str]:
    HAPPENED.append("pool opened")
    yield "a connection"
    HAPPENED.append("pool closed")


HAPPENED: list[str] = []


@pytest.mark.parametrize("way", ["sync", "async"])
def test_resources_and_hooks_lie_around_an_eager_job(way: str, app: App) -> None:
    HAPPENED.clear()

    @app.task
    def work(number: int, db: str = Shared(pool)) -> str:
        job = current_job()
        HAPPENED.append(f"ran {number} with {db}")
        return "" if job is None else job.headers["tenant"]

    @app.around_attempt
    async def around(ctx: Context, run: Callable[[], Awaitable[Any]]) -> Any:
        HAPPENED.append("before")
        try:
            return await run()
        finally:
            HAPPENED.append("after")

    @app.on_enqueue
    def headers(task: str) -> dict[str, str]:
        return {"tenant": "acme"}

    handle = work.enqueue_sync(1) if way == "sync" else asyncio.run(work.enqueue(1))
    assert handle.result_sync() == "acme"
    ran = ["before", "ran 1 with a connection", "after"]
    assert ["pool opened", *ran, "pool closed"] == HAPPENED


def test_a_plain_function_with_hooks_in_its_thread_has_no_loop_around_it(app: App) -> None:
    @app.task
    def work() -> bool:
        return asyncio._get_running_loop() is None

    @app.in_thread
    def around(ctx: Context, run: Callable[[], Any]) -> Any:
        threads.append(threading.get_ident())
        return run()

    threads: list[int] = []
    assert work.enqueue_sync().result_sync() is True
    assert threads == [threading.get_ident()]


def test_resources_can_be_given_in_place_of_what_functions_make(app: App) -> None:
    def server() -> str:
        raise AssertionError("a test must not reach it")

    def other() -> str:
        raise AssertionError("a test must not reach it")

    @app.task()
    def fetch(page: str, of: str = Shared(server)) -> str:
        return f"{page} of {of}"

    @app.task()
    def unrelated(of: str = Shared(other)) -> str:
        return of

    with app.eager(resources={server: "a fake", other: "another"}):
        assert fetch.enqueue_sync("home").result_sync() == "home of a fake"
    with app.eager(resources={print: 1}), pytest.raises(BadOption, match="resources"):
        fetch.enqueue_sync("home")


async def test_an_eager_job_tells_the_events_that_a_worker_tells(app: App) -> None:
    @app.task(queue="mail", retry=5)
    def plain() -> None: ...

    @app.task
    async def snoozes() -> None:
        raise Snooze(60)

    @app.task(retry=5)
    async def fails() -> None:
        raise boom

    boom = ValueError("boom")
    heard: list[Event] = []
    app.events.subscribe(heard.append, *ON_REQUEST, "job.attempt_failed")
    with app.eager(raises=False):
        first = plain.enqueue_sync()
        await snoozes.enqueue()
        await fails.enqueue()
    assert [(event.name, event.fields["task"]) for event in heard] == [
        ("job.started", plain.name),
        ("job.succeeded", plain.name),
        ("job.started", snoozes.name),
        ("job.snoozed", snoozes.name),
        ("job.started", fails.name),
        ("job.attempt_failed", fails.name),
        ("job.failed", fails.name),
    ]
    facts = {"job_id": first.id, "task": plain.name, "queue": "mail", "attempt": 1}
    facts |= {"max_attempts": 1, "fence": 1, "worker": None}
    assert heard[0].fields == facts
    assert heard[1].fields.keys() == {*facts, "seconds", "reason"}
    failed = heard[-1].fields
    assert (failed["exception"], failed["error"], failed["message"]) == (boom, "ValueError", "boom")
