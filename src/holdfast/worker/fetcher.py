"""Claims jobs for free slots.

Permits come before claims: a job is only claimed when its queue has room for
it, as `Slots` counts. One call asks for all queues that have room and may have
work, so a full or empty queue never holds up another. It asks for no more than a
batch in all: while those run the next are claimed. A queue is *hungry* while
it may have work: from a wakeup, or a poll, or a claim that got all it asked for,
until a claim gets less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.handlers.ends import describe
from holdfast.job import Claimed, WorkerId
from holdfast.store.contract import Store
from holdfast.store.records import Want
from holdfast.worker.outage import Outage
from holdfast.worker.slots import Slots

PACE = 0.005
"""Seconds between two claims that would each bring only a small part of what may be held."""


class Fetcher:
    """Asks the store for work whenever there is room and reason to."""

    def __init__(
        self,
        store: Store,
        slots: Slots,
        tasks: Sequence[str],
        events: Events,
        outage: Outage,
        *,
        poll: float,
        batch: int,
        worker_id: Callable[[], WorkerId],
        deliver: Callable[[list[Claimed]], None],
        may_claim: Callable[[], bool],
        after_doubt: Callable[[], None],
    ) -> None:
        self._store = store
        self._slots = slots
        self._tasks = tasks
        self._events = events
        self._outage = outage
        self._poll = poll
        self._batch = batch
        self._worker_id = worker_id
        self._deliver = deliver
        self._may_claim = may_claim
        self._after_doubt = after_doubt
        self._loop = asyncio.get_running_loop()
        self._hungry = set(slots.sizes)
        self._order = sorted(slots.sizes)
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._last_claim = self._loop.time()
        self._pacing = False
        self.claiming = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._fetch(), name="holdfast-fetcher")

    def stop_soon(self) -> None:
        """No claim starts after this. One on its way is still delivered, to be handed back."""
        self._stopping = True
        self.look()

    async def stopped(self) -> None:
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def close(self, patience: float) -> None:
        """Wait for a last claim so long; then its answer is given up."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=patience)
            self._task.cancel()
            await asyncio.wait((self._task,))

    def wake(self, queue: str) -> None:
        """Work may have come to this queue; an empty name means to any."""
        if not queue:
            self._hungry.update(self._slots.sizes)
        elif queue in self._slots.sizes:
            self._hungry.add(queue)
        else:
            return
        self.look()

    def room_in(self, queue: str) -> None:
        """A job of this queue has ended."""
        if self._waiter is None or queue not in self._hungry:
            return
        if not self._pacing or self._slots.worthwhile(queue):
            self.look()

    def look(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def idle(self) -> bool:
        """Nothing is being claimed, and nothing is known that could be."""
        return not self.claiming and not self._hungry

    @property
    def last_claim_age(self) -> float:
        return self._loop.time() - self._last_claim

    async def _fetch(self) -> None:
        while not self._stopping:
            try:
                await self._step()
            except Exception as error:  # noqa: BLE001 - a defect here must not end all claiming
                self._events.error("fetcher.step_failed", error=describe(error))
                await asyncio.sleep(self._poll)

    async def _step(self) -> None:
        wants = self._wants()
        if not wants:
            await self._wait(self._poll)
        elif self._is_soon(wants):
            await self._fill_up()
        else:
            await self._claim(wants)

    def _wants(self) -> list[Want]:
        if not self._may_claim():
            return []
        self._slots.reckon()
        wants, left = list[Want](), self._batch
        for queue in self._order:
            if queue in self._hungry and (room := min(self._slots.room(queue), left)) > 0:
                wants.append(Want(queue, room))
                left -= room
        return wants

    def _is_soon(self, wants: list[Want]) -> bool:
        """Soon after a claim, with little room anywhere, waiting a little fills a batch."""
        if self.last_claim_age >= PACE:
            return False
        return not any(self._slots.worthwhile(want.queue) for want in wants)

    async def _fill_up(self) -> None:
        self._pacing = True
        try:
            await self._wait(PACE - self.last_claim_age, polled=False)
        finally:
            self._pacing = False

    async def _claim(self, wants: list[Want]) -> None:
        for want in wants:
            self._slots.take(want.queue, want.limit)
            # Before the call, so that a wakeup that comes during it is not forgotten.
            self._hungry.discard(want.queue)
        asked = {want.queue for want in wants}
        self._order.sort(key=asked.__contains__)  # those a full batch left out come first now
        try:
            claimed = await self._ask(wants)
        except Exception as error:  # noqa: BLE001 - whatever it is, claiming must go on
            self._give_back(wants, ())
            self._hungry.update(want.queue for want in wants)
            await self._recover(error)
        else:
            self._outage.answered("claim")
            self._give_back(wants, claimed)
            self._deliver(claimed)

    async def _ask(self, wants: list[Want]) -> list[Claimed]:
        self.claiming = True
        try:
            return await self._store.jobs.claim(self._worker_id(), wants, self._tasks)
        finally:
            self.claiming = False
            self._last_claim = self._loop.time()

    def _give_back(self, wants: list[Want], claimed: Sequence[Claimed]) -> None:
        """Return the permits that no job came for; a queue that gave all asked may have more."""
        got = dict.fromkeys((want.queue for want in wants), 0)
        for job in claimed:
            got[job.queue] += 1
        for want in wants:
            self._slots.give(want.queue, want.limit - got[want.queue])
            if got[want.queue] == want.limit:
                self._hungry.add(want.queue)

    async def _recover(self, error: Exception) -> None:
        """The claim may have been applied although its answer was lost: that has to be
        looked into once the store is back, or those jobs would wait for this worker forever."""
        if not isinstance(error, StoreUnavailable):
            self._events.error("fetcher.claim_failed", error=describe(error))
        self._outage.failed("claim", error)
        self._after_doubt()
        await self._wait(self._outage.wait(), polled=False)

    async def _wait(self, seconds: float, *, polled: bool = True) -> None:
        """Until `look` or a timeout; a timeout makes every queue hungry."""
        if self._stopping:
            return
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self.look)
        try:
            await self._waiter
        finally:
            if polled and timer.when() <= self._loop.time():
                self._hungry.update(self._slots.sizes)
            timer.cancel()
            self._waiter = None
