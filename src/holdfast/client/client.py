"""The client: every verb of an opened store, for programs, the command line and HTTP.

The verbs on jobs are methods of `Client`. The verbs on queues, tasks, schedules, workers, the
audit, keys, operations and failures are methods of `client.queues`, `client.tasks`,
`client.schedules`, `client.workers`, `client.audit`, `client.keys`, `client.operations` and
`client.failures`. What each verb on jobs does, and in which states, is said in
`holdfast.operations.verbs`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec

from holdfast.client.acting import LONGEST_REASON, Acts
from holdfast.client.audit import AuditVerbs
from holdfast.client.editing import Editor, names_changed
from holdfast.client.inserting import Inserter
from holdfast.client.joining import Ambient
from holdfast.client.keys import KeyVerbs
from holdfast.client.queues import QueueVerbs
from holdfast.client.results import ResultWaiter, raise_unless_succeeded
from holdfast.client.searching import count_unsearched, require_searchable
from holdfast.client.selection import (
    PAGE_LIMIT,
    BulkCall,
    BulkReport,
    FilterWords,
    OnProgress,
    bulk_filter,
    change_all,
    job_filter,
)
from holdfast.client.tasks import TaskVerbs
from holdfast.client.workers import WorkerVerbs
from holdfast.enqueue.options import Seconds
from holdfast.errors import BadOption, UnknownJob
from holdfast.events import Events
from holdfast.handlers.registry import Handler
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.checks import check_job_id, known_job_id
from holdfast.job.json_text import read_json
from holdfast.job.record import Inserted, Job, NewJob
from holdfast.job.sealed import require_open, shown_job
from holdfast.job.state import JobState
from holdfast.operations.pages import narrowing
from holdfast.operations.rows import JobVerb
from holdfast.operations.verbs import (
    CANCEL,
    DELETE,
    MOVE,
    REPRIORITISE,
    REQUEUE,
    RESCHEDULE,
    RESUME,
)
from holdfast.store.contract.joining import JobsWithin, Work
from holdfast.store.contract.records import Page
from holdfast.store.contract.store import Store

if TYPE_CHECKING:
    from holdfast.client.failures import FailureVerbs
    from holdfast.client.flows import FlowVerbs
    from holdfast.client.operations import OperationVerbs
    from holdfast.client.schedules import ScheduleVerbs
    from holdfast.client.telemetry import TelemetryVerbs
    from holdfast.insights.explain import Explanation
    from holdfast.insights.life import Life
    from holdfast.insights.redaction import Redaction
    from holdfast.schedule.providers import Providers

T = TypeVar("T")


class Client:
    """The verbs of one opened store: those on jobs here, the others under their noun."""

    def __init__(
        self,
        store: Store,
        providers: Providers | None = None,
        events: Events | None = None,
        ambient: Ambient | None = None,
        tasks: Mapping[str, Handler] | None = None,
        max_payload: int | None = None,
        inserter: Inserter | None = None,
    ) -> None:
        """`tasks` are those that this program knows, for checking arguments."""
        self._acts = Acts(events)
        self._ambient = ambient or Ambient()
        self.queues = QueueVerbs(store, self._acts)
        self.tasks = TaskVerbs(store, self._acts, tasks)
        self.workers = WorkerVerbs(store, self._acts)
        self.audit = AuditVerbs(store)
        self.keys = KeyVerbs(store)
        self._store = store
        self._tasks = tasks
        self._providers = providers
        self._jobs = store.jobs
        self._inserter = inserter or Inserter(store.jobs)
        self._results = ResultWaiter(store.jobs)
        self._editor = Editor(tasks or {}, max_payload)

    @cached_property
    def schedules(self) -> ScheduleVerbs:
        """The verbs on schedules. They are imported with their first use, because they know how to
        read cron expressions and time zones, and most programs never ask them."""
        from holdfast.client.schedules import ScheduleVerbs

        return ScheduleVerbs(self._store, self._providers, self._acts)

    @cached_property
    def shown(self) -> Redaction:
        """How jobs may be shown to people: `await client.shown.job(await client.get(job_id))`.
        What a client answers has every value, because its caller is trusted."""
        from holdfast.insights.redaction import Redaction

        return Redaction(self._store, self._tasks)

    @cached_property
    def flows(self) -> FlowVerbs:
        """The verbs on flows, imported with their first use."""
        from holdfast.client.flows import FlowVerbs

        return FlowVerbs(self._store, self._acts)

    @cached_property
    def operations(self) -> OperationVerbs:
        """The verbs on operations. They are imported with their first use, because they can also
        work on an operation, which most programs leave to workers."""
        from holdfast.client.operations import OperationVerbs

        return OperationVerbs(self._store, self._acts)

    @cached_property
    def failures(self) -> FailureVerbs:
        """The verbs on failures. They are imported with their first use, as those on operations."""
        from holdfast.client.failures import FailureVerbs

        return FailureVerbs(self._store, self._acts, self.operations)

    @cached_property
    def telemetry(self) -> TelemetryVerbs:
        """What the store tells others; imported with its first use, as few programs tell it."""
        from holdfast.client.telemetry import TelemetryVerbs

        return TelemetryVerbs(self._store)

    async def aclose(self) -> None:
        await self._inserter.aclose()
        await self._results.aclose()

    async def _on_jobs(self, work: Work[T]) -> T:
        """Run verbs on jobs by their ids, in the ambient transaction if there is one."""
        return await self._ambient.run(self._jobs, work)

    # Enqueue -----------------------------------------------------------------------------

    def insert(self, job: NewJob) -> Coroutine[Any, Any, Inserted]:
        """Insert one job; concurrent calls share a round trip."""
        return self._inserter.insert(
            job
        )  # passed on: each enqueue would pay for a second coroutine

    async def insert_many(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Insert all of them; raises `PartlyInserted` if the store took some and refused others."""
        return await self._inserter.insert_many(jobs)

    # Reading -----------------------------------------------------------------------------

    async def get(self, job_id: str) -> Job:
        """Everything the store holds about one job; raises `UnknownJob` if it holds nothing."""
        known = known_job_id(job_id)
        found = await self._on_jobs(lambda jobs: jobs.get([known]))
        if not found:
            raise UnknownJob(job_id)
        return shown_job(found[0])

    async def page(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        look: int | None = None,
        **which: Unpack[FilterWords],
    ) -> Page:
        """Jobs that match, newest first. `cursor` is `next_cursor` of the page before.

        A page looks at a bounded number of jobs: at `look`, or at as many as its store reads in
        some tens of milliseconds. If few jobs match, it may be incomplete (`page.complete`), even
        empty; the others come after its cursor. All are found when `next_cursor` is None.
        """
        checks.count("limit", limit, most=PAGE_LIMIT)
        bound = None if look is None else checks.count("look", look)
        after = None if cursor is None else check_job_id(cursor)
        meant = job_filter(**which)
        page = await self._jobs.page(meant, limit, after, bound)
        unsearched = page.unsearched or await count_unsearched(self._jobs, meant, after)
        jobs = tuple(map(shown_job, page.jobs))
        return msgspec.structs.replace(page, jobs=jobs, unsearched=unsearched)

    async def count(self, **which: Unpack[FilterWords]) -> dict[JobState, int]:
        """How many jobs match, by state. Raises `Refused` if some that may match are encrypted
        with keys that this program does not have."""
        meant = job_filter(**which)
        await require_searchable(self._jobs, meant)
        return await self._jobs.count(meant)

    async def result(self, job_id: str, timeout: Seconds | None = None) -> Any:
        """The result as a JSON value, once the job has succeeded; a typed error otherwise. Only
        the task knows the type of its result: `task.job(job_id).result()` answers with that."""
        text = await self.result_json(job_id, timeout)
        return None if text is None else read_json("result", text)

    async def result_json(self, job_id: str, timeout: Seconds | None = None) -> str | None:
        """The result as JSON text, once the job has succeeded; a typed error otherwise."""
        seconds = None if timeout is None else checks.wait("timeout", timeout)
        outcome = await self._results.wait(known_job_id(job_id), seconds)
        raise_unless_succeeded(outcome)
        if outcome.result is not None:
            require_open(outcome.result)
        return outcome.result

    async def explain(self, job_id: str) -> Explanation:
        """Every reason why the job is not running now, and who can change it."""
        from holdfast.insights.explain import explain

        return await explain(self._store, await self.get(job_id))

    async def reveal(self, job_id: str, *, reason: str, by: str | None = None) -> Job:
        """The same as `get`, for a person who needs to see what is hidden. `by` says for whom, and
        the audit keeps the reason."""
        why = {"reason": checks.text("reason", reason, LONGEST_REASON)}
        meant = known_job_id(job_id)
        async with self._acts.act(self._store, by, Noun.JOBS, Verb.REVEAL, meant, value=why):
            return await self.get(meant)

    async def life(self, job_id: str) -> Life:
        """Everything that happened to the job, from its enqueue to now or to its end."""
        from holdfast.insights.life import life_of

        known = known_job_id(job_id)

        async def read(jobs: JobsWithin) -> Life:
            found = await jobs.get([known])
            if not found:
                raise UnknownJob(job_id)
            return life_of(shown_job(found[0]), await jobs.life([known]))

        return await self._on_jobs(read)

    # Operators' verbs, on one job -----------------------------------------------------------

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

    # Operators' verbs, on every job of a filter ----------------------------------------------

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
