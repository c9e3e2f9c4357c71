"""Claims jobs for free slots, and passes them on to `Admission`.

`Wants` says what a claim asks for. The next claim is sent while the jobs of the last one run. A
queue is *hungry* while it may have work: from a wakeup (the poller sends some too), or from a claim
that got all that it asked for, until a claim gets less.

While no claim is on its way, a node may come with the answer to the end before it (`HandOvers`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from holdfast.errors import StoreUnavailable
from holdfast.job.record import Claimed
from holdfast.job.text import describe
from holdfast.job.ties import PERMITS
from holdfast.store.contract.records import Room, Want
from holdfast.worker.admission import Admission
from holdfast.worker.finisher import Finisher
from holdfast.worker.handing_over import HandOvers
from holdfast.worker.identity import Identity
from holdfast.worker.lost_claims import LostClaims
from holdfast.worker.nodes import Nodes
from holdfast.worker.openings import Openings
from holdfast.worker.permits import Permits, Places
from holdfast.worker.queue_order import QueueOrder
from holdfast.worker.runner import Runner
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.wants import Wants, least
from holdfast.worker.watch import Watch

_queue, _ties = attrgetter("queue"), attrgetter("ties")

PACE_SECONDS = 0.005
"""Seconds between two claims if each would bring only a small part of what may be held."""


class Fetcher:
    """Asks the store for work whenever there is room and reason to. `claimed` counts the jobs that
    came."""

    def __init__(
        self,
        setup: WorkerSetup,
        permits: Permits,
        places: Places,
        runner: Runner,
        finisher: Finisher,
        identity: Identity,
        lost_claims: LostClaims,
        admission: Admission,
        nodes: Nodes,
        watch: Watch,
    ) -> None:
        self._store = setup.store
        self._events = setup.events
        self._outage = setup.outage
        self._poll = setup.options.poll
        self._labels = tuple(setup.options.labels)
        self._only = tuple(setup.options.only)
        self._permits = permits
        self._identity = identity
        self._runner = runner
        self._finisher = finisher
        self._lost_claims = lost_claims
        self._admission = admission
        self._nodes = nodes
        self._watch = watch
        self._places = places
        self._loop = asyncio.get_running_loop()
        self._hungry = set(permits.slots)
        self._woken: set[str] = set()
        options = setup.options
        self._order = QueueOrder(options.queues, permits.slots, strict=options.strict)
        self._wants = Wants(setup, permits, places, self._order, runner, finisher, identity)
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._last_claim = self._loop.time()
        self._pacing = False
        self._left_out = False
        self._openings = Openings(setup, self.wake)
        self._hand_overs = HandOvers(setup, permits, lost_claims, self._room, self.wake_up)
        self.claimed = 0
        finisher.send = self._hand_overs.finish
        permits.on_room = self._room_in
        finisher.on_room = self.wake_up
        identity.on_renewal = self.wake

    def start(self) -> None:
        self._task = asyncio.create_task(self._fetch(), name="holdfast-fetcher")

    def stop_soon(self) -> None:
        """Start no claim after this. The jobs of a claim on its way are received and handed
        back."""
        self._stopping = True
        self.wake_up()

    async def stopped(self) -> None:
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def close(self, patience: float) -> None:
        """Wait so many seconds for a last claim, then give its answer up."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=patience)
            self._task.cancel()
            await asyncio.wait((self._task,))
        self._openings.close()

    def wake(self, queue: str = "") -> None:
        """Jobs may have come to this queue, or to any queue if no name is given. A queue that has
        no room now is asked when it has."""
        if not queue:
            self._hungry.update(self._permits.slots)
        elif queue in self._permits.slots:
            self._hungry.add(queue)
            self._woken.add(queue)
        else:
            return
        self.wake_up()

    def resized(self, queue: str) -> None:
        """The slots of this queue have changed: it may be new here, or served no longer."""
        if queue in self._permits.slots:
            self._order.add(queue)
            self._hungry.add(queue)
            self.wake_up()
        else:
            self._order.remove(queue)
            self._hungry.discard(queue)
            self._woken.discard(queue)

    def _room_in(self, queue: str) -> None:
        """An attempt of this queue is over."""
        if self._left_out:
            self._left_out = False
            self._hungry.update(self._permits.slots)
        if self._waiter is None:
            return
        if queue not in self._hungry and not (
            self._permits.shares_slots and self._hungry & self._permits.mates(queue)
        ):
            return
        if not self._pacing or self._permits.worth_a_claim(queue):
            self.wake_up()

    def wake_up(self) -> None:
        """End the fetcher's wait, so that it checks again what it may claim."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def idle(self) -> bool:
        """Nothing is being claimed, and nothing is known that could be. A queue of whose total this
        worker has no share is not claimed from."""
        return not self._lost_claims.claiming and all(
            self._permits.share_of(queue) == 0 for queue in self._hungry
        )

    @property
    def last_claim_age(self) -> float:
        return self._loop.time() - self._last_claim

    async def _fetch(self) -> None:
        while not self._stopping or self._hand_overs.under_way:
            try:
                await self._step()
            except Exception as error:  # noqa: BLE001 - a defect here must not end all claiming
                self._events.error("fetcher.step_failed", error=describe(error))
                await asyncio.sleep(self._poll)

    async def _step(self) -> None:
        if self._hand_overs.under_way:
            await self._receive_handed_over()
            return
        if not self._hungry:
            await self._wait()
            return
        free = self._places.free()
        wants = self._wants.to_claim(self._hungry, free)
        if not wants:
            if not await self._passed_empty_queues():
                await self._wait()
        elif self._is_soon(wants):
            await self._fill_up()
        else:
            await self._claim(wants, self._wants.tasks(free))

    async def _passed_empty_queues(self) -> bool:
        """With `strict`, whether later queues may be asked now. A queue whose slots are all taken
        cannot be claimed from, so the store says whether jobs wait in it; if none do, it does not
        hold up the queues after it."""
        if not self._order.strict or not self._wants.may_claim:
            return False
        first = self._order.to_ask(self._hungry, self._runner.opens)
        if not first or self._hungry.issubset(first):
            return False
        self._hungry.difference_update(first)  # before the call: see `_claim`
        try:
            waiting = await self._store.queues.waiting()
        except Exception as error:  # noqa: BLE001 - whatever it is, claiming must go on
            self._hungry.update(first)
            self._outage.failed("claim", error)
            await self._wait(self._outage.wait())
            return True
        self._hungry.update(self._permits.slots.keys() & set(first) & set(waiting))
        return not self._hungry.issuperset(first)

    def _is_soon(self, wants: list[Want]) -> bool:
        """Whether to wait a little for a fuller batch: the last claim was a moment ago, and no
        queue has much room."""
        if self.last_claim_age >= PACE_SECONDS:
            return False
        return not any(self._permits.worth_a_claim(want.queue) for want in wants)

    async def _fill_up(self) -> None:
        self._pacing = True
        try:
            await self._wait(PACE_SECONDS - self.last_claim_age)
        finally:
            self._pacing = False

    async def _claim(self, wants: list[Want], tasks: Sequence[str]) -> None:
        for want in wants:
            self._permits.take(want.queue, want.limit)
            # Before the call, so that a wakeup that comes during it is not forgotten.
            self._hungry.discard(want.queue)
        asked = {want.queue for want in wants}
        self._order.asked(asked)
        try:
            claimed = await self._ask(wants, tasks)
        except Exception as error:  # noqa: BLE001 - whatever it is, claiming must go on
            self._give_back(wants, ())
            self._hungry.update(asked & self._permits.slots.keys())
            await self._recover(error)
        else:
            self._outage.over("claim")
            self._give_back(wants, claimed)
            self._left_out = self._places.leaves_out(tasks)
            self._learn(asked, claimed)
            await self._receive(claimed)
            # Last, because nobody knows of claimed jobs before they are received.
            if self._openings.matter is not False and not asked <= self._hungry:
                await self._openings.expect(self._permits.slots)

    async def _receive(self, claimed: Sequence[Claimed]) -> None:
        self.claimed += len(claimed)
        if any(map(_ties, claimed)):
            if any(one.ties & PERMITS for one in claimed):
                self._openings.matter = True
            claimed = await self._fill_in(claimed)
        self._admission.receive(claimed)

    def _room(self) -> Room | None:
        """Room for a node that an end may release. None while a claim is on its way, which may need
        all the room there is."""
        if self._waiter is None or self._stopping or self._only:
            return None
        permits, free = self._permits, self._places.free()
        if not self._wants.may_claim or least(free, permits.reads_ahead) == 0:
            return None
        to_ask = self._order.to_ask(permits.slots.keys(), self._runner.opens)
        shared = permits.divided(to_ask)
        queues = [one for one in to_ask if min(permits.free(one), shared.get(one, 1)) > 0]
        return Room(self._identity.id, queues, self._wants.tasks(free)) if queues else None

    async def _receive_handed_over(self) -> None:
        """What wakes the fetcher meanwhile has to wait for it."""
        if (brought := self._hand_overs.received()) is None:
            await self._wait()
        elif brought:
            self._last_claim = self._loop.time()
            self._watch.won()
            await self._receive(brought)

    async def _fill_in(self, claimed: Sequence[Claimed]) -> list[Claimed]:
        """The claim is not over before its nodes have their arguments."""
        self._lost_claims.claiming = True
        try:
            return await self._nodes.ready_to_begin(claimed)
        finally:
            self._lost_claims.claiming = False

    async def _ask(self, wants: list[Want], tasks: Sequence[str]) -> list[Claimed]:
        self._lost_claims.claiming = True
        try:
            return await self._store.jobs.claim(
                self._identity.id, wants, tasks, self._labels, self._only
            )
        finally:
            self._lost_claims.claiming = False
            self._last_claim = self._loop.time()

    def _give_back(self, wants: list[Want], claimed: Sequence[Claimed]) -> None:
        """Give back the permits for which no job came. A queue that gave all that was asked for
        may have more. A job of a queue that was not asked for is a defect of the store; it runs
        all the same, and takes the permit that its end will give back."""
        got = Counter(map(_queue, claimed))
        for want in wants:
            came = got.pop(want.queue, 0)
            self._permits.give(want.queue, want.limit - came)
            if came == want.limit and want.queue in self._permits.slots:
                self._hungry.add(want.queue)
        for queue, jobs in got.items():
            self._permits.take(queue, jobs)
            self._events.error("fetcher.queue_not_asked", queue=queue, jobs=jobs)

    def _learn(self, asked: set[str], claimed: Sequence[Claimed]) -> None:
        if claimed:
            self._watch.won()
        elif self._woken & asked:
            self._watch.lost()
        self._woken -= asked

    async def _recover(self, error: Exception) -> None:
        """The store may have applied the claim although its answer was lost. `LostClaims` finds
        out when the store is back, or those jobs would wait for this worker forever."""
        if not isinstance(error, StoreUnavailable):
            self._events.error("fetcher.claim_failed", error=describe(error))
        self._outage.failed("claim", error)
        self._lost_claims.suspect()
        await self._wait(self._outage.wait())

    async def _wait(self, seconds: float | None = None) -> None:
        """Until `wake_up`, or for so many seconds."""
        if self._stopping and not self._hand_overs.under_way:
            return
        self._waiter = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, self.wake_up)
        try:
            await self._waiter
        finally:
            if timer is not None:
                timer.cancel()
            self._waiter = None
