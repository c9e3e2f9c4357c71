"""Keeps the worker's lease alive from a thread of its own.

The thread has its own event loop and its own store connection, so a handler that blocks the
worker's loop or uses up its connections cannot cost the worker its lease. What the store answers
is passed on to the worker's loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from holdfast.errors import StoreUnavailable
from holdfast.job.ids import WorkerId
from holdfast.job.text import describe
from holdfast.store.contract.facts import NO_FACTS, WorkerFacts
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import Beat, Drain, Held
from holdfast.worker.finisher import Finisher
from holdfast.worker.rescue import Rescue
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.watchdog import Frozen, Watchdog

LONGEST_REPEAT_SECONDS = 1.5
"""A beat that failed is repeated after a tenth of the lease, and after this time at the latest: a
store that is back prolongs the lease soon, however long the lease is."""


class BeatListener(Protocol):
    """Whose heart beats (`Identity`)."""

    def on_beat(self, worker: WorkerId, beat: Beat, held: list[Held]) -> None:
        """What the store answered to a beat; always called on the worker's own loop."""
        ...

    def held(self) -> list[Held]:
        """The attempts that the worker holds; called from the heartbeat's thread."""
        ...

    def facts(self) -> WorkerFacts:
        """What the worker says of itself; called from the heartbeat's thread."""
        ...

    def suspects(self) -> list[str]:
        """Handlers that may block the loop; called from the heartbeat's thread."""
        ...


class Heartbeat:
    """One beat every third of the lease, each with less time than that to succeed."""

    def __init__(
        self, setup: WorkerSetup, listener: BeatListener, finisher: Finisher, rescue: Rescue
    ) -> None:
        lease, max_block = setup.options.lease, setup.options.longest_block
        self._store = setup.store
        self._events = setup.events
        self._lease = lease
        self._grace = setup.options.grace
        self._listener = listener
        self._finisher = finisher
        self._worker_loop = asyncio.get_running_loop()
        self.watchdog = Watchdog(
            self._worker_loop,
            setup.events,
            tolerance=max(0.1, min(1.0, lease / 3, max_block / 2)),
            limit=max_block,
            suspects=listener.suspects,
            give_up=self._give_up,
        )
        self._rescue = rescue
        self._given_up = False
        self._worker: WorkerId | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._now = asyncio.Event()
        self._opening = asyncio.Lock()
        self._is_open = False
        self._failing = self._lapsed = False
        self._heard: float | None = None
        self.told = NO_FACTS  # the last facts that the store has surely heard
        self.last_beat = self.last_answer = time.monotonic()

    def start(self, worker: WorkerId, registered_at: float) -> None:
        """`registered_at`: when the registration was sent, which the lease counts from."""
        self.follow(worker, registered_at)
        # Made here and not in the thread, so that calls before the thread runs are kept.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="holdfast-heartbeat", daemon=True)
        self._thread.start()

    def follow(self, worker: WorkerId, registered_at: float) -> None:
        """Beat for this worker from now on."""
        self.last_beat = registered_at
        self._heard = None
        self.told = NO_FACTS
        self._worker = worker

    def beat_now(self) -> None:
        """Somebody asked for a cancel: the answer to a beat says for which jobs."""
        self._tell(self._now.set)

    async def stop(self) -> None:
        while self._thread is not None and self._thread.is_alive():
            self._tell(self._stop.set)
            await asyncio.sleep(0.002)

    @property
    def lease_left(self) -> float:
        """Seconds; of a worker that was given up nothing is left."""
        return -1.0 if self._given_up else self.last_beat + self._lease - time.monotonic()

    def _tell(self, what: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(what)

    # In the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(self._main())
            except RuntimeError as error:
                # The worker's loop is closed: nobody is left to beat for.
                self._events.error("heartbeat.ended", error=describe(error))

    async def _main(self) -> None:
        store = self._store.sibling()
        services: list[Coroutine[Any, Any, None]] = [self._beats(store), self.watchdog.watch(store)]
        tasks = [asyncio.create_task(service) for service in services]
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([*tasks, stop], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, stop):
                task.cancel()
            ended = await asyncio.gather(*tasks, stop, return_exceptions=True)
            await self._close(store)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _close(self, store: Store) -> None:
        """A connection that does not close in time is cut when the loop of this thread ends."""
        seconds = self._lease / 3
        try:
            async with asyncio.timeout(seconds):
                await store.close()
        except TimeoutError:
            self._events.warning("heartbeat.not_closed", seconds=seconds)

    async def _beats(self, store: Store) -> None:
        """The first beat comes a tenth of the lease after the start, and opens the connection: a
        worker that has left by then needs none."""
        await self._pause(self._lease / 10)
        while not self._given_up:
            try:
                async with asyncio.timeout(self._lease / 3):
                    await self._beat(await self._opened(store))
            except Exception as error:  # noqa: BLE001 - no error may end the heartbeats
                self._failed(error)
                wait = min(self._lease / 10, LONGEST_REPEAT_SECONDS)
            else:
                # Never back to back, also while a name that the store forgot is being renewed.
                wait = self._lease / 3 - (time.monotonic() - self.last_beat)
                wait = max(wait, self._lease / 10)
            await self._pause(wait)
        await self._stop.wait()

    async def _give_up(self, store: Store, frozen: Frozen) -> None:
        """No beat and no claim after this: jobs that are handed back must not come here again."""
        self._given_up = True
        assert self._worker is not None
        await self._rescue.save(partial(self._opened, store), self._worker, frozen)

    async def _opened(self, store: Store) -> Store:
        """Beats and rescue share the connection, and either may need it first."""
        async with self._opening:
            if not self._is_open:
                await store.open()
                self._is_open = True
        return store

    async def _beat(self, store: Store) -> None:
        """A beat also says whether everything is written that was decided when the answer to the
        beat before it came. If that answer was not heard, nothing can be said."""
        worker = self._worker
        assert worker is not None
        held, sent = self._listener.held(), time.monotonic()
        heard, self._heard = self._heard, None
        caught_up = heard is not None and not self._finisher.is_behind(heard)
        facts = self._listener.facts()
        beat = await store.workers.heartbeat(worker, self._lease, held, caught_up, facts)
        self.last_answer = time.monotonic()
        if worker != self._worker:
            return  # renewed meanwhile: this answer is about the old name
        if beat.known:
            self.last_beat, self._heard = sent, self.last_answer
            self.told = facts
        if any(isinstance(order, Drain) for order in beat.orders):
            self._leave_in_time()
        if self._failing:
            self._failing = self._lapsed = False
            self._events.info("heartbeat.recovered", worker=worker)
        if beat.cancel or beat.lost or beat.orders or not beat.known:
            self._worker_loop.call_soon_threadsafe(self._listener.on_beat, worker, beat, held)

    def _leave_in_time(self) -> None:
        """The worker is told to drain. A loop that stays blocked for the grace is given up: it may
        never hear of the order."""
        leave_by = time.monotonic() + self._grace
        self.watchdog.leave_by = min(self.watchdog.leave_by, leave_by)

    def _failed(self, error: Exception) -> None:
        if not self._failing:
            self._failing = True
            known = isinstance(error, StoreUnavailable | TimeoutError)
            report = self._events.warning if known else self._events.error
            report("heartbeat.failed", worker=self._worker, error=describe(error))
        if self.lease_left <= 0 and not (self._lapsed or self._given_up):
            self._lapsed = True
            self._events.warning("worker.lease_lapsed", worker=self._worker)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._now.wait()
        except TimeoutError:
            return
        finally:
            self._now.clear()
