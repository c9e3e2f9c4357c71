"""Claims jobs for free slots.

Permits come before claims: a job is only claimed when its queue has room for
it, as `Permits` counts. One call asks for all queues that have room and may have
work, so a full or empty queue never holds up another. It asks for no more than a
batch in all: while those run the next are claimed. A queue is *hungry* while
it may have work: from a wakeup (the poller's is one), or a claim that got all it
asked for, until a claim gets less.

A claim says how many of the jobs will begin at once: as many as find a slot free, and
a thread or a child where tasks need one. The others are claimed ahead. While claims bring
jobs that must not be, nothing is claimed but what will begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from holdfast.background.outage import Outage
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.handlers.registry import Mode
from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.job.text import describe
from holdfast.store.contract.records import ALL, Want
from holdfast.store.contract.store import Store
from holdfast.worker.permits import Permits
from holdfast.worker.places import Places
from holdfast.worker.watch import Watch

PACE = 0.005
"""Seconds between two claims that would each bring only a small part of what may be held."""


class Fetcher:
    """Asks the store for work whenever there is room and reason to."""

    def __init__(
        self,
        store: Store,
        slots: Permits,
        places: Places,
        events: Events,
        outage: Outage,
        watch: Watch,
        *,
        poll: float,
        batch: int,
        worker_id: Callable[[], WorkerId],
        deliver: Callable[[list[Claimed]], None],
        may_claim: Callable[[], bool],
        is_open: Callable[[str], bool],
        after_doubt: Callable[[], None],
    ) -> None:
        self._store = store
        self._slots = slots
        self._places = places
        self._events = events
        self._outage = outage
        self._watch = watch
        self._poll = poll
        self._batch = batch
        self._worker_id = worker_id
        self._deliver = deliver
        self._may_claim = may_claim
        self._is_open = is_open
        self._after_doubt = after_doubt
        self._loop = asyncio.get_running_loop()
        self._hungry = set(slots.sizes)
        self._woken: set[str] = set()
        self._order = sorted(slots.sizes)
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._last_claim = self._loop.time()
        self._pacing = False
        self._passed_over = False
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
        """Jobs may have come to this queue; an empty name means to any. Who has no room keeps it
        in mind."""
        if not queue:
            self._hungry.update(self._slots.sizes)
        elif queue in self._slots.sizes:
            self._hungry.add(queue)
            self._woken.add(queue)
        else:
            return
        self.look()

    def room_in(self, queue: str) -> None:
        """A job of this queue has ended."""
        if self._passed_over:
            self._passed_over = False
            self._hungry.update(self._slots.sizes)
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
        free = self._places.free()
        wants = self._wants(free)
        if not wants:
            await self._wait()
        elif self._is_soon(wants):
            await self._fill_up()
        else:
            await self._claim(wants, self._tasks(free))

    def _wants(self, free: Mapping[Mode, int]) -> list[Want]:
        if not self._may_claim():
            return []
        self._slots.reckon()
        begin = _least(free, self._slots.cautious)
        wants, left = list[Want](), min(self._batch, begin) if self._slots.cautious else self._batch
        for queue in self._order:
            if queue not in self._hungry or not self._is_open(queue):
                continue
            if (room := min(self._slots.room(queue), left)) > 0:
                at_once = min(self._slots.free(queue), begin)
                wants.append(Want(queue, room, at_once))
                begin -= min(room, at_once)
                left -= room
        return wants

    def _tasks(self, free: Mapping[Mode, int]) -> Sequence[str]:
        """All, unless nothing may be claimed ahead and some have no place to begin in."""
        return self._places.tasks_that_could_begin(free if self._slots.cautious else {})

    def _is_soon(self, wants: list[Want]) -> bool:
        """Soon after a claim, with little room anywhere, waiting a little fills a batch."""
        if self.last_claim_age >= PACE:
            return False
        return not any(self._slots.worthwhile(want.queue) for want in wants)

    async def _fill_up(self) -> None:
        self._pacing = True
        try:
            await self._wait(PACE - self.last_claim_age)
        finally:
            self._pacing = False

    async def _claim(self, wants: list[Want], tasks: Sequence[str]) -> None:
        for want in wants:
            self._slots.take(want.queue, want.limit)
            # Before the call, so that a wakeup that comes during it is not forgotten.
            self._hungry.discard(want.queue)
        asked = {want.queue for want in wants}
        self._order.sort(key=asked.__contains__)  # those a full batch left out come first now
        try:
            claimed = await self._ask(wants, tasks)
        except Exception as error:  # noqa: BLE001 - whatever it is, claiming must go on
            self._give_back(wants, ())
            self._hungry.update(want.queue for want in wants)
            await self._recover(error)
        else:
            self._outage.answered("claim")
            self._give_back(wants, claimed)
            self._passed_over = self._places.passes_over(tasks)
            self._learn(asked, claimed)
            self._deliver(claimed)

    async def _ask(self, wants: list[Want], tasks: Sequence[str]) -> list[Claimed]:
        self.claiming = True
        try:
            return await self._store.jobs.claim(self._worker_id(), wants, tasks)
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

    def _learn(self, asked: set[str], claimed: Sequence[Claimed]) -> None:
        if claimed:
            self._watch.won()
        elif self._woken & asked:
            self._watch.lost()
        self._woken -= asked

    async def _recover(self, error: Exception) -> None:
        """The claim may have been applied although its answer was lost: that has to be
        looked into once the store is back, or those jobs would wait for this worker forever."""
        if not isinstance(error, StoreUnavailable):
            self._events.error("fetcher.claim_failed", error=describe(error))
        self._outage.failed("claim", error)
        self._after_doubt()
        await self._wait(self._outage.wait())

    async def _wait(self, seconds: float | None = None) -> None:
        """Until `look`, or so long."""
        if self._stopping:
            return
        self._waiter = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, self.look)
        try:
            await self._waiter
        finally:
            if timer is not None:
                timer.cancel()
            self._waiter = None


def _least(free: Mapping[Mode, int], cautious: bool) -> int:
    """How many jobs begin at once, whatever their kind. A cautious claim leaves out tasks that
    have no place."""
    return max(0, min((n for n in free.values() if n > 0 or not cautious), default=ALL))
