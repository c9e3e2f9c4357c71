"""Jobs that the store shows as running here and that this worker does not hold.

When the answer to a claim is lost, the store may still have applied the claim. It then shows the
jobs as running under this worker's name, the heartbeats keep their lease alive, and nobody would
ever run them. So after every claim without an answer the worker compares the jobs that run under
its name with those that it holds, and hands back the others.

A server that lost its last writes shows attempts that this worker has ended (`PastEnds`). These are
not handed back as if they had not begun: the worker writes their ends again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from holdfast.errors import StoreUnavailable
from holdfast.job.ends import HandedBack
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Live
from holdfast.job.state import JobState
from holdfast.job.text import describe
from holdfast.store.contract.filters import JobFilter
from holdfast.worker.finisher import Finisher
from holdfast.worker.identity import Identity
from holdfast.worker.past_ends import Attempts
from holdfast.worker.permits import Permits
from holdfast.worker.runner import Runner
from holdfast.worker.setup import WorkerSetup

SEARCH_BATCH = 500


class LostClaims:
    """Searches for lost jobs when told to, as soon as the store answers, and once more a lease
    later: the store may apply a claim after the first search, although its answer was given up.
    `claiming` says that a claim is on its way; the fetcher sets it. `returned` are the attempts,
    by job and fence, that were handed back as lost. A store may answer a claim late, or answer it
    again; if such a job began then, it would run twice."""

    def __init__(
        self,
        setup: WorkerSetup,
        permits: Permits,
        identity: Identity,
        runner: Runner,
        finisher: Finisher,
    ) -> None:
        self._store = setup.store
        self._permits = permits
        self._events = setup.events
        self._outage = setup.outage
        self._again_after = setup.options.lease
        self._identity = identity
        self._runner = runner
        self._finisher = finisher
        self._doubted = asyncio.Event()
        self.returned: set[tuple[JobId, int]] = set()
        self._task: asyncio.Task[None] | None = None
        self.claiming = False
        finisher.on_given_up = self.suspect

    def suspect(self) -> None:
        """Search: a claim got no answer, or an end could not be written."""
        self._doubted.set()
        if self._task is None:
            self._task = asyncio.create_task(self._search(), name="holdfast-lost-claims")

    @property
    def searching(self) -> bool:
        return self._task is not None

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _search(self) -> None:
        try:
            while self._doubted.is_set():
                self._doubted.clear()
                await self._until_answered()
                if not await self._doubted_again():
                    await self._until_answered()
        finally:
            self._task = None
            self.returned.clear()

    async def _doubted_again(self) -> bool:
        """Whether another claim got no answer before it was time to search again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._again_after):
                await self._doubted.wait()
        return self._doubted.is_set()

    async def _until_answered(self) -> None:
        while True:
            try:
                await self._hand_back_lost()
                self._outage.over("page")
                return
            except Exception as error:  # noqa: BLE001 - until the search is done, jobs may be lost
                if not isinstance(error, StoreUnavailable):
                    self._events.error("worker.lost_claim_search_failed", error=describe(error))
                self._outage.failed("page", error)
                await self._outage.pause()

    async def _hand_back_lost(self) -> None:
        """A job that is claimed during the search is not lost. So a job counts as lost only if
        it was unknown before and after a moment without a claim on its way."""
        lost = [job_id for job_id in await self._unknown() if not self._runner.holds(job_id)]
        while lost and self.claiming:  # noqa: ASYNC110 - a claim ends within moments
            await asyncio.sleep(0.01)
        lost = [job_id for job_id in lost if not self._runner.holds(job_id)]
        found = await self._store.jobs.live(lost) if lost else []
        ended_here = self._finisher.past.attempts() if found else {}
        for live in found:
            if live.worker_id == self._identity.id and not self._runner.holds(live.id):
                self._end(live, ended_here)

    def _end(self, live: Live, ended_here: Attempts) -> None:
        attempt = live.id, live.fence
        if (end := ended_here.get(attempt)) is not None:
            self._events.warning("job.end_repeated", job_id=live.id, queue=live.queue, to=end.to)
            self._finisher.add(None, end)
            return
        self.returned.add(attempt)
        self._events.warning("worker.lost_claim_returned", job_id=live.id, queue=live.queue)
        handed_back = HandedBack(begun=attempt in ended_here)
        move = decide(live, handed_back, cancel_requested=live.cancel_requested)
        self._finisher.add(None, move)

    async def _unknown(self) -> list[JobId]:
        which = JobFilter(
            states=frozenset({JobState.RUNNING}), queues=tuple(self._permits.ever_served)
        )
        found: list[JobId] = []
        cursor: str | None = None
        while True:
            page = await self._store.jobs.page(which, SEARCH_BATCH, cursor)
            mine = [job.id for job in page.jobs if job.worker_id == self._identity.id]
            found += [job_id for job_id in mine if not self._runner.holds(job_id)]
            cursor = page.next_cursor
            if cursor is None:
                return found
