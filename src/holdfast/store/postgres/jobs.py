"""Jobs on Postgres: each verb is a script, or a small class of its own where it is more."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import asyncpg

from holdfast.errors import KeyHeld, RowRefused, StoreUnavailable
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import Transition
from holdfast.job.record import Claimed, Inserted, Job, Live, NewJob
from holdfast.job.state import JobState
from holdfast.store import borrowing
from holdfast.store.contract.records import (
    JobFilter,
    Outcome,
    Page,
    ProgressReport,
    Promoted,
    Verdict,
    Want,
    WorkerInfo,
)
from holdfast.store.postgres import rows
from holdfast.store.postgres.claiming import Claimer
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.copying import can_copy, copy_jobs
from holdfast.store.postgres.finishing import Finisher, Reclaim
from holdfast.store.postgres.inserting import Rows, Step, insertion, insertion_within
from holdfast.store.postgres.keys import A_TRY, held_among, keys_of, milliseconds, waited_in_vain
from holdfast.store.postgres.pool import Line
from holdfast.store.postgres.progressing import progress_columns
from holdfast.store.postgres.reading import Reader
from holdfast.store.postgres.sweeping import Promoter, Pruner


class PostgresJobs:
    """See `holdfast.store.contract.jobs.Jobs` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._channel = connections.options.channel
        self._claimer = Claimer(connections)
        self._finisher = Finisher(connections)
        self._reader = Reader(connections)
        self._promoter = Promoter(connections)
        self._pruner = Pruner(connections)

    # Coming in -----------------------------------------------------------------------------

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        if not jobs:
            return []
        plain = all(job.unique is None for job in jobs)
        if can_copy(jobs) and await self._copied(jobs):
            return [Inserted(job.id, "created") for job in jobs]

        if plain:
            return await self._connections.run(lambda line: self._steps(line, jobs))
        return await self._insert_keyed(jobs)

    async def _steps(self, line: Line, jobs: Sequence[NewJob]) -> list[Inserted]:
        scripts = self._connections.scripts
        walk = insertion(jobs, self._now(), self._channel, milliseconds(A_TRY))
        return await borrowing.drive(
            walk, lambda step: line.fetch(scripts[step.verb], *step.values)
        )

    async def _insert_keyed(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Once more if no key is held any more: then many wanted it, one after the other."""
        patience = self._connections.options.key_timeout
        give_up = time.monotonic() + patience
        while True:
            try:
                return await self._connections.run(
                    lambda line: self._steps(line, jobs), transaction=True
                )
            except StoreUnavailable as error:
                if not waited_in_vain(error) or time.monotonic() > give_up:
                    raise
                if held := await held_among(self._connections, keys_of(jobs)):
                    raise KeyHeld(held, patience) from error

    async def _copied(self, jobs: Sequence[NewJob]) -> bool:
        """False if an id is there already: a repeated insert, to be checked one by one."""
        try:
            await self._connections.run(
                lambda line: copy_jobs(self._connections, line, jobs), transaction=True
            )
        except RowRefused as error:
            if isinstance(error.__cause__, asyncpg.UniqueViolationError):
                return False
            raise
        return True

    async def insert_within(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        line = borrowing.recognise(connection)
        if not jobs:
            return []
        scripts = self._connections.scripts
        with self._naming_keys(jobs):
            return await borrowing.drive(
                self._walk_within(jobs), lambda step: line.fetch(scripts[step.verb], step.values)
            )

    def insert_within_sync(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        line = borrowing.recognise_sync(connection)
        if not jobs:
            return []
        scripts = self._connections.scripts
        with self._naming_keys(jobs):
            return borrowing.drive_sync(
                self._walk_within(jobs),
                lambda step: line.fetch_sync(scripts[step.verb], step.values),
            )

    def _walk_within(self, jobs: Sequence[NewJob]) -> Generator[Step, Rows, list[Inserted]]:
        wait = milliseconds(self._connections.options.key_timeout)
        return insertion_within(jobs, self._now(), self._channel, wait)

    @contextmanager
    def _naming_keys(self, jobs: Sequence[NewJob]) -> Iterator[None]:
        """Tell a wait in vain as what it is. The caller's transaction cannot go on after it,
        so which of several keys it was cannot be asked any more."""
        try:
            yield
        except Exception as error:
            if waited_in_vain(error) and (keys := keys_of(jobs)):
                raise KeyHeld(keys, self._connections.options.key_timeout) from error
            raise

    # An attempt ----------------------------------------------------------------------------

    async def claim(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]
    ) -> list[Claimed]:
        return await self._claimer.claim(worker, wants, tasks)

    async def finish(self, transitions: Sequence[Transition]) -> list[Verdict]:
        return await self._finish(transitions)

    async def reclaim(
        self, transitions: Sequence[Transition], by: WorkerInfo | None = None
    ) -> list[Verdict]:
        return await self._finish(transitions, Reclaim(by))

    async def _finish(
        self, transitions: Sequence[Transition], reclaim: Reclaim | None = None
    ) -> list[Verdict]:
        if not transitions:
            return []
        verdicts = await self._finisher.finish(transitions, reclaim)
        if any(end.to is JobState.READY for end in transitions):
            self._claimer.skip.forget()
        return verdicts

    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        if not reports:
            return []
        kept = await self._connections.timed("jobs/report_progress", *progress_columns(reports))
        held = {(str(row[0]), row[1]) for row in kept}
        return [(report.id, report.fence) in held for report in reports]

    # What time and operators do ------------------------------------------------------------

    async def lapsed_leases(self, limit: int, after: str | None = None) -> list[Live]:
        found = await self._connections.timed("jobs/lapsed_leases", limit, after)
        return [rows.live(row) for row in found]

    async def overdue_attempts(
        self, limit: int, after: str | None = None, slack: float = 0.0
    ) -> list[Live]:
        found = await self._connections.timed("jobs/overdue_attempts", limit, after, slack)
        return [rows.live(row) for row in found]

    async def past_deadline(self, limit: int, after: str | None = None) -> list[Live]:
        """Pages that held nothing but ended jobs are passed over: they are gone by now."""
        while True:
            seen = await self._connections.timed("jobs/past_deadline", limit, after)
            live = [rows.live(row) for row in seen if row["state"] is not None]
            if live or len(seen) < limit:
                return live
            after = str(seen[-1][0])

    async def next_deadline_in(self) -> float | None:
        found = await self._connections.timed("jobs/next_deadline_in")
        return None if found[0][0] is None else float(found[0][0])

    async def live(self, ids: Sequence[JobId]) -> list[Live]:
        found = await self._connections.fetch("jobs/live", list(dict.fromkeys(ids)))
        return [rows.live(row) for row in found]

    async def promote_due(self, limit: int) -> Promoted:
        return await self._promoter.promote(limit)

    async def due(self, limit: int, after: str | None = None) -> list[JobId]:
        return [JobId(row[0]) for row in await self._connections.timed("jobs/due", limit, after)]

    async def promote(self, ids: Sequence[JobId]) -> int:
        if not ids:
            return 0
        found = await self._connections.timed("jobs/promote", self._channel, list(ids))
        return int(found[0][0])

    async def resume(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._moved("jobs/resume", self._now(), self._channel, list(ids))

    async def request_cancel(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._moved("jobs/request_cancel", self._now(), self._channel, list(ids))

    async def requeue(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._moved("jobs/requeue", self._now(), self._channel, list(ids))

    async def reschedule(self, ids: Sequence[JobId], delay: float) -> list[JobId]:
        distinct = list(dict.fromkeys(ids))
        no_time, delays = [None] * len(distinct), [delay] * len(distinct)
        return await self._moved(
            "jobs/reschedule", self._now(), self._channel, distinct, no_time, delays
        )

    async def reprioritise(self, ids: Sequence[JobId], priority: int) -> list[JobId]:
        return await self._moved("jobs/reprioritise", list(ids), priority)

    async def move(self, ids: Sequence[JobId], queue: str) -> list[JobId]:
        return await self._moved("jobs/move", self._channel, list(ids), queue)

    async def delete(self, ids: Sequence[JobId]) -> list[JobId]:
        return await self._moved("jobs/delete", list(ids))

    async def prune(self, limit: int) -> int:
        return await self._pruner.prune(limit)

    def _now(self) -> datetime | None:
        return self._connections.clock.override()

    async def _moved(self, verb: str, *values: object) -> list[JobId]:
        """Run a verb that answers with the ids it changed. It may have put a job in front of
        where the last claim began."""
        self._claimer.skip.forget()
        found = await self._connections.fetch(verb, *values)
        self._claimer.skip.forget()
        return [JobId(str(row[0])) for row in found]

    # Reading -------------------------------------------------------------------------------

    async def get(self, ids: Sequence[JobId]) -> list[Job]:
        return await self._reader.get(ids)

    async def ahead(self, job_id: JobId) -> int:
        return int((await self._connections.fetch("jobs/ahead", job_id))[0][0])

    async def outcomes(self, ids: Sequence[JobId]) -> list[Outcome]:
        return await self._reader.outcomes(ids)

    async def page(self, which: JobFilter, limit: int, cursor: str | None = None) -> Page:
        return await self._reader.page(which, limit, cursor)

    async def count(self, which: JobFilter) -> dict[JobState, int]:
        return await self._reader.count(which)
