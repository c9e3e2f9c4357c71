"""The base of all reconcilers: a loop of ticks that only its supervisor stops.

A tick is one sweep: batches follow each other at once, each continuing where the one before ended,
until one comes back short. An error ends the sweep, not the loop: it is counted and reported, and
the next tick comes later. Waits are measured from the end of a tick, so a slow tick delays the next
one and ticks do not pile up.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from holdfast.background.backoff import (
    FIRST_ERROR_SECONDS,
    LONGEST_ERROR_SECONDS,
    Backoff,
    pause,
)
from holdfast.background.counters import LoopCounters, Swept
from holdfast.background.failures import FailureTracker
from holdfast.background.options import ReconcileOptions
from holdfast.background.outage import Outage
from holdfast.background.replicas import Replicas
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.job.ids import JobId
from holdfast.store.contract.store import Store

AGAIN: Final = ""
"""The cursor of verbs that need none: the items that they mended are gone from the next batch."""

JITTER_SHARE = 0.1
"""The share of an interval that is cut off at random, so that replicas do not tick in step."""

TIMER_SLACK_SECONDS = 0.001
"""Added to a sleep until a due time: a timer that fires a moment early would find nothing due."""

FIRST_SWEEP_SECONDS = 1.0
"""How long a worker runs before its nets sweep, and up to as much longer by chance."""

FIRST_STUCK_SECONDS = 0.05
"""The first wait while something is due and nothing can be mended; at most the interval."""

IDS_SHOWN = 5


class Reconciler(ABC):
    """Mends one thing that time can break. Safe to run anywhere, at any moment, many times.

    `gap` is the shortest pause between two sweeps, whatever woke the second one: it bounds what a
    burst of wakeups or of due times can cost. With `on_due` the reconciler is woken when a job was
    scheduled, with `on_errands` when a flow owes something, with `on_limits` when a budget runs
    low, with `on_loss` when a replica may have left jobs behind. One that `only_tells` mends
    nothing: it tells people what they must do.

    Jobs may wait for those that are woken by due times, errands and dead workers, so these sweep as
    soon as a worker starts. The others leave the first moments of a worker to its jobs.
    """

    name: ClassVar[str]
    gap: ClassVar[float] = 0.02
    on_due: ClassVar[bool] = False
    on_errands: ClassVar[bool] = False
    on_limits: ClassVar[bool] = False
    on_loss: ClassVar[bool] = False
    only_tells: ClassVar[bool] = False

    def __init__(
        self,
        store: Store,
        events: Events,
        options: ReconcileOptions,
        *,
        outage: Outage | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        self.store = store
        self.events = events
        self.options = options
        self.counters = LoopCounters()
        self.failures = FailureTracker()
        self.replicas = replicas or Replicas()
        self._outage = outage or Outage(events, "reconcile")
        self._woken = asyncio.Event()
        self._stop = asyncio.Event()
        self._error_backoff = Backoff(first=FIRST_ERROR_SECONDS, cap=LONGEST_ERROR_SECONDS)
        self._stuck_backoff = Backoff(first=FIRST_STUCK_SECONDS, cap=self.interval)

    @property
    @abstractmethod
    def interval(self) -> float:
        """The longest pause between two sweeps of a lone replica."""

    @property
    def pace(self) -> float:
        """The longest pause of this replica: longer than the interval if there are many."""
        return self.replicas.stretched(self.interval)

    @abstractmethod
    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        """Mend one batch; returns the cursor of the next batch, None after the last."""

    async def due_in(self) -> float | None:
        """Seconds until there will be something to mend, if that can be known.

        Asked after each sweep. The next sweep comes then, or after the interval if that is sooner.
        """
        return None

    async def close(self) -> None:  # noqa: B027 - most hold nothing
        """Give back what this reconciler holds in the store. Called after the loop has ended."""

    def wake(self) -> None:
        """Sweep soon instead of at the next interval. To be called on the loop's thread."""
        self._woken.set()

    async def run_once(self) -> Swept:
        """One whole sweep, now. Errors reach the caller; the loop handles them in `_tick`."""
        started = time.perf_counter()
        self.failures.begin_cycle()
        total = Swept()
        cursor: str | None = None
        try:
            while True:
                tally, cursor = await self.step(cursor)
                total += tally
                self.counters.items += tally
                if cursor is None or self._stop.is_set():
                    break
                await asyncio.sleep(0)
        finally:
            self._report(total, time.perf_counter() - started)
        return total

    def report_blamed(self, blamed: Mapping[JobId, Exception]) -> None:
        """Count a failure against each job that a sweep could not mend, and report the first of
        them."""
        if not blamed:
            return
        resting = sum([self.failures.failed(job_id) for job_id in blamed])
        self.events.error(
            "reconciler.items_failed",
            reconciler=self.name,
            failed=len(blamed),
            resting=resting,
            jobs=tuple(blamed)[:IDS_SHOWN],
            error=repr(next(iter(blamed.values()))),
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep until told to stop. Between batches a stop is obeyed."""
        self._stop = stop
        if not (self.on_due or self.on_errands or self.on_loss):
            wait = min(self.interval, FIRST_SWEEP_SECONDS * (1 + random.random()))
            await pause(wait, stop, self._woken)
        while not stop.is_set():
            self._woken.clear()
            wait = await self._tick()
            await pause(min(wait, self.gap), stop)
            await pause(wait - self.gap, stop, self._woken)

    async def _tick(self) -> float:
        """Sweep, whatever happens; returns the seconds until the next sweep."""
        try:
            tally = await self.run_once()
            wait = self._wait_after(tally, await self.due_in())
        except StoreUnavailable as error:
            self.counters.count_error(error)
            self._outage.failed(self.name, error)
            return self._error_backoff.next()
        except Exception as error:  # noqa: BLE001 - counted and reported; the loop goes on
            self.counters.count_error(error)
            self.events.error("reconciler.tick_failed", reconciler=self.name, error=repr(error))
            return max(self._error_backoff.next(), self.interval)
        self._outage.over(self.name)
        self._error_backoff.reset()
        return wait

    def _wait_after(self, tally: Swept, due_in: float | None) -> float:
        if due_in is None or due_in >= self.pace:
            self._stuck_backoff.reset()
            return self.pace * (1 - JITTER_SHARE * random.random())
        if due_in > 0 or tally.mended:
            self._stuck_backoff.reset()
            return max(due_in + TIMER_SLACK_SECONDS, self.gap)
        # Something is due, yet nothing could be mended: another replica has it locked, or it fails
        # each time. Sweeping again at once would spin.
        return self._stuck_backoff.next()

    def _report(self, tally: Swept, seconds: float) -> None:
        self.counters.count_tick(seconds)
        if tally.found:
            self.events.debug(
                "reconciler.swept",
                reconciler=self.name,
                found=tally.found,
                mended=tally.mended,
                refused=tally.refused,
                failed=tally.failed,
                skipped=tally.skipped,
                seconds=round(seconds, 6),
            )
