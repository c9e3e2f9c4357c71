"""Keeps the worker's lease alive from a thread of its own.

The thread has its own event loop and its own store connection: a handler that
hogs the worker's loop or its connections cannot cost it the lease. What the
store answers is handed to the worker's loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.job.ids import WorkerId
from holdfast.job.text import describe
from holdfast.store.contract.records import Beat, Held
from holdfast.store.contract.store import Store
from holdfast.worker.watchdog import Frozen, Watchdog


class Listener(Protocol):
    """Whom the heartbeat tells, always on the worker's own loop."""

    def on_beat(self, worker: WorkerId, beat: Beat, held: list[Held]) -> None: ...


class Heartbeat:
    """One beat every third of the lease, each with less time than that to succeed."""

    def __init__(
        self,
        store: Store,
        events: Events,
        listener: Listener,
        *,
        lease: float,
        max_block: float,
        held: Callable[[], list[Held]],
        stuck: Callable[[], dict[str, int]],
        is_behind: Callable[[float], bool],
        suspects: Callable[[], list[str]],
        give_up: Callable[[Store, Frozen], Awaitable[None]],
    ) -> None:
        self._store = store
        self._events = events
        self._listener = listener
        self._lease = lease
        self._held = held
        self._stuck = stuck
        self._is_behind = is_behind
        self._worker_loop = asyncio.get_running_loop()
        self.watchdog = Watchdog(
            self._worker_loop,
            events,
            tolerance=max(0.1, min(1.0, lease / 3, max_block / 2)),
            limit=max_block,
            suspects=suspects,
            give_up=self._give_up,
        )
        self._rescue = give_up
        self._given_up = False
        self._worker: WorkerId | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._now = asyncio.Event()
        self._failing = self._lapsed = False
        self._heard: float | None = None
        self.last_beat = self.last_answer = time.monotonic()

    def start(self, worker: WorkerId, registered_at: float) -> None:
        """`registered_at`: when the registration was sent, which the lease counts from."""
        self.follow(worker, registered_at)
        # Made here and not in the thread, so that what is told before the thread runs is kept.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="holdfast-heartbeat", daemon=True)
        self._thread.start()

    def follow(self, worker: WorkerId, registered_at: float) -> None:
        """Beat for this worker from now on."""
        self.last_beat = registered_at
        self._heard = None
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
                # The worker's loop was closed under us: nobody is left to beat for.
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
            async with asyncio.timeout(self._lease / 3):
                await store.close()
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _beats(self, store: Store) -> None:
        """The first beat comes a third of the lease after the registration, like any other."""
        opened = False
        while not self._given_up:
            try:
                async with asyncio.timeout(self._lease / 3):
                    if opened:
                        await self._beat(store)
                    else:
                        await store.open()
                        opened = True
            except Exception as error:  # noqa: BLE001 - no error may end the heartbeats
                self._failed(error)
                wait = self._lease / 10
            else:
                wait = self._lease / 3 - (time.monotonic() - self.last_beat)
            # Never back to back, also while a name that the store forgot is being renewed.
            await self._pause(max(wait, self._lease / 10))
        await self._stop.wait()

    async def _give_up(self, store: Store, frozen: Frozen) -> None:
        """No beat and no claim after this: what is handed on must not come back to us."""
        self._given_up = True
        await self._rescue(store, frozen)

    async def _beat(self, store: Store) -> None:
        """A beat also says whether all is written that was decided when the answer to the beat
        before it came; if that answer was not heard, nothing can be said."""
        worker = self._worker
        assert worker is not None
        held, sent = self._held(), time.monotonic()
        heard, self._heard = self._heard, None
        caught_up = heard is not None and not self._is_behind(heard)
        beat = await store.workers.heartbeat(worker, self._lease, held, caught_up, self._stuck())
        self.last_answer = time.monotonic()
        if worker != self._worker:
            return  # renewed meanwhile: this answer is about a name we no longer use
        if beat.known:
            self.last_beat, self._heard = sent, self.last_answer
        if self._failing:
            self._failing = self._lapsed = False
            self._events.info("heartbeat.recovered", worker=worker)
        if beat.cancel or beat.lost or not beat.known:
            self._worker_loop.call_soon_threadsafe(self._listener.on_beat, worker, beat, held)

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
