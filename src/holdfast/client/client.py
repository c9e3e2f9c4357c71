"""Every verb on jobs, queues and workers, for programs and for the command line.

The client decides with the same pure function as the worker (`outcome.decide`)
and leaves the guarding to the store: a verb that loses a race looks again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.client.results import ResultWaiter, raise_unless_succeeded
from holdfast.client.schedules import ScheduleVerbs
from holdfast.client.selection import BULK, BulkReport, InotifyChanges, Verb, change_all, job_filter
from holdfast.enqueue.batcher import Batcher
from holdfast.enqueue.options import Seconds
from holdfast.errors import (
    BadOption,
    HoldfastError,
    IdTaken,
    KeyHeld,
    PartlyInserted,
    Refused,
    StoreUnavailable,
    UnknownJob,
)
from holdfast.insights.explain import Explanation, explain
from holdfast.job import checks
from holdfast.job.checks import check_job_id, check_name, check_priority
from holdfast.job.ends import Cancelled
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Inserted, Job, Live, NewJob
from holdfast.job.state import ENDED, LIVE, WAITING, JobState
from holdfast.schedule.providers import Providers
from holdfast.store.contract.records import Page, QueueInfo, QueueSettings, WorkerInfo
from holdfast.store.contract.store import Store

T = TypeVar("T")
ENQUEUE_PATIENCE = 10.0
RACES = 10


class Client(ScheduleVerbs):
    """The verbs of one opened store."""

    def __init__(self, store: Store, providers: Providers | None = None) -> None:
        super().__init__(store, providers or Providers())
        self._jobs = store.jobs
        self._inserts: Batcher[NewJob, Inserted | HoldfastError] = Batcher(self._insert_each)
        self._keyed: Batcher[NewJob, Inserted | HoldfastError] = Batcher(self._insert_each)
        self._results = ResultWaiter(store.jobs)

    async def aclose(self) -> None:
        await self._inserts.aclose()
        await self._keyed.aclose()
        await self._results.aclose()

    # Enqueue -----------------------------------------------------------------------------

    async def insert(self, job: NewJob) -> Inserted:
        """One job; concurrent calls share round trips, those with a unique key apart from
        those without, since a key may have to be waited for."""
        if job.unique is None:
            answer = await self._inserts.submit(job)
            if type(answer) is Inserted and answer.how == "created":
                return answer
            return stands(job, answer)
        return await _while_held(lambda: self._insert_keyed(job))

    async def insert_many(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Raises `PartlyInserted` when the store took some of them and refused the others."""
        return await _while_held(lambda: self._insert(jobs))

    async def _insert_keyed(self, job: NewJob) -> Inserted:
        return stands(job, await self._keyed.submit(job))

    async def _insert_each(self, jobs: Sequence[NewJob]) -> Sequence[Inserted | HoldfastError]:
        """Callers that share a round trip do not share a refusal: whose job stands hears so, and
        a key that another transaction holds keeps only its own callers waiting."""
        try:
            return await self._insert(jobs)
        except PartlyInserted as error:
            return [answer or error.reason for answer in error.answers]
        except KeyHeld as held:
            free = [job for job in jobs if _key(job) not in held.keys]
            answers = iter(await self._insert_each(free) if free else ())
            return [held if _key(job) in held.keys else next(answers) for job in jobs]

    async def _insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Repeated over short outages: the ids are ours, so a repeat adds nothing twice."""
        return await _patiently(lambda: self._jobs.insert(jobs), ENQUEUE_PATIENCE)

    # Reading -----------------------------------------------------------------------------

    async def get(self, job_id: str) -> Job:
        found = await self._jobs.get([check_job_id(job_id)])
        if not found:
            raise UnknownJob(job_id)
        return found[0]

    async def page(self, *, limit: int = 50, cursor: str | None = None, **which: Any) -> Page:
        """Jobs newest first; `which` as in `job_filter`."""
        checks.count("limit", limit, most=BULK)
        after = None if cursor is None else check_job_id(cursor)
        return await self._jobs.page(job_filter(**which), limit, after)

    async def count(self, **which: Any) -> dict[JobState, int]:
        return await self._jobs.count(job_filter(**which))

    async def result(self, job_id: str, timeout: Seconds | None = None) -> str | None:
        """The result as JSON text, once the job has succeeded; a typed error otherwise."""
        seconds = None if timeout is None else checks.wait("timeout", timeout)
        outcome = await self._results.wait(check_job_id(job_id), seconds)
        raise_unless_succeeded(outcome)
        return outcome.result

    async def explain(self, job_id: str) -> Explanation:
        """Every reason why the job is not running now, and who can change it."""
        return await explain(self._store, await self.get(job_id))

    # Verbs on chosen jobs ----------------------------------------------------------------

    async def cancel(self, job_id: str) -> JobState:
        """Cancel one job. A waiting one ends now; a running one is told to.

        Returns the state it is in after that.
        """
        job = await self.get(job_id)
        await self._cancel([job.id])
        return (await self.get(job_id)).state

    async def requeue(self, job_id: str) -> None:
        """Run an ended job again, with all its attempts; its error history is kept."""
        job = await self.get(job_id)
        if not await self._jobs.requeue([job.id]):
            raise Refused(
                f"job {job_id} is {job.state}: only an ended job can be requeued"
                if not job.ended
                else f"job {job_id}: another job holds its unique key {job.unique_key!r}"
            )

    async def reprioritise(self, job_id: str, priority: int) -> None:
        check_priority(priority)
        await self._change(job_id, WAITING, lambda ids: self._jobs.reprioritise(ids, priority))

    async def move(self, job_id: str, queue: str) -> None:
        check_name("queue", queue)
        await self._change(job_id, WAITING, lambda ids: self._jobs.move(ids, queue))

    async def reschedule(self, job_id: str, delay: Seconds) -> None:
        """Make a ready or scheduled job due after `delay` seconds; 0 means now."""
        wait = checks.wait("delay", delay)
        await self._change(job_id, RESCHEDULABLE, lambda ids: self._jobs.reschedule(ids, wait))

    async def resume(self, job_id: str) -> None:
        """Let a suspended job go on as the same attempt."""
        await self._change(job_id, frozenset({JobState.SUSPENDED}), self._jobs.resume)

    async def delete(self, job_id: str) -> None:
        """Remove an ended job and its history."""
        await self._change(job_id, ENDED, self._jobs.delete)

    async def _change(
        self,
        job_id: str,
        states: frozenset[JobState],
        verb: Verb,
    ) -> None:
        job = await self.get(job_id)
        if not await verb([job.id]):
            allowed = ", ".join(sorted(states))
            raise Refused(f"job {job_id} is {job.state}: this needs a job that is {allowed}")

    async def _cancel(self, ids: Sequence[JobId]) -> list[JobId]:
        """Cancel what is live; a job that moved between the look and the write is looked
        at again, a bounded number of times."""
        done: list[JobId] = []
        left = list(ids)
        for _ in range(RACES):
            live = await self._jobs.live(left)
            if not live:
                break
            told = await self._jobs.request_cancel(
                [job.id for job in live if job.state is JobState.RUNNING]
            )
            ended = await self._end_waiting([job for job in live if job.state in WAITING])
            reached = {*told, *ended}
            done += reached
            left = [job.id for job in live if job.id not in reached]
        return done

    async def _end_waiting(self, waiting: Sequence[Live]) -> list[JobId]:
        verdicts = await self._jobs.finish([decide(job, Cancelled()) for job in waiting])
        return [verdict.id for verdict in verdicts if verdict.accepted]

    # Verbs on many jobs by filter -----------------------------------------------------------

    async def cancel_all(
        self, *, dry_run: bool = False, told: InotifyChanges | None = None, **which: Any
    ) -> BulkReport:
        """Cancel every live job that matches. `told(done, matched)` shows progress."""
        return await self._bulk(which, LIVE, self._cancel, dry_run, told)

    async def requeue_all(
        self, *, dry_run: bool = False, told: InotifyChanges | None = None, **which: Any
    ) -> BulkReport:
        """Requeue every ended job that matches (failed ones, unless states are named)."""
        which.setdefault("states", frozenset({JobState.FAILED}))
        return await self._bulk(which, ENDED, self._jobs.requeue, dry_run, told)

    async def delete_all(
        self, *, dry_run: bool = False, told: InotifyChanges | None = None, **which: Any
    ) -> BulkReport:
        """Remove every ended job that matches."""
        return await self._bulk(which, ENDED, self._jobs.delete, dry_run, told)

    async def move_all(
        self, queue: str, *, dry_run: bool = False, told: InotifyChanges | None = None, **which: Any
    ) -> BulkReport:
        """Put every waiting job that matches in another queue."""
        check_name("queue", queue)
        return await self._bulk(
            which, WAITING, lambda ids: self._jobs.move(ids, queue), dry_run, told
        )

    async def reprioritise_all(
        self,
        priority: int,
        *,
        dry_run: bool = False,
        told: InotifyChanges | None = None,
        **which: Any,
    ) -> BulkReport:
        """Give every waiting job that matches another priority."""
        check_priority(priority)
        return await self._bulk(
            which, WAITING, lambda ids: self._jobs.reprioritise(ids, priority), dry_run, told
        )

    async def reschedule_all(
        self,
        delay: Seconds,
        *,
        dry_run: bool = False,
        told: InotifyChanges | None = None,
        **which: Any,
    ) -> BulkReport:
        """Make every scheduled or ready job that matches due after `delay` seconds (scheduled
        ones, unless states are named)."""
        wait = checks.wait("delay", delay)
        which.setdefault("states", frozenset({JobState.SCHEDULED}))
        return await self._bulk(
            which, RESCHEDULABLE, lambda ids: self._jobs.reschedule(ids, wait), dry_run, told
        )

    async def resume_all(
        self, *, dry_run: bool = False, told: InotifyChanges | None = None, **which: Any
    ) -> BulkReport:
        """Let every suspended job that matches go on now."""
        return await self._bulk(
            which, frozenset({JobState.SUSPENDED}), self._jobs.resume, dry_run, told
        )

    async def _bulk(
        self,
        which: dict[str, Any],
        allowed: frozenset[JobState],
        verb: Verb,
        dry_run: bool,
        told: InotifyChanges | None,
    ) -> BulkReport:
        meant = job_filter(**which)
        return await change_all(self._jobs, meant, allowed, verb, dry_run=dry_run, told=told)

    # Queues and workers -------------------------------------------------------------------

    async def queues(self, *names: str) -> list[QueueInfo]:
        return await self._store.queues.list(names)

    async def pause_queue(self, name: str) -> None:
        """Stop claims from a queue; what runs goes on."""
        check_name("queue", name)
        await self._store.queues.pause([name])

    async def resume_queue(self, name: str) -> None:
        check_name("queue", name)
        await self._store.queues.resume([name])

    async def tune_queue(self, name: str, **changes: float | None) -> QueueSettings:
        """Change some settings of a queue; a redeploy never overwrites them."""
        check_name("queue", name)
        known = QueueSettings.__struct_fields__
        for option, value in changes.items():
            if option not in known:
                raise BadOption("queue setting", f"one of {', '.join(known)}", option)
            if value is not None or not option.startswith("retain_"):
                changes[option] = checks.seconds(option, value)
        found = await self._store.queues.list([name])
        settings = msgspec.structs.replace(
            found[0].settings if found else QueueSettings(), **changes
        )
        await self._store.queues.tune(name, settings)
        return settings

    async def workers(self) -> list[WorkerInfo]:
        return await self._store.workers.list()


RESCHEDULABLE = frozenset({JobState.READY, JobState.SCHEDULED})


async def _patiently(call: Callable[[], Awaitable[T]], patience: float) -> T:
    """Repeat a call over an outage of at most `patience` seconds, with growing waits."""
    loop = asyncio.get_running_loop()
    until, wait = loop.time() + patience, 0.05
    while True:
        try:
            return await call()
        except StoreUnavailable:
            if loop.time() + wait > until:
                raise
            await asyncio.sleep(wait * (0.5 + random.random()))
            wait = min(2.0, wait * 2)


async def _while_held(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call while an open transaction holds its unique key, as long as the store wants."""
    loop = asyncio.get_running_loop()
    began, wait = loop.time(), 0.05
    while True:
        try:
            return await call()
        except KeyHeld as held:
            if loop.time() + wait > began + held.patience:
                raise
            await asyncio.sleep(wait * (0.5 + random.random()))
            wait = min(0.5, wait * 2)


def stands(job: NewJob, answer: Inserted | HoldfastError) -> Inserted:
    """The answer to one caller of a shared round trip: a refusal is an error of its own job only,
    and a held key is named to who asked for it."""
    if isinstance(answer, KeyHeld):
        raise KeyHeld([_key(job)], answer.patience)
    if isinstance(answer, HoldfastError):
        raise answer
    if answer.how == "taken":
        raise IdTaken(job.id, job.task)
    return answer


def _key(job: NewJob) -> str:
    return job.unique.key if job.unique is not None else ""
