"""The harness for tests without an event loop, as those of Django and Flask programs are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from datetime import datetime
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from holdfast.app import App
from holdfast.clock import ManualClock
from holdfast.enqueue.options import Seconds
from holdfast.errors import NotOpen
from holdfast.job.record import Job
from holdfast.job.vote import Vote
from holdfast.task import Task
from holdfast.testing.drained import Drained
from holdfast.testing.harness import DRAIN_LIMIT, Harness
from holdfast.testing.inline import FIRST, Ran, Which

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class SyncHarness:
    """`Harness` without `await`.

    ```python
    with SyncHarness(app) as harness:
        sign_up("a@example.org")                            # calls enqueue_sync
        harness.assert_enqueued(send_email, to="a@example.org")
        harness.drain()
    ```

    A loop in a thread of its own has the app open, and serves `enqueue_sync` and `app.sync` of the
    test. Plain functions that `drain` runs have threads of their own, as in a worker.
    """

    def __init__(
        self,
        app: App,
        *,
        url: str = "sqlite://",
        start: datetime | None = None,
        resources: Mapping[Callable[..., Any], Any] | None = None,
        tolerance: Seconds = 1.0,
    ) -> None:
        self._harness = Harness(app, url=url, start=start, resources=resources, tolerance=tolerance)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def app(self) -> App:
        return self._harness.app

    @property
    def clock(self) -> ManualClock:
        return self._harness.clock

    def __enter__(self) -> Self:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=loop.run_forever, name="holdfast-harness", daemon=True
        )
        self._thread.start()
        self._loop = loop
        try:
            self._do(self._harness.__aenter__())
        except BaseException:
            self._stop(loop)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None, "it was entered"
        try:
            self._do(self._harness.__aexit__(kind, error, trace))
        finally:
            self._stop(self._loop)

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    def drain(self, *, raises: bool = True, limit: int = DRAIN_LIMIT) -> Drained:
        """As `Harness.drain`."""
        return self._do(self._harness.drain(raises=raises, limit=limit))

    def advance(
        self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0
    ) -> datetime:
        """As `Harness.advance`."""
        return self._do(self._harness.advance(seconds, minutes=minutes, hours=hours))

    def answer(
        self, job_id: str, wait: str, who: str, *, approve: bool = True, note: str | None = None
    ) -> Vote:
        """As `Harness.answer`."""
        return self._do(self._harness.answer(job_id, wait, who, approve=approve, note=note))

    def enqueued(self, task: Task[..., Any] | None = None, *, most: int | None = None) -> list[Job]:
        """As `Harness.enqueued`."""
        return self._do(self._harness.enqueued(task, most=most))

    def assert_enqueued(self, task: Task[..., Any], *args: Any, **kwargs: Any) -> Job:
        """As `Harness.assert_enqueued`."""
        return self._do(self._harness.assert_enqueued(task, *args, **kwargs))

    def assert_not_enqueued(self, task: Task[..., Any], *args: Any, **kwargs: Any) -> None:
        """As `Harness.assert_not_enqueued`."""
        self._do(self._harness.assert_not_enqueued(task, *args, **kwargs))

    def run(self, task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Ran[R]:
        """As `Harness.run`, but a plain function runs in the thread of the test: it sees the open
        transaction of the test."""
        return self._run(FIRST, task, args, kwargs)

    def attempt(self, number: int = 1, *, checkpoint: object = None) -> SyncChosenAttempt:
        """As `Harness.attempt`."""
        return SyncChosenAttempt(partial(self._run, Which(number, checkpoint)))

    def _run(
        self, which: Which, task: Task[..., R], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Ran[R]:
        here = CallersThread()
        return self._do(self._harness.run_attempt(which, here.call, task, args, kwargs), here)

    def _do(self, work: Coroutine[Any, Any, T], here: CallersThread | None = None) -> T:
        if self._loop is None:
            work.close()
            raise NotOpen("the harness is not open: use it inside 'with SyncHarness(app):'")
        working = asyncio.run_coroutine_threadsafe(work, self._loop)
        if here is not None:
            here.serve(working)
        return working.result()


class SyncChosenAttempt:
    """`ChosenAttempt` without `await`."""

    def __init__(self, run: Callable[..., Ran[Any]]) -> None:
        self._run = run

    def run(self, task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Ran[R]:
        """As `SyncHarness.run`."""
        return self._run(task, args, kwargs)


class CallersThread:
    """Calls plain functions in the thread that waits for a coroutine of the harness."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def call(self, function: Callable[[], Any]) -> Any:
        """Have the waiting thread call the function, with the variables of this context."""
        loop, answer = asyncio.get_running_loop(), Future[Any]()
        context = copy_context()

        def answered() -> None:
            try:
                answer.set_result(context.run(function))
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits for the answer
                answer.set_exception(error)

        answer.set_running_or_notify_cancel()
        self._calls.put(answered)
        return await asyncio.wrap_future(answer, loop=loop)

    def serve(self, working: Future[Any]) -> None:
        """Call what is asked for until the work is done."""
        working.add_done_callback(lambda _: self._calls.put(None))
        while (call := self._calls.get()) is not None:
            call()
