"""Jobs and scenes, so that a conformance test reads as a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from holdfast.clock import ManualClock
from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    End,
    Fail,
    HandedBack,
    Raised,
    Returned,
    Skipped,
    Snoozed,
    WasSuspended,
)
from holdfast.job.ids import JobId, WorkerId, new_job_id, new_worker_id
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import Claimed, Inserted, Job, Live, NewJob
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.store.contract.joining import Joining
from holdfast.store.contract.records import ALL, Verdict, Want
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo

TASK = "greet"
QUEUE = "default"
LONG = 10 * 365 * 86_400.0

STEADY = Policy(retry=Retry(max_attempts=5, curve="constant", base=10, jitter=0))
RETURNED = Returned('"done"')
RAISED = Raised("ValueError", "no such user")
FAILED = Raised(Fail.__name__, "give up", final=True)


def new_job(task: str = TASK, *, policy: Policy = STEADY, **options: Any) -> NewJob:
    """A job like any other, but for what the test says."""
    unique = options.get("unique")
    job_id = new_job_id(unique.key if unique else None, limited="buckets" in options)
    options = {"id": job_id, "queue": QUEUE, "args": '{"name":"Ada"}'} | options
    return NewJob(task=task, policy=encode_policy(policy), **options)


def new_worker(**options: Any) -> WorkerInfo:
    facts: dict[str, Any] = {
        "id": new_worker_id(),
        "name": "worker",
        "host": "localhost",
        "pid": 1,
        "queues": {QUEUE: 10},
        "tasks": (TASK,),
        "version": "1.0",
    }
    return WorkerInfo(**(facts | options))


def ids(things: Sequence[Claimed | Live | Job | Inserted | Verdict]) -> list[JobId]:
    return [thing.id for thing in things]


def accepted(verdicts: Sequence[Verdict]) -> list[bool]:
    return [verdict.accepted for verdict in verdicts]


@dataclass(frozen=True)
class Scene:
    """A store, a clock, and a worker whose lease outlasts any test that does not end it."""

    store: Store
    clock: ManualClock
    worker: WorkerId

    @classmethod
    async def on(cls, store: Store, clock: ManualClock) -> Scene:
        worker = new_worker()
        await store.workers.register(worker, LONG)
        return cls(store, clock, worker.id)

    def through(self, store: Store) -> Scene:
        """The same scene, seen through a sibling."""
        return replace(self, store=store)

    # Enqueueing

    async def enqueue(self, task: str = TASK, **options: Any) -> JobId:
        [inserted] = await self.store.jobs.insert([new_job(task, **options)])
        return inserted.id

    async def enqueue_many(self, count: int, task: str = TASK, **options: Any) -> list[JobId]:
        return ids(await self.store.jobs.insert([new_job(task, **options) for _ in range(count)]))

    async def insert(self, **options: Any) -> Inserted:
        [inserted] = await self.store.jobs.insert([new_job(**options)])
        return inserted

    # Workers

    async def hire(self, lease: float = 30.0, **options: Any) -> WorkerId:
        worker = new_worker(**options)
        await self.store.workers.register(worker, lease)
        return worker.id

    async def wrote_all(self, worker: WorkerId | None = None, lease: float = LONG) -> None:
        """The worker beats until the store knows that every end decided by now is written: the
        second beat speaks of the time of the first."""
        for _ in range(2):
            await self.store.workers.heartbeat(worker or self.worker, lease, [])

    async def lose(self, worker: WorkerId) -> None:
        """The worker dies in a way that shows at once."""
        await self.store.workers.deregister(worker)

    # Attempts

    async def claim(
        self,
        limit: int = 1,
        queue: str = QUEUE,
        *,
        worker: WorkerId | None = None,
        tasks: Sequence[str] = (TASK,),
        free: int = ALL,
        labels: Sequence[str] = (),
        only: Sequence[str] = (),
    ) -> list[Claimed]:
        wants = [Want(queue, limit, free)]
        return await self.store.jobs.claim(worker or self.worker, wants, tasks, labels, only)

    async def claim_one(self, queue: str = QUEUE, worker: WorkerId | None = None) -> Claimed:
        [claimed] = await self.claim(1, queue, worker=worker)
        return claimed

    async def finish(
        self, job: Claimed | Live, end: End = RETURNED, *, cancel_requested: bool = False
    ) -> Verdict:
        move = decide(job, end, cancel_requested=cancel_requested)
        [verdict] = await self.store.jobs.finish([move])
        return verdict

    async def reclaim(self, job: Live, end: End) -> Verdict:
        move = decide(job, end, cancel_requested=job.cancel_requested)
        [verdict] = await self.store.jobs.reclaim([move])
        return verdict

    # Jobs that are somewhere already

    async def running(self, *, worker: WorkerId | None = None, **options: Any) -> Claimed:
        """A job of a queue of its own kind, enqueued and claimed."""
        job = await self.enqueue(**options)
        claimed = await self.claim_one(options.get("queue", QUEUE), worker)
        assert claimed.id == job, "another job was ahead in the line"
        return claimed

    async def ended(self, end: End = RETURNED, **options: Any) -> Claimed:
        claimed = await self.running(**options)
        verdict = await self.finish(claimed, end)
        assert verdict.accepted
        return claimed

    async def in_state(self, state: JobState, **options: Any) -> JobId:  # noqa: C901 - one arm each
        """A job brought to a state by legal steps."""
        match state:
            case JobState.READY:
                return await self.enqueue(**options)
            case JobState.SCHEDULED:
                return await self.enqueue(delay=3600.0, **options)
            case JobState.RUNNING:
                return (await self.running(**options)).id
            case JobState.SUSPENDED:
                return (await self.ended(WasSuspended(None), **options)).id
            case JobState.SUCCEEDED:
                return (await self.ended(RETURNED, **options)).id
            case JobState.FAILED:
                return (await self.ended(FAILED, **options)).id
            case JobState.CANCELLED:
                return await self._ended_while_waiting(state, **options)
            case JobState.EXPIRED:
                return await self._ended_while_waiting(state, **options)
            case JobState.BLOCKED:
                return await self.enqueue(blocked=True, **options)
            case JobState.SKIPPED:
                job = await self.enqueue(blocked=True, **options)
                assert (await self.finish(await self.live(job), Skipped("not needed"))).accepted
                return job

    async def _ended_while_waiting(self, state: JobState, **options: Any) -> JobId:
        job = await self.enqueue(**options)
        end = Cancelled() if state is JobState.CANCELLED else DeadlinePassed()
        assert (await self.finish(await self.live(job), end)).accepted
        return job

    # Looking

    async def job(self, job: JobId) -> Job:
        [found] = await self.store.jobs.get([job])
        return found

    async def live(self, job: JobId) -> Live:
        [found] = await self.store.jobs.live([job])
        return found

    async def state(self, job: JobId) -> JobState | None:
        found = await self.store.jobs.get([job])
        return found[0].state if found else None

    async def states(self, jobs: Sequence[JobId]) -> list[JobState | None]:
        found = {job.id: job.state for job in await self.store.jobs.get(jobs)}
        return [found.get(job) for job in jobs]

    async def line(self, queue: str = QUEUE) -> list[JobId]:
        """Who would be served, in order; found by claiming all and handing all back."""
        claimed = await self.claim(1000, queue)
        await self.store.jobs.finish([decide(job, HandedBack()) for job in claimed])
        return ids(claimed)

    def after(self, seconds: float) -> datetime:
        """The instant that is so far from now on the scene's clock."""
        return ManualClock(self.clock.now).advance(seconds)


REACHABLE = tuple(JobState)
SNOOZED = Snoozed(60.0)


async def insert_within(jobs: Joining, connection: object, new: Sequence[NewJob]) -> list[Inserted]:
    return await jobs.within(connection, lambda on: on.insert(new))


def insert_within_sync(jobs: Joining, connection: object, new: Sequence[NewJob]) -> list[Inserted]:
    return jobs.within_sync(connection, lambda on: on.insert(new))
