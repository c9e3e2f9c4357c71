"""Jobs that the store gave us and we never heard of.

When the answer to a claim is lost, the claim may still have been applied: the
store then shows jobs as running under our name, our heartbeats keep their lease
alive, and nobody would ever run them. So after every claim in doubt the running
jobs are compared with those we hold, and strays are handed back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from holdfast.background.outage import Outage
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.job.ends import HandedBack
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import Transition, decide
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.job.text import describe
from holdfast.store.contract.records import JobFilter
from holdfast.store.contract.store import Store

PAGE = 500


class LostClaims:
    """Looks for strays when told to, once the store answers, and again a little later: a
    statement whose answer was given up may be applied after we first looked."""

    def __init__(
        self,
        store: Store,
        queues: Sequence[str],
        events: Events,
        outage: Outage,
        *,
        again_after: float,
        worker_id: Callable[[], WorkerId],
        is_known: Callable[[JobId], bool],
        is_claiming: Callable[[], bool],
        hand_back: Callable[[Transition], None],
    ) -> None:
        self._store = store
        self._queues = tuple(queues)
        self._events = events
        self._outage = outage
        self._again_after = again_after
        self._worker_id = worker_id
        self._is_known = is_known
        self._is_claiming = is_claiming
        self._hand_back = hand_back
        self._doubted = asyncio.Event()
        self._returned: set[tuple[JobId, int]] = set()
        self._task: asyncio.Task[None] | None = None

    def suspect(self) -> None:
        self._doubted.set()
        if self._task is None:
            self._task = asyncio.create_task(self._look(), name="holdfast-strays")

    def has_returned(self, job: Claimed) -> bool:
        """Whether this very attempt is on its way back. A store may answer a claim late, or
        again, after we took it for lost: were it run now, it would run twice."""
        return bool(self._returned) and (job.id, job.fence) in self._returned

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look(self) -> None:
        try:
            while self._doubted.is_set():
                self._doubted.clear()
                await self._until_answered()
                if not await self._doubted_again():
                    await self._until_answered()
        finally:
            self._task = None
            self._returned.clear()

    async def _doubted_again(self) -> bool:
        """Whether another claim came in doubt before it was time to look again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._again_after):
                await self._doubted.wait()
        return self._doubted.is_set()

    async def _until_answered(self) -> None:
        while True:
            try:
                await self._return_strays()
                self._outage.answered("page")
                return
            except Exception as error:  # noqa: BLE001 - until it has looked, strays may be stuck
                if not isinstance(error, StoreUnavailable):
                    self._events.error("worker.stray_search_failed", error=describe(error))
                self._outage.failed("page", error)
                await self._outage.pause()

    async def _return_strays(self) -> None:
        """A job that is claimed while we look is no stray: it is only counted when it was
        unknown before and after, with no claim on its way in between."""
        strays = [job_id for job_id in await self._unknown() if not self._is_known(job_id)]
        while strays and self._is_claiming():  # noqa: ASYNC110 - a claim ends within moments
            await asyncio.sleep(0.01)
        strays = [job_id for job_id in strays if not self._is_known(job_id)]
        for live in await self._store.jobs.live(strays):
            if live.worker_id == self._worker_id() and not self._is_known(live.id):
                self._returned.add((live.id, live.fence))
                self._events.warning("worker.stray_returned", job=live.id, queue=live.queue)
                self._hand_back(decide(live, HandedBack(), cancel_requested=live.cancel_requested))

    async def _unknown(self) -> list[JobId]:
        which = JobFilter(states=frozenset({JobState.RUNNING}), queues=self._queues)
        found: list[JobId] = []
        cursor: str | None = None
        while True:
            page = await self._store.jobs.page(which, PAGE, cursor)
            mine = [job.id for job in page.jobs if job.worker_id == self._worker_id()]
            found += [job_id for job_id in mine if not self._is_known(job_id)]
            cursor = page.next_cursor
            if cursor is None:
                return found
