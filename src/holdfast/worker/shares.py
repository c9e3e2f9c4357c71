"""This worker's shares of the totals that queues have (`max_running`).

The store never lets more jobs run than the total, whatever workers believe. Shares only spread the
work over the workers: a worker whose share is used up leaves the rest to the others. Each worker
computes its shares for itself (`fleet.shares`), from the list of all workers. It asks for the list
when it starts, when the store tells that the fleet has changed, and now and then.

A worker may have a share and no use for it: it does not know the tasks that wait, or lacks their
labels. So who could use more looks every second whether permits of the total lie idle, and borrows
those that still do at the second look. While the total is used up, it gives half of what it
borrowed back every few seconds, in case that others want it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Set

from holdfast.errors import StoreUnavailable
from holdfast.fleet.shares import shares
from holdfast.job.ids import WorkerId
from holdfast.job.passing import total_name
from holdfast.job.text import describe
from holdfast.store.contract.workers import QueueTotal
from holdfast.worker.identity import Identity
from holdfast.worker.permits import Permits
from holdfast.worker.setup import WorkerSetup

WITHIN_SECONDS = 0.2
"""How soon a change of the fleet is looked at. Workers of a large fleet do not all ask at once, and
a deploy of many workers is looked at a few times."""


BORROW_SECONDS = 1.0
LOOKS_TO_RETURN = 5
"""After so many looks at a total that is used up, half of what was borrowed is returned."""


class Shares:
    """Keeps the shares in `Permits` up to date. `on_change` is called with each queue whose share
    has changed."""

    def __init__(
        self,
        setup: WorkerSetup,
        permits: Permits,
        identity: Identity,
        on_change: Callable[[str], None],
    ) -> None:
        self._store = setup.store
        self._events = setup.events
        self._outage = setup.outage
        self._every = setup.options.lease / 3
        self._permits = permits
        self._identity = identity
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._mine: dict[str, int] = {}
        self._loans: dict[str, _Loan] = {}
        self._next_look = 0.0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look once before anything is claimed, then whenever the fleet changes."""
        await self._look()
        self._task = asyncio.create_task(self._keep_looking(), name="holdfast-shares")

    async def leave(self) -> None:
        """Look no more, and leave this worker's shares to the others: it may still run jobs for a
        long time, but it claims none."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._mine:
            await self._identity.serve_nothing()

    def hear(self, queue: str) -> None:
        """The total of this queue has changed, or, without a name, workers came or left. Those
        concern only workers of queues that have totals."""
        if queue in self._permits.slots if queue else self._mine:
            self._changed.set()

    async def _keep_looking(self) -> None:
        while True:
            try:
                if await self._is_changed():
                    await self._look()
                else:
                    await self._borrow()
                self._outage.over("fleet")
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look must come
                if not isinstance(error, StoreUnavailable):
                    self._events.error("worker.shares_failed", error=describe(error))
                self._outage.failed("fleet", error)
                await self._outage.pause()

    async def _is_changed(self) -> bool:
        """Wait a while; whether to ask for the list. A worker may have died without a word, so
        it is asked for now and then."""
        left = self._next_look - self._loop.time()
        try:
            async with asyncio.timeout(max(0.0, min(left, BORROW_SECONDS) if self._mine else left)):
                await self._changed.wait()
        except TimeoutError:
            return self._loop.time() >= self._next_look
        await asyncio.sleep(WITHIN_SECONDS * random.random())
        self._changed.clear()
        return True

    async def _look(self) -> None:
        self._next_look = self._loop.time() + self._every
        worker = self._identity.id
        fleet = await self._store.workers.fleet(tuple(self._permits.slots))
        mine = {one.queue: share_of(worker, one) for one in fleet}
        changed = {q for q in mine.keys() | self._mine if mine.get(q) != self._mine.get(q)}
        self._mine = mine
        self._loans = {queue: self._loans.get(queue) or _Loan() for queue in mine}
        for queue in changed & self._permits.slots.keys():
            self._events.info("worker.share", queue=queue, share=mine.get(queue))
        self._apply(changed)
        if changed:
            self._identity.heartbeat.beat_now()  # so that others see it

    async def _borrow(self) -> None:
        asked = [queue for queue in self._mine if self._permits.wants_more(queue)]
        asked += [queue for queue, loan in self._loans.items() if loan.units and queue not in asked]
        if asked:
            totals = await self._store.limits.get([total_name(queue) for queue in asked])
            self._apply({one.key for one in totals if self._loans[one.key].evaluate(one.room)})

    def _apply(self, changed: Set[str]) -> None:
        """Hold to the shares and loans of now, and look for work in queues that have others."""
        loans = self._loans
        self._permits.share({queue: n + loans[queue].units for queue, n in self._mine.items()})
        for queue in changed & self._permits.slots.keys():
            self._on_change(queue)


class _Loan:
    """What a worker has borrowed of one total."""

    def __init__(self) -> None:
        self.units = 0
        self._idle = False
        self._full = 0

    def evaluate(self, room: int) -> bool:
        """So many permits lie idle now; whether the loan has changed."""
        before = self.units
        if room:
            self.units += room if self._idle else 0
            self._idle, self._full = not self._idle, 0
        else:
            self._idle, self._full = False, self._full + 1
            if self._full % LOOKS_TO_RETURN == 0:
                self.units //= 2
        return self.units != before


def share_of(worker: WorkerId, queue: QueueTotal) -> int:
    """A worker that is not on the list, because its lease lapsed or it leaves, is not bound: the
    store counts what it claims all the same."""
    if worker not in queue.slots:
        return queue.total
    found = shares(queue.total, list(queue.slots.values()))
    return dict(zip(queue.slots, found, strict=True))[worker]
