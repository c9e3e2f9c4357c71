"""Resources of handlers: once a worker, once an attempt, in every kind of handler."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Annotated, Any

import pytest

from holdfast import (
    App,
    AttemptLost,
    BadArguments,
    BadOption,
    BadTask,
    Context,
    Depends,
    Event,
    JobFailed,
    JobState,
    NotFilledIn,
    Retry,
    Shared,
    Snooze,
    current_job,
)
from holdfast.testing import Harness
from holdfast.worker import equipment
from tests.support.waiting import wait_until

ONCE = Retry.never()


class Diary(list[str]):
    """What happened, in order."""

    def around(self, name: str) -> Any:
        @asynccontextmanager
        async def resource() -> AsyncIterator[str]:
            self.append(f"+{name}")
            yield name
            self.append(f"-{name}")

        return resource


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def app() -> App:
    return App("sqlite://")


async def run(app: App) -> None:
    async with app.worker({"default": 4}) as worker:
        await worker.drain()


async def test_a_shared_resource_is_entered_once_before_the_first_claim_and_left_in_reverse(
    app: App, diary: Diary
) -> None:
    engine = diary.around("engine")

    @asynccontextmanager
    async def pool(of: str = Shared(engine)) -> AsyncIterator[str]:
        diary.append(f"+pool of {of}")
        yield f"pool of {of}"
        diary.append("-pool")

    @app.task()
    async def first(n: int, it: str = Shared(pool)) -> str:
        diary.append("first")
        return f"{it} {n}"

    @app.task()
    def second(it: str = Shared(engine)) -> str:
        return it

    async with app:
        jobs = [await first.enqueue(1), await first.enqueue(2), await second.enqueue()]
        async with app.worker({"default": 4}) as worker:
            assert diary[:2] == ["+engine", "+pool of engine"]
            await worker.drain()
            assert "-pool" not in diary
        assert diary[2:] == ["first", "first", "-pool", "-engine"]
        results = [await job.result() for job in jobs]
    assert results == ["pool of engine 1", "pool of engine 2", "engine"]


async def test_a_depends_is_made_once_an_attempt_and_left_before_its_end(
    app: App, diary: Diary
) -> None:
    async def session(
        ctx: Context, engine: str = Shared(diary.around("engine"))
    ) -> AsyncIterator[str]:
        diary.append(f"begin {ctx.job.task}")
        yield f"session on {engine}"
        diary.append(f"commit attempt {ctx.attempt}")

    def books(of: str = Depends(session)) -> str:
        return f"books of a {of}"

    @app.task(name="sell")
    async def sell(n: int, a: str = Depends(session), b: str = Depends(books)) -> str:
        return f"{n}: {a}, {b}"

    async with app:
        job = await sell.enqueue(7)
        await run(app)
        assert await job.result() == "7: session on engine, books of a session on engine"
    assert diary == ["+engine", "begin sell", "commit attempt 1", "-engine"]


async def test_every_kind_of_function_makes_a_resource(app: App, diary: Diary) -> None:
    def plain() -> str:
        return "plain"

    async def coroutine() -> str:
        return "coroutine"

    def generator() -> Iterator[str]:
        yield "generator"
        diary.append("generator left")

    async def async_generator() -> AsyncIterator[str]:
        yield "async generator"
        diary.append("async generator left")

    @contextmanager
    def manager() -> Iterator[str]:
        yield "manager"
        diary.append("manager left")

    @app.task()
    async def all_of_them(
        a: str = Depends(plain),
        b: str = Depends(coroutine),
        c: str = Depends(generator),
        d: str = Depends(async_generator),
        e: str = Depends(manager),
        f: str = Shared(plain),
        g: str = Shared(coroutine),
        h: str = Shared(generator),
    ) -> list[str]:
        return [a, b, c, d, e, f, g, h]

    async with app:
        job = await all_of_them.enqueue()
        await run(app)
        assert await job.result() == [
            *("plain", "coroutine", "generator", "async generator", "manager"),
            *("plain", "coroutine", "generator"),
        ]
    assert diary == ["manager left", "async generator left", "generator left", "generator left"]


async def test_an_error_when_a_resource_is_left_is_the_error_of_the_attempt(app: App) -> None:
    async def session() -> AsyncIterator[str]:
        yield "session"
        raise ConnectionError("the commit failed")

    @app.task(retry=ONCE)
    async def sell(db: str = Depends(session)) -> str:
        return "sold"

    async with app:
        job = await sell.enqueue()
        await run(app)
        with pytest.raises(JobFailed, match="the commit failed"):
            await job.result()


async def test_a_resource_sees_what_the_handler_raises(app: App, diary: Diary) -> None:
    async def session() -> AsyncIterator[str]:
        try:
            yield "session"
        except ValueError as error:
            diary.append(f"rolled back: {error}")
            raise

    @app.task(retry=ONCE)
    async def on_the_loop(db: str = Depends(session)) -> None:
        raise ValueError("on the loop")

    @app.task(retry=ONCE)
    def in_a_thread(db: str = Depends(session)) -> None:
        raise ValueError("in a thread")

    async with app:
        jobs = [await on_the_loop.enqueue(), await in_a_thread.enqueue()]
        await run(app)
        assert [(await job.get()).state for job in jobs] == [JobState.FAILED] * 2
    assert sorted(diary) == ["rolled back: in a thread", "rolled back: on the loop"]


async def test_resources_before_one_that_cannot_be_made_are_left(app: App, diary: Diary) -> None:
    async def broken() -> str:
        raise Snooze(3600)

    @app.task()
    async def never(a: str = Depends(diary.around("a")), b: str = Depends(broken)) -> None:
        diary.append("ran")

    async with app:
        job = await never.enqueue()
        await run(app)
        assert (await job.get()).state is JobState.SCHEDULED  # what a resource wishes, holds
    assert diary[0] == "+a"
    assert "ran" not in diary


@pytest.mark.parametrize("how", ["times out", "raises", "cannot be made"])
async def test_a_resource_that_swallows_an_error_makes_no_job_succeed(app: App, how: str) -> None:
    async def greedy() -> AsyncIterator[None]:
        with suppress(BaseException):
            yield

    async def after(before: None = Depends(greedy)) -> None:
        if how == "cannot be made":
            raise ValueError("not made")

    @app.task(retry=ONCE, timeout=0.05)
    async def work(it: None = Depends(after)) -> None:
        if how == "raises":
            raise ValueError("broken")
        await asyncio.sleep(60)

    async with app:
        job = await work.enqueue()
        await run(app)
        found = await job.get()
    kinds = {"times out": "TimedOut", "raises": "ValueError", "cannot be made": "ValueError"}
    assert (found.state, [error.kind for error in found.errors]) == (JobState.FAILED, [kinds[how]])


async def test_a_timeout_leaves_the_resources_of_the_attempt(app: App, diary: Diary) -> None:
    async def session() -> AsyncIterator[str]:
        try:
            yield "session"
        finally:
            diary.append("left")

    @app.task(retry=ONCE, timeout=0.05)
    async def slow(db: str = Depends(session)) -> None:
        await asyncio.sleep(60)

    async with app:
        job = await slow.enqueue()
        await run(app)
        assert [entry.kind for entry in (await job.get()).errors] == ["TimedOut"]
    assert diary == ["left"]


async def test_a_cancel_reaches_the_resources_of_a_plain_function(app: App, diary: Diary) -> None:
    """Its thread could not be cancelled, but it has not begun: the loop still waits."""

    async def session() -> AsyncIterator[str]:
        diary.append("connecting")
        try:
            await asyncio.sleep(60)
            yield "session"
        finally:
            diary.append("left")

    @app.task()
    def plain(db: str = Depends(session)) -> None:
        diary.append("ran")

    async with app:
        job = await plain.enqueue()
        async with app.worker({"default": 4}):
            await wait_until(lambda: bool(diary), 30, "the session is being made")
            await job.cancel()
            await wait_until(lambda: "left" in diary, 30, "it is cancelled")
    assert diary == ["connecting", "left"]


async def test_nothing_is_committed_for_an_attempt_that_was_ended_meanwhile(
    app: App, diary: Diary
) -> None:
    """A plain function cannot be stopped. When it returns, its attempt has long timed out."""
    go_on = threading.Event()

    async def session() -> AsyncIterator[str]:
        try:
            yield "session"
        except AttemptLost:
            diary.append("rolled back")
            raise
        else:
            diary.append("committed")

    @app.task(retry=ONCE, timeout=0.05)
    def deaf(db: str = Depends(session)) -> None:
        go_on.wait(30)

    async with app:
        job = await deaf.enqueue()
        async with app.worker({"default": 4}) as worker:
            del worker
            await wait_until(lambda: _has_failed(job), 30, "the attempt times out")
            go_on.set()
            await wait_until(lambda: bool(diary), 30, "the function returns")
    assert diary == ["rolled back"]


async def _has_failed(job: Any) -> bool:
    return bool((await job.get()).state is JobState.FAILED)


async def test_resources_of_a_plain_function_are_made_on_the_loop(app: App) -> None:
    colour: ContextVar[str] = ContextVar("colour", default="none")

    async def session() -> AsyncIterator[str]:
        token = colour.set("blue")
        yield threading.current_thread().name
        assert threading.current_thread().name == loop_thread
        colour.reset(token)

    @app.task()
    def plain(made_in: str = Depends(session)) -> list[str]:
        return [made_in, threading.current_thread().name, colour.get()]

    loop_thread = threading.current_thread().name
    async with app:
        job = await plain.enqueue()
        await run(app)
        made_in, ran_in, seen = await job.result()
    assert (made_in, seen) == (loop_thread, "blue")
    assert ran_in != loop_thread


async def test_arguments_behind_a_resource_arrive_in_their_places(app: App) -> None:
    @app.task()
    async def mixed(
        a: int,
        one: str = Shared(lambda: "one"),
        b: int = 2,
        *,
        two: str = Depends(lambda: "two"),
        c: int,
    ) -> list[object]:
        return [a, one, b, two, c]

    async with app:
        short, long = await mixed.enqueue(1, c=3), await mixed.enqueue(1, b=5, c=6)
        await run(app)
        assert await short.result() == [1, "one", 2, "two", 3]
        assert await long.result() == [1, "one", 5, "two", 6]


async def test_a_shared_resource_that_fails_to_enter_ends_the_worker_before_a_claim(
    app: App, diary: Diary
) -> None:
    async def broken(engine: str = Shared(diary.around("engine"))) -> str:
        raise ConnectionError("no database")

    @app.task()
    async def work(db: str = Shared(broken)) -> None:
        diary.append("ran")

    async with app:
        job = await work.enqueue()
        with pytest.raises(ConnectionError, match="no database"):
            async with app.worker({"default": 1}):
                pytest.fail("it started")
        assert (await job.get()).state is JobState.READY
        assert await app.store.workers.find() == []
    assert diary[0] == "+engine"


async def test_a_lifespan_lies_around_the_worker_and_its_resources(diary: Diary) -> None:
    colour: ContextVar[str] = ContextVar("colour", default="none")

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        diary.append("+lifespan")
        colour.set("blue")
        assert app.store.kind == "sqlite"
        yield
        assert app.store.kind == "sqlite"  # it is not closed yet
        diary.append("-lifespan")

    app = App("sqlite://", lifespan=lifespan)

    @app.task()
    async def work(it: str = Shared(diary.around("it"))) -> str:
        return colour.get()

    async with app:
        job = await work.enqueue()
        assert diary == []  # a client never runs it
        await run(app)
        assert await job.result() == "blue"
    assert diary == ["+lifespan", "+it", "-it", "-lifespan"]


async def test_what_takes_long_to_enter_is_told(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equipment, "SLOW_SECONDS", 0.01)
    told: list[object] = []
    heard = asyncio.Event()

    async def model() -> str:
        await heard.wait()
        return "model"

    @app.task()
    async def work(it: str = Shared(model)) -> None: ...

    def hear(event: Event) -> None:
        told.append(event.fields["step"])
        heard.set()

    app.events.subscribe(hear, "worker.step_slow")
    async with app:
        await run(app)
    assert told[0] == "Shared(" + model.__qualname__ + ")"


def test_passing_a_resource_at_enqueue_is_refused(app: App) -> None:
    @app.task()
    async def work(n: int, it: str = Shared(lambda: "it")) -> None: ...

    with pytest.raises(BadArguments, match="'it' is filled in by the worker: leave it out"):
        work.enqueue_sync(1, it="mine")
    with pytest.raises(BadArguments, match=r"it takes \(n"):
        work.enqueue_sync(1, "mine")


async def test_a_plain_call_may_pass_its_resources_and_is_told_to(app: App) -> None:
    class Http:
        def get(self, url: str) -> str:
            return f"got {url}"

    def http() -> Http:
        return Http()

    @app.task()
    async def fetch(url: str, client: Http = Shared(http)) -> str:
        return client.get(url)

    assert await fetch("a", client=Http()) == "got a"
    with pytest.raises(NotFilledIn, match=r"http\) is filled in by a worker: pass a value"):
        await fetch("a")


def shown() -> str:
    return "shown"


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda app: app.task(process=True)(_with_shared), "process=True: a child process cannot"),
        (lambda app: app.task()(_needs_argument), "nobody fills in its parameter 'url'"),
        (lambda app: app.task()(_too_long), "is made once a worker and cannot take Depends"),
        (lambda app: app.task()(_shared_context), "there is no Context yet"),
        (lambda app: app.task()(_positional), "put it behind the '/'"),
        (lambda app: app.task()(_before_rest), r"put it behind '\*rest'"),
        (lambda app: app.task()(_annotated), r"write the resource as its default: it: … = Shared"),
    ],
)
def test_a_task_whose_resources_can_never_be_made_is_refused(
    app: App, declare: Any, problem: str
) -> None:
    with pytest.raises(BadTask, match=problem):
        declare(app)


def _with_shared(it: str = Shared(shown)) -> None: ...


def _wants_argument(url: str) -> str:
    return url


async def _needs_argument(it: str = Depends(_wants_argument)) -> None: ...


def _wants_attempt(it: str = Depends(shown)) -> str:
    return it


async def _too_long(it: str = Shared(_wants_attempt)) -> None: ...


def _wants_context(ctx: Context) -> str:
    return str(ctx.attempt)


async def _shared_context(it: str = Shared(_wants_context)) -> None: ...


async def _positional(it: str = Shared(shown), /) -> None: ...


async def _annotated(it: Annotated[str, Shared(shown)]) -> None: ...


async def _before_rest(it: str = Shared(shown), *rest: int) -> None: ...


# In tests of users ------------------------------------------------------------------------


async def test_a_harness_gives_its_own_values_in_place_of_resources(app: App, diary: Diary) -> None:
    engine = diary.around("engine")

    def session(of: str = Shared(engine)) -> str:
        raise ConnectionError("no database")

    def books(of: str = Depends(session)) -> str:
        return f"books of {of}"

    @app.task()
    async def sell(db: str = Depends(session), by: str = Depends(books)) -> str:
        return f"{db}, {by}"

    async with Harness(app, resources={session: "fake"}) as harness:
        assert (await harness.run(sell)).result == "fake, books of fake"
        job = await sell.enqueue()
        await harness.drain()
        assert await job.result() == "fake, books of fake"
    assert diary == []  # what only a replaced resource takes is not entered

    with pytest.raises(BadOption, match="functions that tasks name as resources"):
        async with Harness(app, resources={shown: "?"}) as harness:
            await harness.run(sell)


async def test_a_harness_enters_shared_resources_once_and_runs_hooks(
    app: App, diary: Diary
) -> None:
    @app.around_attempt
    async def watched(ctx: Context, run: Callable[[], Awaitable[Any]]) -> Any:
        return f"watched {await run()}"

    @app.in_thread
    def inside(ctx: Context, run: Callable[[], Any]) -> Any:
        return f"inside {run()}"

    @app.task(name="plain")
    def plain(it: str = Shared(diary.around("it"))) -> str:
        job = current_job()
        assert job is not None
        return f"{job.task} with {it}"

    async with Harness(app) as harness:
        assert diary == []
        assert (await harness.run(plain)).result == "watched inside plain with it"
        for _ in range(2):
            job = await plain.enqueue()
            await harness.drain()
            assert await job.result() == "watched inside plain with it"
        assert diary == ["+it"]
    assert diary == ["+it", "-it"]
