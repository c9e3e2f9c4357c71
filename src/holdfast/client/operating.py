"""What operators do to jobs: to one, and to every job of a filter.

What each verb does, and in which states, is said in `holdfast.operations.job_verbs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, Unpack

import msgspec

from holdfast.client.acting import Acts
from holdfast.client.editing import Editor, names_changed
from holdfast.client.joining import Ambient
from holdfast.client.selection import (
    BulkCall,
    BulkReport,
    FilterWords,
    OnProgress,
    bulk_filter,
    change_all,
)
from holdfast.enqueue.options import Seconds
from holdfast.errors import BadOption, UnknownJob
from holdfast.insights.actions import Noun, Verb
from holdfast.job.checks import known_job_id
from holdfast.job.record import Job
from holdfast.job.sealed import shown_job
from holdfast.job.state import JobState
from holdfast.operations.job_verbs import (
    CANCEL,
    DELETE,
    MOVE,
    REPRIORITISE,
    REQUEUE,
    RESCHEDULE,
    RESUME,
)
from holdfast.operations.pages import narrowing
from holdfast.operations.rows import JobVerb
from holdfast.store.contract.joining import JobsWithin, Work
from holdfast.store.contract.store import Store

T = TypeVar("T")


class OperatorVerbs:
    """The part of `Client` that changes jobs."""

    def __init__(self, store: Store, acts: Acts, ambient: Ambient, editor: Editor) -> None:
        self._store = store
        self._jobs = store.jobs
        self._acts = acts
        self._ambient = ambient
        self._editor = editor

    async def _on_jobs(self, work: Work[T]) -> T:
        """Run verbs on jobs by their ids, in the ambient transaction if there is one."""
        return await self._ambient.run(self._jobs, work)

    async def get(self, job_id: str) -> Job:
        """Everything the store holds about one job; raises `UnknownJob` if it holds nothing."""
        from holdfast.insights.causes import jobs_with_reasons  # it brings flows, which few have

        known = known_job_id(job_id)

        async def read(jobs: JobsWithin) -> list[Job]:
            return await jobs_with_reasons(jobs, await jobs.get([known]))

        for job in await self._on_jobs(read):
            return shown_job(job)
        raise UnknownJob(job_id)

    # On one job ------------------------------------------------------------------------------

    async def apply(
        self, row: JobVerb, job_id: str, value: object = None, *, by: str | None = None
    ) -> None:
        """Apply a verb of the table to one job. Raises `Refused` if its state does not allow
        that. `by` says for whom: the act is then written to the audit, in the ambient transaction
        if there is one, and reported in the event `operator.acted`."""
        checked, meant = row.checked(value), known_job_id(job_id)

        async def work(jobs: JobsWithin) -> None:
            async with self._acts.act(jobs, by, Noun.JOBS, row.verb, meant, value=checked) as act:
                found = await jobs.get([meant])
                if not found:
                    raise UnknownJob(job_id)
                act.changed = int(await row.change_one(jobs, found[0], checked, by))

        await self._on_jobs(work)

    async def cancel(self, job_id: str, *, by: str | None = None) -> JobState:
        """Cancel one job: a waiting job ends now, a running job is told to. Returns the state
        that the job is in afterwards."""
        await self.apply(CANCEL, job_id, by=by)
        return (await self.get(job_id)).state

    async def requeue(self, job_id: str, *, by: str | None = None) -> None:
        """Run an ended job again, with all its attempts; its error history is kept."""
        await self.apply(REQUEUE, job_id, by=by)

    async def reprioritise(self, job_id: str, priority: int, *, by: str | None = None) -> None:
        """Give a waiting job another priority: lower runs first."""
        await self.apply(REPRIORITISE, job_id, priority, by=by)

    async def move(self, job_id: str, queue: str, *, by: str | None = None) -> None:
        """Put a waiting job in another queue."""
        await self.apply(MOVE, job_id, queue, by=by)

    async def reschedule(
        self,
        job_id: str,
        delay: Seconds | None = None,
        *,
        at: datetime | None = None,
        by: str | None = None,
    ) -> None:
        """Make a ready or scheduled job due after `delay` seconds (0 means now), or `at` a time,
        of which the store's clock decides whether it has come."""
        await self.apply(RESCHEDULE, job_id, _one_of(delay, at), by=by)

    async def edit(
        self,
        job_id: str,
        *,
        args: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        by: str | None = None,
    ) -> None:
        """Change arguments or tags of a waiting job. Arguments that `args` does not name stay as
        they are. They are checked as a call, if this program knows the job's task. The job's
        unique key stays, also one that was made of arguments."""
        meant, changes = known_job_id(job_id), names_changed(args, tags)

        async def work(jobs: JobsWithin) -> None:
            async with self._acts.act(jobs, by, Noun.JOBS, Verb.EDIT, meant, value=changes) as act:
                await self._editor.edit(jobs, meant, args, tags, by)
                act.changed = 1

        await self._on_jobs(work)

    async def resume(self, job_id: str, *, by: str | None = None) -> None:
        """Let a suspended job go on as the same attempt."""
        await self.apply(RESUME, job_id, by=by)

    async def delete(self, job_id: str, *, by: str | None = None) -> None:
        """Remove an ended job and its history."""
        await self.apply(DELETE, job_id, by=by)

    # On every job of a filter ----------------------------------------------------------------

    async def apply_all(
        self,
        row: JobVerb,
        value: object = None,
        *,
        everything: bool = False,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        by: str | None = None,
        **which: Unpack[FilterWords],
    ) -> BulkReport:
        """Apply a verb of the table to every job that matches; `which` as in `job_filter`. A call
        without any filter is refused, unless it says `everything=True`.

        With `dry_run` the jobs are only counted. `on_progress(done, matched)` is called after
        each page. An act that breaks off is in the audit too: `changed` says how far it came.
        """
        checked, meant = row.checked(value), bulk_filter(everything, **which)
        words = narrowing(msgspec.to_builtins(meant))
        who = None if dry_run else by
        acting = self._acts.act(
            self._store, who, Noun.JOBS, row.verb, which=words, value=checked, long=True
        )
        async with acting as act:

            def note(done: int, matched: int) -> None:
                act.changed = done
                if on_progress is not None:
                    on_progress(done, matched)

            return await change_all(self._jobs, meant, row, checked, dry_run, note, by)

    async def cancel_all(self, **which: Unpack[BulkCall]) -> BulkReport:
        """Cancel every live job that matches."""
        return await self.apply_all(CANCEL, **which)

    async def requeue_all(self, **which: Unpack[BulkCall]) -> BulkReport:
        """Requeue every ended job that matches (failed ones, unless states are named)."""
        return await self.apply_all(REQUEUE, **which)

    async def delete_all(self, **which: Unpack[BulkCall]) -> BulkReport:
        """Remove every ended job that matches."""
        return await self.apply_all(DELETE, **which)

    async def move_all(self, queue: str, /, **which: Unpack[BulkCall]) -> BulkReport:
        """Put every waiting job that matches in another queue."""
        return await self.apply_all(MOVE, queue, **which)

    async def reprioritise_all(self, priority: int, /, **which: Unpack[BulkCall]) -> BulkReport:
        """Give every waiting job that matches another priority."""
        return await self.apply_all(REPRIORITISE, priority, **which)

    async def reschedule_all(
        self,
        delay: Seconds | None = None,
        /,
        *,
        at: datetime | None = None,
        **which: Unpack[BulkCall],
    ) -> BulkReport:
        """Make every scheduled or ready job that matches due after `delay` seconds, or `at` a time
        (scheduled ones, unless states are named)."""
        return await self.apply_all(RESCHEDULE, _one_of(delay, at), **which)

    async def resume_all(self, **which: Unpack[BulkCall]) -> BulkReport:
        """Let every suspended job that matches go on now."""
        return await self.apply_all(RESUME, **which)


def _one_of(delay: Seconds | None, at: datetime | None) -> object:
    if (delay is None) == (at is None):
        got = "neither" if delay is None else "both"
        raise BadOption("delay and at", "one of the two", got)
    return delay if at is None else at
