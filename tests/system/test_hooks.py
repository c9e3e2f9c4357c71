"""Hooks of an app: around attempts, inside threads and child processes, and on enqueue."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast import (
    App,
    BadArguments,
    BadOption,
    BadTask,
    ChildRaised,
    Context,
    Depends,
    Enqueue,
    Fail,
    JobFailed,
    JobState,
    Retry,
    Snooze,
    current_job,
)
from holdfast.handlers import processes
from holdfast.testing import Harness
from tests.support import hooked

Run = Callable[[], Awaitable[Any]]
ONCE = Retry.never()


@pytest.fixture
def app() -> App:
    return App("sqlite://")


async def run(app: App) -> None:
    async with app.worker({"default": 4}) as worker:
        await worker.drain()


async def test_hooks_lie_around_every_kind_of_handler_in_the_order_of_registration(
    app: App,
) -> None:
    seen: list[str] = []

    def hook(name: str) -> Any:
        async def around(ctx: Context, run: Run) -> Any:
            seen.append(f"{ctx.job.task} > {name}")
            result = await run()
            seen.append(f"{ctx.job.task} < {name}")
            return result

        return app.around_attempt(around)

    hook("outer")
    hook("inner")

    async def resource() -> str:
        seen.append("resource")
        return "resource"

    @app.task(name="loop")
    async def on_the_loop(it: str = Depends(resource)) -> str:
        return it

    thread = app.task(name="thread")(hooked.named_job)
    process = app.task(name="process", process=True)(hooked.named_job)
    async with app:
        for task, result in (
            (on_the_loop, "resource"),
            (thread, "thread 1"),
            (process, "process 1"),
        ):
            seen.clear()
            job = await task.enqueue()
            await run(app)
            assert await job.result() == result
            inside = ["resource"] if task is on_the_loop else []
            assert seen == [
                *(f"{task.name} > outer", f"{task.name} > inner", *inside),
                *(f"{task.name} < inner", f"{task.name} < outer"),
            ]


async def test_a_hook_sees_and_replaces_results_and_exceptions(app: App) -> None:
    @app.around_attempt
    async def replacing(ctx: Context, run: Run) -> Any:
        try:
            return f"{await run()}!"
        except ValueError as error:
            return f"mended {error}"
        except KeyError as error:
            raise Fail("no such key") from error
        except ChildRaised as error:
            return f"child: {error.kind} {error.message}"

    @app.task()
    async def fine() -> str:
        return "fine"

    @app.task()
    def wrong() -> str:
        raise ValueError("it")

    @app.task()
    async def keyless() -> str:
        raise KeyError("x")

    child = app.task(process=True)(hooked.refusing)
    async with app:
        jobs = [await task.enqueue() for task in (fine, wrong, child)]
        failing = await keyless.enqueue()
        await run(app)
        results: list[object] = [await job.result() for job in jobs]
        assert results == ["fine!", "mended it", "child: Fail not today"]
        assert (await failing.get()).attempts == 1  # Fail ends it at once
        with pytest.raises(JobFailed, match="no such key"):
            await failing.result()


async def test_what_a_child_raised_passes_through_a_hook_unchanged(app: App) -> None:
    @app.around_attempt
    async def watching(ctx: Context, run: Run) -> Any:
        return await run()

    child = app.task(process=True)(hooked.refusing)
    async with app:
        job = await child.enqueue()
        await run(app)
        [entry] = (await job.get()).errors
    assert (entry.kind, entry.message) == ("Fail", "not today")
    assert "refusing" in (entry.traceback or "")


async def test_a_hook_may_put_the_job_off(app: App) -> None:
    @app.around_attempt
    async def not_at_night(ctx: Context, run: Run) -> Any:
        raise Snooze(3600)

    @app.task()
    async def work() -> None:
        pytest.fail("it ran")

    async with app:
        job = await work.enqueue()
        await run(app)
        found = await job.get()
        assert (found.state, found.attempts) == (JobState.SCHEDULED, 0)


async def test_a_hook_that_hangs_is_stopped_with_its_attempt(app: App) -> None:
    left: list[str] = []

    @app.around_attempt
    async def hanging(ctx: Context, run: Run) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            left.append("left")

    plain = app.task(name="plain", retry=ONCE, timeout=0.05)(hooked.named_job)
    async with app:
        job = await plain.enqueue()
        await run(app)
        assert [entry.kind for entry in (await job.get()).errors] == ["TimedOut"]
    assert left == ["left"]


async def test_a_hook_in_threads_runs_beside_the_function(app: App) -> None:
    local = threading.local()

    @app.in_thread
    def connected(ctx: Context, run: Callable[[], Any]) -> Any:
        local.connection = f"connection of {ctx.job.task}"
        try:
            return run()
        finally:
            del local.connection

    @app.task(name="plain")
    def plain() -> str:
        return str(local.connection)

    @app.task()
    async def on_the_loop() -> bool:
        return hasattr(local, "connection")

    async with app:
        one, two = await plain.enqueue(), await on_the_loop.enqueue()
        await run(app)
        assert await one.result() == "connection of plain"
        assert await two.result() is False


async def test_a_hook_in_threads_runs_in_child_processes_too(app: App) -> None:
    app.in_thread(hooked.told_in_process)
    child = app.task(name="child", process=True)(hooked.named_job)
    async with app:
        job = await child.enqueue()
        await run(app)
        result = await job.result()
    assert result.startswith("child 1 in a hook of attempt 1 in ")
    assert not result.endswith(str(os.getpid()))


async def test_a_hook_that_no_child_can_import_is_refused_at_the_start(app: App) -> None:
    @app.in_thread
    def local(ctx: Context, run: Callable[[], Any]) -> Any:
        return run()

    app.task(name="child", process=True)(hooked.named_job)
    async with app:
        with pytest.raises(BadTask, match="task 'child': process=True needs a hook in threads"):
            async with app.worker():
                pytest.fail("it started")


async def test_a_hook_hands_on_to_a_child_what_only_its_worker_knows(app: App) -> None:
    tenant: ContextVar[str] = ContextVar("tenant")

    @app.around_attempt
    async def for_tenant(ctx: Context, run: Run) -> Any:
        tenant.set("acme")
        return await run()

    @app.to_child
    def carry(ctx: Context) -> Mapping[str, str]:
        return {"tenant": tenant.get(), "task": ctx.job.task}

    child = app.task(name="child", process=True)(hooked.telling_what_was_carried)
    thread = app.task(name="thread")(hooked.telling_what_was_carried)
    async with app:
        jobs = await child.enqueue(), await thread.enqueue()
        await run(app)
        assert await jobs[0].result() == {"tenant": "acme", "task": "child"}
        assert await jobs[1].result() == {}


async def test_what_a_hook_hands_to_a_child_must_be_text(app: App) -> None:
    answers: list[Any] = [None, {"n": 1}]

    @app.to_child
    def nonsense(ctx: Context) -> Mapping[str, str]:
        found: Mapping[str, str] = answers.pop(0)
        return found

    child = app.task(process=True, retry=ONCE)(hooked.named_job)
    async with app:
        jobs = [await child.enqueue(), await child.enqueue()]
        async with app.worker({"default": 1}) as worker:
            await worker.drain()
        said = [(await job.get()).errors[0].message for job in jobs]
    assert "nonsense' answers must be a mapping of text to text, got None" in said[0]
    assert said[1].startswith("what hooks hand to a child must be a mapping of text to text, got")


async def test_an_idle_child_leaves_by_itself_so_that_its_libraries_can_say_goodbye(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LEAVING_SECONDS", 30.0)
    child = app.task(process=True)(hooked.writing_at_exit)
    async with app:
        await child.enqueue(str(tmp_path / "goodbye"))
        await run(app)
    assert (tmp_path / "goodbye").read_text() == "left by itself"


async def test_a_child_that_does_not_leave_is_killed(app: App) -> None:
    child = app.task(process=True)(hooked.hanging_at_exit)
    async with app:
        job = await child.enqueue()
        await run(app)
        assert not psutil.pid_exists(await job.result())


@pytest.mark.parametrize("why", ["timeout", "cancel", "hand_back"])
async def test_a_hook_is_told_why_its_attempt_must_stop(app: App, why: str) -> None:
    begun, told = asyncio.Event(), list[str | None]()

    @app.around_attempt
    async def asking(ctx: Context, run: Run) -> Any:
        told.append(ctx.stop_reason)
        try:
            return await run()
        except asyncio.CancelledError:
            told.append(ctx.stop_reason)
            raise

    @app.task(retry=ONCE)
    async def work() -> None:
        begun.set()
        await asyncio.sleep(60)

    async with app:
        job = await work.using(timeout=0.05 if why == "timeout" else None).enqueue()
        async with app.worker(grace=0.0) as worker:
            await begun.wait()
            if why == "cancel":
                await job.cancel()
            if why != "hand_back":
                await worker.drain()
    assert told == [None, why]


async def test_hooks_on_enqueue_fill_headers_on_every_way_in(app: App) -> None:
    tenant = "acme"

    @app.on_enqueue
    def carry(task: str) -> Mapping[str, str]:
        return {"tenant": tenant, "task": task}

    @app.on_enqueue
    def more(task: str) -> Mapping[str, str]:
        return {"request": "r-1"}

    @app.task(name="work", headers={"tenant": "explicit"})
    async def work(ctx: Context) -> dict[str, Any]:
        return dict(ctx.job.headers)

    @app.task(name="plain")
    async def plain(ctx: Context) -> dict[str, Any]:
        return dict(ctx.job.headers)

    given = {"tenant": "acme", "task": "plain", "request": "r-1"}
    async with app:
        jobs = [await plain.enqueue(), *await plain.enqueue_many([(), ()])]
        jobs.append(await plain.enqueue_json("{}"))
        jobs.append(plain.job((await app.task_named("plain").enqueue()).id))
        own = await work.enqueue()
        await run(app)
        assert [await job.result() for job in jobs] == [given] * 5
        assert await own.result() == {"tenant": "explicit", "task": "work", "request": "r-1"}


async def test_hooks_on_enqueue_reach_sync_calls_and_transactions(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    app.on_enqueue(lambda task: {"tenant": "acme"})

    @app.task()
    async def work(ctx: Context) -> str:
        return str(ctx.job.headers["tenant"])

    sync = await asyncio.to_thread(work.enqueue_sync)
    [many] = await asyncio.to_thread(work.enqueue_many_sync, [()])
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        within = work.using(connection=connection).enqueue_sync()
    connection.close()
    async with app:
        await run(app)
        assert [await job.result() for job in (sync, many, within)] == ["acme"] * 3
    await asyncio.to_thread(app.close_sync)


async def test_a_job_that_a_schedule_starts_has_no_caller_and_no_hook(app: App) -> None:
    app.on_enqueue(lambda task: {"tenant": "acme"})

    @app.schedule("* * * * *")
    @app.task()
    async def work(ctx: Context) -> None: ...

    async with Harness(app) as harness:
        await harness.advance(minutes=1)
        job = await harness.assert_enqueued(work)
        assert "tenant" not in (job.headers or {})
        assert "holdfast-schedule" in (job.headers or {})


def test_a_hook_on_enqueue_that_raises_or_answers_nonsense_is_the_callers_error(app: App) -> None:
    answers: list[Any] = [None, {"n": 1}, {"n": "\ud800"}]

    @app.on_enqueue
    def nonsense(task: str) -> Mapping[str, str]:
        if not answers:
            raise LookupError("no tenant")
        found: Mapping[str, str] = answers.pop(0)
        return found

    @app.task()
    async def work() -> None: ...

    with pytest.raises(BadOption, match="nonsense' answers must be headers as a mapping, got None"):
        work.enqueue_sync()
    with pytest.raises(BadOption, match="a mapping of text to text"):
        work.enqueue_sync()
    with pytest.raises(BadOption, match="text that UTF-8 can carry"):
        work.enqueue_sync()
    with pytest.raises(LookupError, match="no tenant"):
        work.enqueue_sync()


async def test_hooks_around_an_enqueue_lie_around_every_way_in(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    seen: list[str] = []

    @app.around_enqueue
    def outer(enqueue: Enqueue) -> Iterator[None]:
        seen.append("outer")
        enqueue.give_headers(lambda job_id, headers: {"from": "outer", "job": job_id})
        yield
        kind = "many" if enqueue.is_bulk else "one"
        created = [one.how for one in enqueue.inserted]
        seen.append(f"{enqueue.task} in {enqueue.queue}: {kind}, {enqueue.sent}, {created}")

    @app.around_enqueue
    @contextmanager
    def inner(enqueue: Enqueue) -> Iterator[None]:
        seen.append("inner")
        yield

    @app.task(name="work", queue="slow")
    async def work(ctx: Context) -> dict[str, Any]:
        return dict(ctx.job.headers)

    one, two = "work in slow: one, 1, ['created']", "work in slow: many, 2, ['created', 'created']"
    async with app:
        jobs = [await work.enqueue()]
        assert seen == ["outer", "inner", one]
        jobs += await work.enqueue_many([(), ()])
        jobs.append(await work.enqueue_json("{}"))
        jobs.append(await asyncio.to_thread(work.enqueue_sync))
        jobs += await asyncio.to_thread(work.enqueue_many_sync, [(), ()])
    with sqlite3.connect(tmp_path / "jobs.db") as connection, app.within(connection):
        jobs.append(work.enqueue_sync())
        jobs += work.enqueue_many_sync([(), ()])
    connection.close()
    assert [line for line in seen if ":" in line] == [one, two, one, one, two, one, two]
    async with app:
        async with app.worker({"slow": 4}) as worker:
            await worker.drain()
        for job in jobs:
            assert await job.result() == {"from": "outer", "job": job.id}
        with app.eager():
            eager = [await work.enqueue(), *await work.enqueue_many([()])]
            assert [(await job.result())["job"] for job in eager] == [job.id for job in eager]
    assert len([line for line in seen if ":" in line]) == 9


async def test_a_hook_around_an_enqueue_sees_and_keeps_the_callers_headers(app: App) -> None:
    app.on_enqueue(lambda task: {"tenant": "acme"})
    known: list[Mapping[str, str]] = []

    @app.around_enqueue
    def giving(enqueue: Enqueue) -> Iterator[None]:
        known.append(enqueue.headers)
        enqueue.give_headers(lambda job_id, headers: {"seen": ",".join(headers), "own": "lost"})
        yield

    @app.task(headers={"own": "kept"})
    async def work(ctx: Context) -> dict[str, Any]:
        return dict(ctx.job.headers)

    async with app:
        jobs = [await work.enqueue(), *await work.enqueue_many([()])]
        await run(app)
        found = [await job.result() for job in jobs]
    assert found == [{"seen": "tenant,own", "tenant": "acme", "own": "kept"}] * 2
    assert known == [{"tenant": "acme", "own": "kept"}, {"own": "kept"}]


async def test_a_hook_around_an_enqueue_may_replace_its_error_and_not_swallow_it(app: App) -> None:
    told: list[tuple[str, int]] = []
    replaced: list[Exception] = []

    @app.around_enqueue
    def watching(enqueue: Enqueue) -> Iterator[None]:
        try:
            yield
        except BadArguments as error:
            told.append((str(error), enqueue.sent))
            if replaced:
                raise replaced[0] from error

    @app.task(name="work")
    async def work(number: int) -> None: ...

    async with app:
        for _ in range(2):
            with pytest.raises((BadArguments, LookupError)) as raised:
                await work.enqueue_many([(1,), ("no number",)])
            assert raised.type is (LookupError if replaced else BadArguments)
            replaced.append(LookupError("another"))
    assert [sent for _, sent in told] == [0, 0]


def test_a_hook_around_an_enqueue_must_answer_with_a_context_manager(app: App) -> None:
    def forgetful(enqueue: Enqueue) -> Any: ...

    app.around_enqueue(forgetful)

    @app.task()
    async def work() -> None: ...

    with pytest.raises(BadOption, match="forgetful' answers must be a context manager, got None"):
        work.enqueue_sync()


def test_hooks_of_the_wrong_kind_are_refused(app: App) -> None:
    async def coroutine(*args: object) -> Any: ...

    def plain(*args: object) -> Any: ...

    register: Any = app
    with pytest.raises(BadOption, match="'async def'"):
        register.around_attempt(plain)
    with pytest.raises(BadOption, match="a plain function"):
        register.in_thread(coroutine)
    with pytest.raises(BadOption, match="a plain function"):
        register.on_enqueue(coroutine)
    with pytest.raises(BadOption, match="a plain function"):
        register.around_enqueue(coroutine)
    with pytest.raises(BadOption, match="a plain function"):
        register.to_child(coroutine)


async def test_the_current_job_is_known_wherever_its_handler_runs(app: App) -> None:
    loop = app.task(name="loop")(_awaiting)
    thread = app.task(name="thread")(hooked.named_job)
    process = app.task(name="process", process=True)(hooked.named_job)
    assert current_job() is None
    async with app:
        jobs = [await task.enqueue() for task in (loop, thread, process)]
        await run(app)
        assert [await job.result() for job in jobs] == ["loop 1", "thread 1", "process 1"]
    assert current_job() is None


async def _awaiting() -> str:
    async def deep() -> str:
        await asyncio.sleep(0)
        return await asyncio.to_thread(hooked.named_job)

    async with asyncio.TaskGroup() as group:
        found = group.create_task(deep())
    return found.result()


async def test_a_worker_without_hooks_runs_its_handlers_as_they_were_registered(app: App) -> None:
    @app.task(name="work")
    async def work() -> None: ...

    async with app, app.worker() as worker:
        assert [worker._registry[name] is app.registry[name] for name in app.registry] == [True]
    assert app.registry["work"].surroundings is None
