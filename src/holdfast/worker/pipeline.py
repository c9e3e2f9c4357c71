"""The parts of one running worker, in the order in which a job passes them.

    fetcher → permits → admission → runner and its lanes → executor → finisher

A part knows those after it, and calls them. What comes back later (a handler ended, a permit is
free, an end is written) is told to the part that asked for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from holdfast.background.service import Service
from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.checks import check_name
from holdfast.store.contract.queues import EVERY_QUEUE
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.contract.workers import Drain, Order, Resize
from holdfast.worker.admission import Admission
from holdfast.worker.answering import Answering
from holdfast.worker.executor import Executor
from holdfast.worker.facts import FactSheet
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.finisher import Finisher
from holdfast.worker.identity import Identity
from holdfast.worker.lost_claims import LostClaims
from holdfast.worker.meter import Meter
from holdfast.worker.misfits import Misfits
from holdfast.worker.nodes import Nodes
from holdfast.worker.permits import Permits, Places
from holdfast.worker.poller import Poller
from holdfast.worker.rescue import Rescue
from holdfast.worker.runner import Runner
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.shares import Shares
from holdfast.worker.stuck import OnExhausted
from holdfast.worker.telling import Telling
from holdfast.worker.watch import Watch
from holdfast.worker.watchdog import Frozen


class Pipeline:
    """Made from its end to its beginning: each part is given the parts after it."""

    def __init__(
        self,
        setup: WorkerSetup,
        on_frozen: Callable[[Frozen], None],
        on_exhausted: OnExhausted,
        on_drain: Callable[[], None],
        services: Sequence[Service] = (),
    ) -> None:
        self._on_drain = on_drain
        self._store = setup.store
        self._events = setup.events
        self.setup = setup
        self.permits = Permits(setup.options.queues, time.monotonic, setup.options.slots)
        self.answering = Answering(setup)
        self.meter = Meter(setup.store, setup.events)
        self.finisher = Finisher(setup, self.meter)
        self.executor = Executor(setup.options)
        self.runner = Runner(setup, self.permits, self.executor, self.finisher, on_exhausted)
        rescue = Rescue(self.runner, self.finisher, setup.events, on_frozen)
        sheet = FactSheet(self, services)
        self.identity = Identity(setup, self.permits, self.runner, self.finisher, rescue, sheet)
        self.telling = Telling(setup, self.executor, self.finisher, self.identity)
        self.runner.on_failure = self.telling.failed
        self.lost_claims = LostClaims(
            setup, self.permits, self.identity, self.runner, self.finisher
        )
        self.admission = Admission(
            setup,
            self.permits,
            self.runner,
            self.finisher,
            self.lost_claims,
            self.answering,
            self.meter,
        )
        watch = Watch(setup.replicas, self.permits.slots, self._doze)
        held = (self.runner.running.values(), self.runner.stuck)
        self.places = Places(setup.registry, self.executor.capacity, *held)
        self.fetcher = Fetcher(
            setup,
            self.permits,
            self.places,
            self.runner,
            self.finisher,
            self.identity,
            self.lost_claims,
            self.admission,
            Nodes(setup, self.permits, self.finisher),
            watch,
        )
        self.misfits = Misfits(setup, self.identity, self.places, self.fetcher.wake)
        self.executor.on_misfit = self.misfits.judge
        self.poller = Poller(setup, self.permits, self.identity, watch, self.look_for_queues)
        self.shares = Shares(setup, self.permits, self.identity, self.fetcher.resized)
        self.identity.on_order = self._obey

    def on_wakeup(self, wakeup: Wakeup) -> None:
        if wakeup.topic is Topic.READY:
            self._wake(wakeup.name)
        elif wakeup.topic is Topic.PAUSED:
            self._close(wakeup.name)
        elif wakeup.topic is Topic.CANCEL and wakeup.name in ("", self.identity.id):
            self.identity.heartbeat.beat_now()
        elif wakeup.topic is Topic.FLEET:
            self.shares.hear(wakeup.name)

    def _wake(self, name: str) -> None:
        """A name that stands for more than one queue was resumed: any queue may have work."""
        queue = "" if name.startswith(EVERY_QUEUE) else name
        self._adopt((queue,))
        self.fetcher.wake(queue)

    def _close(self, paused: str) -> None:
        """Give back what was claimed of a paused queue and has not begun. All queues give back
        where all are paused, or a task: the next claim brings what may run."""
        every = paused.startswith(EVERY_QUEUE)
        for queue in tuple(self.permits.slots) if every else (paused,):
            if queue in self.permits.slots:
                self.runner.close_queue(queue)

    def resize(self, queue: str, slots: int) -> None:
        """Serve this queue with so many slots from now on, or with 0 no longer. Nothing that runs
        is cancelled, and what was claimed and may not begin any more goes back."""
        check_name("queue", queue)
        if slots != 0:
            checks.count(f"queue {queue!r}: slots", slots)
        before = self.permits.slots.get(queue, 0)
        self.permits.resize(queue, slots)
        self.executor.resize(self.permits.total)
        self.runner.resize(queue, slots)
        self.fetcher.resized(queue)
        self._events.info("worker.resized", queue=queue, slots=slots, before=before)

    async def look_for_queues(self) -> None:
        """Begin to serve the queues that have work and that a pattern of this worker fits, and
        forget those that have had none for long. While jobs of a lost claim are looked for, none
        is forgotten: they are looked for by their queues."""
        if not self.permits.patterns:
            return
        waiting = await self._store.queues.waiting()
        self._adopt(waiting)
        for queue in () if self.lost_claims.searching else self.permits.unused(waiting):
            self.permits.forget(queue)
            self.runner.forget(queue)
            self.fetcher.resized(queue)

    def _adopt(self, queues: Iterable[str]) -> None:
        for queue in queues if self.permits.patterns else ():
            if self.permits.adopt(queue):
                self.runner.resize(queue, self.permits.slots[queue])
                self.fetcher.resized(queue)

    def _obey(self, order: Order) -> None:
        match order:
            case Drain():
                self._on_drain()
            case Resize(queue, slots):
                if not self.runner.leaving:
                    self._obey_resize(queue, slots)
            case _:
                assert_never(order)

    def _obey_resize(self, queue: str, slots: int) -> None:
        """An order that makes no sense must not harm what this worker does."""
        try:
            self.resize(queue, slots)
        except BadOption as error:
            order = repr(Resize(queue, slots))
            self._events.error("worker.order_refused", order=order, error=str(error))

    def _doze(self, dozes: bool) -> None:
        self._store.wakeups.doze(self.on_wakeup, dozes)
