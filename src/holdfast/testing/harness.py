"""An app on a store in memory, with a clock that the test moves.

Nothing is mocked: jobs are encoded, stored, claimed, run and finished by the
real parts, only faster, because the store is in memory and nobody sleeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import msgspec

from holdfast.app import App
from holdfast.clock import ManualClock
from holdfast.job.record import Job
from holdfast.job.state import LIVE, JobState
from holdfast.services import make_services
from holdfast.task import Task
from holdfast.testing.inline import Ran, run_inline

P = ParamSpec("P")
R = TypeVar("R")
SLOTS = 10
ROUNDS = 1_000


class Harness:
    """Runs an app's jobs under a test's control.

    ```python
    async with Harness(app) as harness:
        await signup("a@example.org")                       # enqueues a mail
        await harness.assert_enqueued(send_email, to="a@example.org")
        await harness.drain()                               # runs what is due
        await harness.advance(minutes=5)                    # makes more due
    ```
    """

    def __init__(self, app: App, *, start: datetime | None = None) -> None:
        self.app = app
        self.clock = ManualClock(start)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
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
        """Run everything that is due, and what that enqueues, until nothing is.

        Returns how many attempts ended. Jobs due later stay: `advance` to them.
        """
        ended = 0
        for _ in range(ROUNDS):
            await self._pass_time()
            queues = await self._queues_with_work()
            if not queues:
                return ended
            async with self.app.worker(queues) as worker:
                ended += await worker.drain()
        raise AssertionError(f"still not drained after {ROUNDS} rounds: jobs enqueue jobs forever")

    async def advance(
        self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0
    ) -> datetime:
        """Move the clock and let time take its effects (due plans and jobs, deadlines, lost
        leases). One step is one look: plans that a long step passes over are caught up."""
        now = self.clock.advance(seconds, minutes=minutes, hours=hours)
        await self._pass_time()
        return now

    async def _pass_time(self) -> None:
        for service in self._services:
            await service.run_once()

    async def enqueued(self, task: Task[..., Any] | None = None) -> list[Job]:
        """Live jobs, oldest first; only those of one task if it is given."""
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
        """There is a live job of this task whose arguments include these; returns it."""
        jobs = await self.enqueued(task)
        wanted = _as_json(arguments)
        for job in jobs:
            if wanted.items() <= msgspec.json.decode(job.args).items():
                return job
        listed = "\n".join(f"  {job.state}: {job.args}" for job in jobs) or "  none"
        raise AssertionError(f"no live {task.name} job with {wanted}; there are:\n{listed}")

    async def assert_not_enqueued(self, task: Task[..., Any], **arguments: Any) -> None:
        """There is no live job of this task whose arguments include these."""
        try:
            job = await self.assert_enqueued(task, **arguments)
        except AssertionError:
            return
        raise AssertionError(f"unexpected {task.name} job {job.id}: {job.args}")

    async def run(self, task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Ran[R]:
        """Run one call here and now, through real encoding, without the store.

        What the handler raises is raised; what it returned and reported is in the answer.
        """
        return await run_inline(task, args, kwargs)

    async def _queues_with_work(self) -> Mapping[str, int]:
        known = tuple(self.app.registry)
        ready = await self.app.client.page(limit=1000, state=JobState.READY, tasks=known)
        return {job.queue: SLOTS for job in ready.jobs} if known else {}


def _as_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they look once stored: an enum as its value, a tuple as a list."""
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(arguments))
    return decoded
