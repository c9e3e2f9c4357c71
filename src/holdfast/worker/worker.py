"""A worker: it claims jobs of its queues, runs them, and writes how they ended.

async with Worker(store, registry, options, events) as worker:
    await worker.drain()      # until nothing is left to do now
    await worker.run()        # or until told to stop
"""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from types import TracebackType
from typing import Any

from holdfast.background.outage import LONGEST_WAIT_SECONDS, Outage
from holdfast.background.replicas import Replicas
from holdfast.background.service import Service
from holdfast.errors import HoldfastError, SlotsLost, WorkerFrozen, WorkerStalled
from holdfast.events import Events
from holdfast.handlers.registry import Registry
from holdfast.job.ids import WorkerId
from holdfast.job.serving import is_pattern
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.store import Store
from holdfast.worker import health
from holdfast.worker.approving import approve_handler
from holdfast.worker.attempt import Stop
from holdfast.worker.call_answers import tell_handler
from holdfast.worker.drain import drained
from holdfast.worker.last_resort import FROZEN, LATE, LastResort
from holdfast.worker.leaving import Departure
from holdfast.worker.listeners import Listener
from holdfast.worker.mapping import collect_handler, map_handler
from holdfast.worker.notice import Notice
from holdfast.worker.options import WorkerOptions
from holdfast.worker.os_signals import told_by_signals
from holdfast.worker.pipeline import Pipeline
from holdfast.worker.retirement import Retirement
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.watchdog import Frozen

AT_ONCE_SECONDS = 1.5
"""From a second signal to the end of the process, if there is a last resort."""
SHORTEST_LOOK_SECONDS = 1.0
"""Between two looks whether the store is out of reach: a busy machine needs time to try again."""
CLOSING_SECONDS = 2.0
"""From the end of a departure to the end of the process; meanwhile the app closes its store."""


class Worker:
    """One process's worker. It can be started once. `listeners` hear of each end of an attempt
    when the store has answered it (`listeners.Listener`). `closing` is how long the program may
    take to end after a signal, when the worker has left."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        options: WorkerOptions,
        events: Events,
        services: Sequence[Service] = (),
        replicas: Replicas | None = None,
        listeners: Sequence[Listener] = (),
        closing: float = CLOSING_SECONDS,
    ) -> None:
        self._store = store
        own = (
            map_handler(store),
            collect_handler(),
            tell_handler(store),
            approve_handler(store),
        )
        self._registry = reduce(Registry.beside, own, registry)
        self.options = options
        self._events = events
        self._services = tuple(services)
        self._replicas = replicas or Replicas()
        self._listeners = tuple(listeners)
        self._closing = closing
        self._pipeline: Pipeline | None = None
        self._unsubscribe: Callable[[], None] = _nothing
        self._notice = Notice()
        self._departure: asyncio.Task[None] | None = None
        self._started = self._obeying = False
        self._retirement: Retirement | None = None
        self._last_resort: LastResort | None = None
        self._failure: HoldfastError | None = None

    @property
    def id(self) -> WorkerId:
        """Fresh at every start, and again if the lease is lost."""
        return self._running_pipeline.identity.id

    async def __aenter__(self) -> Worker:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Register and begin to claim. Safe to call twice."""
        if self._pipeline is not None:
            return
        self._loop = asyncio.get_running_loop()
        setup = WorkerSetup(
            self._store,
            self._registry,
            self.options,
            self._events,
            Outage(self._events, longest=min(LONGEST_WAIT_SECONDS, self._look_every / 2)),
            self._replicas,
        )
        pipeline = self._pipeline = Pipeline(
            setup, self._on_frozen, self._on_exhausted, self._on_drain, self._services
        )
        for listener in self._listeners:
            pipeline.finisher.listeners.add(listener)
        pipeline.telling.start()
        self._retirement = Retirement(self.options, pipeline.finisher, self._on_limit)
        try:
            self._retirement.start()
            named = [queue for queue in self.options.queues if not is_pattern(queue)]
            await self._store.queues.ensure(dict.fromkeys(named, QueueSettings()))
            self._unsubscribe = await self._store.wakeups.subscribe(pipeline.on_wakeup)
            await pipeline.identity.begin()
            await pipeline.shares.start()
            for service in self._services:
                await service.start()
        except BaseException:
            await self.stop()
            raise
        pipeline.fetcher.start()
        pipeline.poller.start()
        self._started = True
        self._events.info(
            "worker.started",
            worker=pipeline.identity.id,
            label=self.options.name,
            queues=pipeline.permits.choices,
            tasks=len(self._registry.handlers),
        )

    async def stop(self) -> None:
        """Leave in good order. Safe to call twice; the second call waits for the first."""
        if self._pipeline is None:
            return
        await asyncio.shield(self._depart())

    def request_stop(self, *, now: bool = False) -> None:
        """Ask `run` to end. Claiming stops at once. With `now`, handlers are not waited for."""
        self._notice.asked.set()
        if now:
            self._notice.hurry.set()
        if self._pipeline is not None:
            self._pipeline.fetcher.stop_soon()

    async def run(self, *, burst: bool = False) -> None:
        """Work until a stop is asked for, by `request_stop` or a signal; with `burst` also until
        nothing is left to do. Raises WorkerStalled when the store stays out of reach,
        WorkerFrozen when a handler kept the loop for longer than `max_block`, and SlotsLost when
        stuck handlers hold too many slots.
        """
        with self.obeying_signals():
            await self.start()
            try:
                await self._until_asked(burst)
            finally:
                await self.stop()
        self._raise_failure()

    @contextmanager
    def obeying_signals(self, last_resort: LastResort | None = None) -> Iterator[None]:
        """Leave when the process is told to. `run` does so by itself; who starts the worker before
        calls this first, so that no signal comes to a worker that claims and does not listen. With
        a `last_resort` the process ends even if the loop never turns again."""
        if self._obeying:
            yield
            return
        self._obeying, self._last_resort = True, last_resort
        with told_by_signals(self._on_signal, self._on_signal_at_once):
            yield

    async def drain(self) -> int:
        """Work until nothing of these queues and tasks is ready, running or due; returns how
        many jobs ended meanwhile."""
        await self.start()
        ended = await drained(self._running_pipeline)
        self._raise_failure()
        return ended

    def resize(self, queue: str, slots: int) -> None:
        """Serve this queue with so many slots of its own from now on, or with 0 no longer. Nothing
        that runs is cancelled. The store's list of workers keeps what was registered."""
        self._running_pipeline.resize(queue, slots)

    def retire(self) -> None:
        """Claim no more, and let `run` end when everything that runs has ended, however long that
        takes. A stop that is asked for meanwhile counts as always."""
        pipeline = self._running_pipeline
        if self._notice.retiring or pipeline.runner.leaving:
            return
        self._notice.retiring = pipeline.runner.leaving = True
        pipeline.fetcher.stop_soon()
        pipeline.runner.hand_back_waiting()
        self._farewell = asyncio.create_task(self._retire(pipeline), name="holdfast-retire")

    @property
    def wants_successor(self) -> bool:
        """Whether the worker leaves, or has left, so that another takes its place: because of
        SIGHUP or a limit. A later SIGTERM, SIGINT or order to drain takes that back."""
        return self._notice.wants_successor

    def health(self) -> dict[str, object]:
        """Facts for probes; any thread may ask, and nothing is asked of the store. Not `live`:
        end this process. Not `ready`: it claims no jobs. `started`: it was registered. `leaving`:
        "stop", "drain" (an operator's order), "reload" (SIGHUP), "limit" (it has done enough), or
        nothing while it stays."""
        pipeline = self._pipeline
        if pipeline is None or not self._started:
            return {"live": True, "ready": False, "started": False}
        leaving = self._notice.why
        # A departure ends by itself, and the thread that keeps the lease ends before it.
        return {
            "live": self._departure is not None or health.is_live(pipeline),
            "ready": not leaving and health.is_trusted(pipeline),
            "started": True,
            "leaving": leaving,
            **health.facts(pipeline),
            "reconcilers": health.reconciled(self._services),
        }

    @property
    def _running_pipeline(self) -> Pipeline:
        if self._pipeline is None:
            raise HoldfastError("the worker is not started: use it inside 'async with worker:'")
        return self._pipeline

    @property
    def _look_every(self) -> float:
        """Seconds between two looks whether the store is out of reach."""
        return max(SHORTEST_LOOK_SECONDS, self.options.lease / 3)

    @property
    def _stalled_for(self) -> float:
        """Seconds without the store, if they are too many and leaving would lose nothing."""
        pipeline = self._running_pipeline
        return 0.0 if health.holds_anything(pipeline) else health.stalled_for(pipeline)

    async def _until_asked(self, burst: bool) -> None:
        asked = asyncio.create_task(self._notice.asked.wait())
        waiting: set[asyncio.Task[Any]] = {asked}
        if burst:
            waiting.add(asyncio.create_task(self._drain_then_ask()))
        suspicious = False
        try:
            while not asked.done():
                done, _ = await asyncio.wait(
                    waiting, timeout=self._look_every, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
                waiting -= done - {asked}
                # Twice in a row: a process that was stopped and goes on has not tried yet, and
                # one that has just written its last end has not beaten yet. Between two looks
                # every verb that failed is tried again.
                stalled = self._stalled_for
                if suspicious and stalled:
                    raise WorkerStalled(stalled, self._running_pipeline.setup.outage.reason)
                suspicious = bool(stalled)
        finally:
            for task in waiting:
                task.cancel()

    async def _drain_then_ask(self) -> None:
        await self.drain()
        if not self._notice.retiring:
            self._notice.asked.set()

    def _on_limit(self, name: str, value: int, limit: int) -> None:
        worker = self._running_pipeline.identity.id
        self._events.info("worker.retiring", worker=worker, reason=name, value=value, limit=limit)
        self.retire()

    def _on_drain(self) -> None:
        """Leave as after SIGTERM, also if nobody waits in `run`. The order comes with every beat
        until the worker has left the store's list."""
        if self._notice.drained:
            return
        self._notice.drained = True
        pipeline = self._running_pipeline
        running = len(pipeline.runner.running)
        self._events.info("worker.draining", worker=pipeline.identity.id, running=running)
        self._leave_soon()

    async def _retire(self, pipeline: Pipeline) -> None:
        await pipeline.shares.leave()
        await pipeline.runner.quiet.wait()
        self._leave_soon()

    def _on_exhausted(self, queue: str, stuck: int, slots: int) -> None:
        runner = self._running_pipeline.runner
        if runner.leaving:
            return
        self._failure = SlotsLost(queue, stuck, slots)
        self._events.error("worker.slots_lost", queue=queue, stuck=stuck, slots=slots)
        runner.leaving = True
        self._leave_soon()

    def _on_signal(self, number: signal.Signals) -> None:
        again = self._notice.hear(number)
        self._events.info("worker.signal", signal=number.name, immediate=again)
        self.request_stop(now=again)

    def _on_signal_at_once(self, number: signal.Signals) -> None:
        """Called by the thread that hears signals: a worker with a blocked loop must leave too."""
        notice = self._notice
        notice.count(number)
        grace = self.options.grace if notice.signals <= 1 else 0.0
        if self._pipeline is not None:
            self._pipeline.identity.heartbeat.watchdog.leave_by = time.monotonic() + grace
        if self._last_resort is not None:
            within = self.options.leaves_within
            patience = {0: within, 1: within, 2: AT_ONCE_SECONDS}
            # A worker that has not started holds nothing, and may wait for a silent store.
            most = math.inf if self._started else AT_ONCE_SECONDS
            self._last_resort.arm(min(patience.get(notice.signals, 0.0), most))

    def _on_frozen(self, frozen: Frozen) -> None:
        """Called in the heartbeat's thread, when all that can be saved is saved."""
        error = WorkerFrozen(frozen.seconds, self.options.longest_block)
        if self._last_resort is not None and frozen.leaving:
            self._last_resort.leave(LATE, "the worker's loop was blocked when it had to leave")
        if self._last_resort is not None:
            self._last_resort.leave(FROZEN, str(error))
        self._loop.call_soon_threadsafe(self._give_up, None if frozen.leaving else error)

    def _give_up(self, error: WorkerFrozen | None) -> None:
        """Called on the loop if it turns again: nothing on it is this worker's any more."""
        self._failure = error
        self._running_pipeline.runner.stop_all(Stop.LOST)
        self._leave_soon()

    def _leave_soon(self) -> None:
        """Leave also if nobody waits in `run`."""
        self.request_stop()
        self._depart()

    def _depart(self) -> asyncio.Task[None]:
        """Begin to leave, once."""
        self._notice.asked.set()
        if self._departure is None:
            leaving = self._leave(self._running_pipeline)
            self._departure = asyncio.create_task(leaving, name="holdfast-leave")
        return self._departure

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _leave(self, pipeline: Pipeline) -> None:
        if self._last_resort is not None:
            self._last_resort.arm(self.options.leaves_within)
        self._unsubscribe()
        if self._retirement is not None:
            self._retirement.stop()
        departure = Departure(pipeline, self._services, self._notice.hurry)
        await departure.leave()
        pipeline.telling.stop()
        if self._last_resort is not None and self._notice.signals:
            hurried = self._notice.hurry.is_set()
            self._last_resort.arm(CLOSING_SECONDS if hurried else self._closing)
        counters = pipeline.finisher.counters
        self._events.info(
            "worker.stopped",
            worker=pipeline.identity.id,
            ended=counters.ended,
            handed_back=counters.handed_back,
        )


def _nothing() -> None:
    """What there is to unsubscribe before anything was subscribed."""
