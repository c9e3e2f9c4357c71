"""An app on a store in memory, with a clock that the test moves.

Nothing is mocked. Jobs are encoded, stored, claimed, run and finished by the real parts. They are
faster than in production because the store is in memory and nobody sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import msgspec

from holdfast.app import App
from holdfast.clock import ManualClock
from holdfast.handlers.registry import Registry
from holdfast.job.record import Job
from holdfast.job.state import LIVE, JobState
from holdfast.services import make_services
from holdfast.task import Task
from holdfast.testing.inline import Ran, run_inline
from holdfast.worker.equipment import equipped

P = ParamSpec("P")
R = TypeVar("R")
SLOTS_A_QUEUE = 10
DRAIN_ROUNDS = 1_000


class Harness:
    """Runs an app's jobs under a test's control.

    ```python
    async with Harness(app) as harness:
        await signup("a@example.org")                       # enqueues a mail
        await harness.assert_enqueued(send_email, to="a@example.org")
        await harness.drain()                               # runs what is due
        await harness.advance(minutes=5)                    # makes more due
    ```

    `resources` gives values in place of what functions make: `Harness(app, resources={http:
    fake})`. The app's lifespan and its other shared resources are entered with the first job that
    runs, and left with the harness.
    """

    def __init__(
        self,
        app: App,
        *,
        start: datetime | None = None,
        resources: Mapping[Callable[..., Any], Any] | None = None,
    ) -> None:
        self.app = app
        self.clock = ManualClock(start)
        self._resources = resources
        self._stack = AsyncExitStack()
        self._registry: Registry | None = None

    async def __aenter__(self) -> Self:
        self.app.import_tasks()
        self._stack.enter_context(self.app.using_store("sqlite://", self.clock))
        await self._stack.enter_async_context(self.app)
        self._services = make_services(self.app)
        await self._pass_time()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def drain(self) -> int:
        """Run all due jobs, and the jobs that they enqueue, until no job is due.

        Returns how many attempts ended. A job that is due later stays: `advance` the clock to it.
        """
        ended = 0
        for _ in range(DRAIN_ROUNDS):
            await self._pass_time()
            queues = await self._queues_with_work()
            if not queues:
                return ended
            opened = self.app.worker(queues)
            opened.registry = await self._equipped()
            async with opened as worker:
                ended += await worker.drain()
        raise AssertionError(
            f"still not drained after {DRAIN_ROUNDS} rounds: jobs enqueue jobs forever"
        )

    async def advance(
        self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0
    ) -> datetime:
        """Move the clock, then fire due plans, promote due jobs, expire jobs past their deadline
        and reclaim jobs of lapsed workers. Schedules are evaluated once, at the new time: plans
        that a long step passes over are treated as their `catch_up` says."""
        now = self.clock.advance(seconds, minutes=minutes, hours=hours)
        await self._pass_time()
        return now

    async def _pass_time(self) -> None:
        for service in self._services:
            await service.run_once()

    async def enqueued(self, task: Task[..., Any] | None = None) -> list[Job]:
        """Live jobs, oldest first; with `task`, only jobs of that task."""
        name = None if task is None else task.name
        found: list[Job] = []
        cursor = None
        while True:
            page = await self.app.client.page(limit=1000, cursor=cursor, states=LIVE, task=name)
            found += page.jobs
            if page.next_cursor is None:
                return found[::-1]
            cursor = page.next_cursor

    async def assert_enqueued(self, task: Task[..., Any], **arguments: Any) -> Job:
        """Assert that a live job of this task has these arguments among its own; returns it."""
        jobs = await self.enqueued(task)
        wanted = _as_json(arguments)
        for job in jobs:
            if wanted.items() <= job.args.items():
                return job
        listed = "\n".join(f"  {job.state}: {job.args_json}" for job in jobs) or "  none"
        raise AssertionError(f"no live {task.name} job with {wanted}; there are:\n{listed}")

    async def assert_not_enqueued(self, task: Task[..., Any], **arguments: Any) -> None:
        """Assert that no live job of this task has these arguments among its own."""
        try:
            job = await self.assert_enqueued(task, **arguments)
        except AssertionError:
            return
        raise AssertionError(f"unexpected {task.name} job {job.id}: {job.args_json}")

    async def run(self, task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Ran[R]:
        """Run one call here and now, without the store. Its arguments are encoded and decoded as
        they would be for a job.

        An exception of the handler is raised. The answer holds the result and the progress that
        the handler reported.
        """
        known = await self._equipped()
        own = task.name in known
        handler = known[task.name] if own else task.handler
        return await run_inline(task, handler, args, kwargs)

    async def _equipped(self) -> Registry:
        if self._registry is None:
            entering = equipped(self.app, self._resources)
            self._registry = await self._stack.enter_async_context(entering)
        return self._registry

    async def _queues_with_work(self) -> Mapping[str, int]:
        known = tuple(self.app.registry)
        ready = await self.app.client.page(limit=1000, state=JobState.READY, tasks=known)
        return {job.queue: SLOTS_A_QUEUE for job in ready.jobs} if known else {}


def _as_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they look once stored: an enum as its value, a tuple as a list."""
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(arguments))
    return decoded
