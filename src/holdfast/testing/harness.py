"""An app on a store in memory, with a clock that the test moves.

Nothing is mocked. Jobs are encoded, stored, claimed, run and finished by the real parts. They are
faster than in production because the store is in memory and nobody sleeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from holdfast.app import App
from holdfast.background.options import ReconcileOptions
from holdfast.clock import ManualClock
from holdfast.enqueue.options import Seconds
from holdfast.errors import NotOpen
from holdfast.flow.model import Errand
from holdfast.handlers.inline import Plainly
from holdfast.handlers.registry import Registry
from holdfast.insights.explain import Explanation, explain
from holdfast.insights.reasons import Reason, Who
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.state import ENDED, LIVE, JobState
from holdfast.job.vote import Invited, Vote
from holdfast.services import make_services
from holdfast.store.open import check_url
from holdfast.task import Task
from holdfast.testing.drained import Drained, DrainFailed, Watching
from holdfast.testing.expecting import Expected
from holdfast.testing.inline import FIRST, Ran, Which, run_inline
from holdfast.testing.people import token_of, with_signing_keys
from holdfast.worker.equipment import equipped

P = ParamSpec("P")
R = TypeVar("R")
SLOTS_A_QUEUE = 10
DRAIN_LIMIT = 100_000
JOBS_BATCH = 1_000
EXPLAINED = 20
"""How many of the jobs that are left a drain explains."""


class Harness:
    """Runs an app's jobs under a test's control.

    ```python
    async with Harness(app) as harness:
        await signup("a@example.org")                       # enqueues a mail
        await harness.assert_enqueued(send_email, to="a@example.org")
        await harness.drain()                               # runs what is due
        await harness.advance(minutes=5)                    # makes more due
    ```

    `url` is another store than one in memory: code that joins a transaction needs a database in a
    file. `resources` gives values in place of what functions make: `Harness(app, resources={http:
    fake})`. The app's lifespan and its other shared resources are entered with the first job that
    runs, and left with the harness. `tolerance` is how many seconds a job's times may be from those
    that `assert_enqueued` expects.
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
        checks.kind("app", app, App, "an App")
        check_url(url)
        if resources is not None:
            checks.replacements("resources", resources)
        self.app = app
        self._url = url
        self.clock = ManualClock(None if start is None else checks.moment("start", start))
        self._tolerance = timedelta(seconds=checks.wait("tolerance", tolerance))
        self._open = False
        self._resources = resources
        self._stack = AsyncExitStack()
        self._registry: Registry | None = None

    async def __aenter__(self) -> Self:
        self.app.import_tasks()
        self._stack.enter_context(self.app.using_store(self._url, self.clock))
        self.app.settings = with_signing_keys(self.app.settings)
        await self._stack.enter_async_context(self.app)
        options = ReconcileOptions(signing_keys=self.app.settings.signing_keys)
        self._services = make_services(self.app, options)
        self._open = True
        await self._pass_time()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open = False
        await self._stack.aclose()

    async def drain(self, *, raises: bool = True, limit: int = DRAIN_LIMIT) -> Drained:
        """Run all due jobs, and the jobs that they enqueue, until no job can run now.

        The answer says how each attempt ended, and why the jobs that are left wait: a job that is
        due later (`advance` the clock to it), a paused queue, a queue that cools down. If an error
        ended an attempt, `DrainFailed` is raised when all is done; with `raises=False` the answer
        reports it. Arguments that do not fit fail their job at once: no other worker will come.
        After `limit` attempts it is an error that jobs enqueue jobs for ever.
        """
        self._require_open()
        with Watching(self.app.events) as watching:
            await self._work_off(watching, limit)
            drained = await self._report(watching)
        if raises and drained.failures:
            failed = DrainFailed(drained)
            raise failed from failed.origin
        return drained

    async def _work_off(self, watching: Watching, limit: int) -> None:
        ended = -1
        while ended < len(watching.ended):
            ended = len(watching.ended)
            await self._pass_time()
            if queues := await self._queues_with_work():
                await self._work(queues, watching, limit)

    async def _work(self, queues: Mapping[str, int], watching: Watching, limit: int) -> None:
        labels = {label for task in self.app.tasks.values() for label in task.options.requires}
        opened = self.app.worker(queues, labels=labels, unreadable_for=0)
        opened.registry = await self._equipped()
        async with opened as worker:
            await watching.until(worker.drain(), limit)

    async def _report(self, watching: Watching) -> Drained:
        client, ids = self.app.client, list(watching.job_ids())
        found: dict[JobId, Job] = {}
        for start in range(0, len(ids), JOBS_BATCH):
            jobs = await self.app.store.jobs.get(ids[start : start + JOBS_BATCH])
            found |= {job.id: job for job in jobs}
        return Drained(
            tuple(watching.ended),
            tuple(found[job_id] for job_id in ids if job_id in found),
            await client.count(states=LIVE),
            tuple([await self._explained(job) for job in await self.enqueued(most=EXPLAINED)]),
        )

    async def _explained(self, job: Job) -> Explanation:
        """Why a job waits. That no worker is alive is no reason: the harness is its worker."""
        found = await explain(self.app.store, job)
        reasons = [reason for reason in found.reasons if reason.code != "no-workers"]
        if job.task not in self.app.registry:
            fact = f"task {job.task!r} is not in this app"
            advice = "import the module that declares it"
            reasons.append(Reason("task-unknown", fact, Who.DEVELOPER, advice))
        return Explanation(job, tuple(reasons))

    async def advance(
        self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0
    ) -> datetime:
        """Move the clock, then fire due plans, promote due jobs, expire jobs past their deadline
        and reclaim jobs of lapsed workers. Schedules are evaluated once, at the new time: plans
        that a long step passes over are treated as their `catch_up` says."""
        self._require_open()
        now = self.clock.advance(seconds, minutes=minutes, hours=hours)
        await self._pass_time()
        return now

    async def answer(
        self, job_id: str, wait: str, who: str, *, approve: bool = True, note: str | None = None
    ) -> Vote:
        """Answer as one of the people whom `ctx.invite(wait, of=…)` of this job has asked. An app
        without `signing_keys` has some of its own while the harness is open."""
        self._require_open()
        token = token_of(self.app.settings, Invited(job_id, wait, who))
        return await self.app.client.answer(token, {"approve": approve, "note": note})

    async def _pass_time(self) -> None:
        """What flows owe is done to its end: an errand may leave another one."""
        before: list[Errand] = []
        while True:
            for service in self._services:
                await service.run_once()
            owed = await self.app.store.flows.errands(JOBS_BATCH)
            if owed == before:
                return
            before = owed

    async def enqueued(
        self, task: Task[..., Any] | None = None, *, most: int | None = None
    ) -> list[Job]:
        """Live jobs, oldest first; with `task`, only jobs of that task. With `most`, the newest
        ones of them."""
        self._require_open()
        names = None if task is None else (task.name, *task.also)
        found: list[Job] = []
        cursor = None
        while True:
            size = JOBS_BATCH if most is None else min(JOBS_BATCH, most - len(found))
            page = await self.app.client.page(limit=size, cursor=cursor, states=LIVE, tasks=names)
            found += page.jobs
            cursor = page.next_cursor
            if cursor is None or len(found) == most:
                return found[::-1]

    async def assert_enqueued(self, task: Task[..., Any], *args: Any, **kwargs: Any) -> Job:
        """Assert that there is a live job of this task with these arguments among its own; returns
        the oldest.

        Options are expected by `using`, as they are given at an enqueue: `assert_enqueued(
        send.using(queue="bulk", delay=300), to="a@example.org")`. Of tags and headers the job may
        have more. Times may differ by the harness's `tolerance`.
        """
        expected, jobs = await self._expected(task, args, kwargs)
        if (job := expected.first(jobs)) is not None:
            return job
        there = f"live jobs of this task are:\n{expected.listed(jobs)}"
        if ended := await self._ended(task):
            there += f"\nand {ended} have ended"
        raise AssertionError(f"not enqueued: {expected}\n{there}")

    async def assert_not_enqueued(self, task: Task[..., Any], *args: Any, **kwargs: Any) -> None:
        """Assert that no live job is as `assert_enqueued` would find it."""
        expected, jobs = await self._expected(task, args, kwargs)
        found = [job for job in jobs if not expected.differences(job)]
        if found:
            raise AssertionError(f"{len(found)} enqueued: {expected}\n{expected.listed(found)}")

    async def _expected(
        self, task: Task[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Expected, list[Job]]:
        jobs = await self.enqueued(task)
        clock = self.clock.now
        return Expected(task, args, kwargs, now=clock, tolerance=self._tolerance), jobs

    async def _ended(self, task: Task[..., Any]) -> int:
        return sum((await self.app.client.count(states=ENDED, task=task.name)).values())

    async def run(self, task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Ran[R]:
        """Run one call here and now, without the store. Its arguments are encoded and decoded as
        they would be for a job. A plain function runs in a thread, as in a worker.

        An exception of the handler is raised, and `TimeoutError` if it takes longer than the
        task's timeout. The answer holds the result and the progress that the handler reported.
        """
        return await self.run_attempt(FIRST, asyncio.to_thread, task, args, kwargs)

    def attempt(self, number: int = 1, *, checkpoint: object = None) -> ChosenAttempt:
        """Choose the attempt that `run` makes: `await harness.attempt(3, checkpoint={"row":
        10}).run(task, …)`."""
        return ChosenAttempt(self, Which(number, checkpoint))

    async def run_attempt(
        self,
        which: Which,
        plainly: Plainly,
        task: Task[..., R],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Ran[R]:
        """The way of `run`, with everything that may be chosen."""
        self._require_open()
        known = await self._equipped()
        own = task.name in known
        handler = known[task.name] if own else task.handler
        return await run_inline(task, handler, args, kwargs, which, plainly)

    async def _equipped(self) -> Registry:
        if self._registry is None:
            entering = equipped(self.app, self._resources)
            self._registry = await self._stack.enter_async_context(entering)
        return self._registry

    async def _queues_with_work(self) -> Mapping[str, int]:
        """The queues with ready jobs that can be claimed now, and the others of the app, if there
        are any."""
        with_work = [
            queue.name
            for queue in await self.app.client.queues.all()
            if queue.counts.get(JobState.READY) and not queue.paused and not queue.cooling_for
        ]
        served = [*with_work, *self.app.own_queues] if with_work else []
        return dict.fromkeys(served, SLOTS_A_QUEUE)

    def _require_open(self) -> None:
        if not self._open:
            raise NotOpen("the harness is not open: use it inside 'async with Harness(app):'")


class ChosenAttempt:
    """Runs calls as a chosen attempt of their job."""

    def __init__(self, harness: Harness, which: Which) -> None:
        self._harness = harness
        self._which = which

    async def run(self, task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Ran[R]:
        """As `Harness.run`."""
        return await self._harness.run_attempt(self._which, asyncio.to_thread, task, args, kwargs)
