"""Every verb on jobs, queues and workers, for programs and for the command line.

The client decides with the same pure function as the worker (`outcome.decide`)
and leaves the guarding to the store: a verb that loses a race looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.client.inserting import Inserter
from holdfast.client.queues import QueueVerbs
from holdfast.client.results import ResultWaiter, raise_unless_succeeded
from holdfast.client.schedules import ScheduleVerbs
from holdfast.client.selection import BULK, BulkReport, OnProgress, Verb, change_all, job_filter
from holdfast.client.workers import WorkerVerbs
from holdfast.enqueue.options import Seconds
from holdfast.errors import Refused, UnknownJob
from holdfast.insights.explain import Explanation, explain
from holdfast.job import checks
from holdfast.job.checks import check_job_id, check_name, check_priority
from holdfast.job.ends import Cancelled
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Inserted, Job, Live, NewJob
from holdfast.job.state import ENDED, LIVE, WAITING, JobState
from holdfast.schedule.providers import Providers
from holdfast.store.contract.records import Page
from holdfast.store.contract.store import Store

RACES = 10


class Client:
    """The verbs of one opened store: those on jobs here, the others under their noun."""

    def __init__(self, store: Store, providers: Providers | None = None) -> None:
        self.queues = QueueVerbs(store)
        self.schedules = ScheduleVerbs(store, providers or Providers())
        self.workers = WorkerVerbs(store)
        self._store = store
        self._jobs = store.jobs
        self._inserter = Inserter(store.jobs)
        self._results = ResultWaiter(store.jobs)

    async def aclose(self) -> None:
        await self._inserter.aclose()
        await self._results.aclose()

    # Enqueue -----------------------------------------------------------------------------

    async def insert(self, job: NewJob) -> Inserted:
        """Insert one job; concurrent calls share a round trip."""
        return await self._inserter.insert(job)

    async def insert_many(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Insert all of them; raises `PartlyInserted` if the store took some and refused others."""
        return await self._inserter.insert_many(jobs)

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
        self, *, dry_run: bool = False, on_progress: OnProgress | None = None, **which: Any
    ) -> BulkReport:
        """Cancel every live job that matches. `on_progress(done, matched)` shows progress."""
        return await self._bulk(which, LIVE, self._cancel, dry_run, on_progress)

    async def requeue_all(
        self, *, dry_run: bool = False, on_progress: OnProgress | None = None, **which: Any
    ) -> BulkReport:
        """Requeue every ended job that matches (failed ones, unless states are named)."""
        which.setdefault("states", frozenset({JobState.FAILED}))
        return await self._bulk(which, ENDED, self._jobs.requeue, dry_run, on_progress)

    async def delete_all(
        self, *, dry_run: bool = False, on_progress: OnProgress | None = None, **which: Any
    ) -> BulkReport:
        """Remove every ended job that matches."""
        return await self._bulk(which, ENDED, self._jobs.delete, dry_run, on_progress)

    async def move_all(
        self,
        queue: str,
        *,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        **which: Any,
    ) -> BulkReport:
        """Put every waiting job that matches in another queue."""
        check_name("queue", queue)
        return await self._bulk(
            which, WAITING, lambda ids: self._jobs.move(ids, queue), dry_run, on_progress
        )

    async def reprioritise_all(
        self,
        priority: int,
        *,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        **which: Any,
    ) -> BulkReport:
        """Give every waiting job that matches another priority."""
        check_priority(priority)
        return await self._bulk(
            which, WAITING, lambda ids: self._jobs.reprioritise(ids, priority), dry_run, on_progress
        )

    async def reschedule_all(
        self,
        delay: Seconds,
        *,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        **which: Any,
    ) -> BulkReport:
        """Make every scheduled or ready job that matches due after `delay` seconds (scheduled
        ones, unless states are named)."""
        wait = checks.wait("delay", delay)
        which.setdefault("states", frozenset({JobState.SCHEDULED}))
        return await self._bulk(
            which, RESCHEDULABLE, lambda ids: self._jobs.reschedule(ids, wait), dry_run, on_progress
        )

    async def resume_all(
        self, *, dry_run: bool = False, on_progress: OnProgress | None = None, **which: Any
    ) -> BulkReport:
        """Let every suspended job that matches go on now."""
        return await self._bulk(
            which, frozenset({JobState.SUSPENDED}), self._jobs.resume, dry_run, on_progress
        )

    async def _bulk(
        self,
        which: dict[str, Any],
        allowed: frozenset[JobState],
        verb: Verb,
        dry_run: bool,
        on_progress: OnProgress | None,
    ) -> BulkReport:
        meant = job_filter(**which)
        return await change_all(
            self._jobs, meant, allowed, verb, dry_run=dry_run, on_progress=on_progress
        )


RESCHEDULABLE = frozenset({JobState.READY, JobState.SCHEDULED})
