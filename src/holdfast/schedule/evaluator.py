"""The loop that evaluates schedules when they are due, each on its own.

It sleeps until the next plan of any schedule and wakes up early when a schedule is changed. Every
replica runs one evaluator. The leader evaluates a schedule at once, the others a moment later, when
an evaluation usually finds everything written. A leader that dies therefore costs that moment and
nothing else. A replica that takes the lead evaluates every schedule once, for plans that the old
leader left behind; plans that come due meanwhile go first.

Trouble with one schedule (its expression, its time zone, its providers, its jobs) is shown on that
schedule and tried again, later each time. It touches no other schedule and disables nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from holdfast.background.backoff import (
    FIRST_ERROR_SECONDS,
    LONGEST_ERROR_SECONDS,
    Backoff,
    pause,
)
from holdfast.background.counters import LoopCounters, Swept
from holdfast.background.leader import Leadership
from holdfast.background.options import ReconcileOptions
from holdfast.background.outage import Outage
from holdfast.background.replicas import Replicas
from holdfast.background.store_clock import StoreClock
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.schedule.agenda import Agenda, Entry
from holdfast.schedule.bounded_calls import SLOW_SECONDS
from holdfast.schedule.evaluation import Evaluated, Evaluation
from holdfast.schedule.providers import Providers
from holdfast.store.contract.store import Store

REREAD_SECONDS = 30.0
"""How often all schedules are read again, for changes that woke nobody."""
LEAD_SECONDS = 10.0
"""The ttl of the lead; it is extended every third of this."""
FOLLOWER_SECONDS = 2.0
"""How long after a plan is due a replica that does not lead evaluates the schedule."""
MOST_EVALUATIONS = 256
MOST_UNSEEN_EVALUATIONS = 8
"""Evaluations at once, of schedules that are due and of schedules that are unseen."""
BATCHES_AT_ONCE = 4
"""Batches of all evaluations that use the store together. They take turns, first come first served:
a schedule of ten thousand scopes delays another schedule by one batch, not by all its batches."""
EVALUATION = "schedule evaluation"
TIMER_SLACK_SECONDS = 0.001


class Evaluator:
    """A Loop over all schedules of a store."""

    name = "schedules"

    def __init__(
        self,
        store: Store,
        events: Events,
        providers: Providers | None = None,
        options: ReconcileOptions | None = None,
        *,
        replicas: Replicas | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        options = options or ReconcileOptions()
        self.counters = LoopCounters()
        self.leadership = Leadership(store, events, self.name, options.owner, ttl=LEAD_SECONDS)
        self._store = store
        self._events = events
        self._providers = providers or Providers()
        self._batches = asyncio.Semaphore(BATCHES_AT_ONCE)
        self._outage = Outage(events, "reconcile")
        self._monotonic = monotonic
        self._replicas = replicas or Replicas()
        self._agenda = Agenda()
        self._evaluations: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._stale = True
        self._leading = False
        self._read_at = self._asked_at = float("-inf")
        self._clock = StoreClock(store, monotonic)
        self._backoff = Backoff(first=FIRST_ERROR_SECONDS, cap=LONGEST_ERROR_SECONDS)

    @property
    def busy(self) -> bool:
        """Whether an evaluation runs or an unseen schedule waits for one."""
        return bool(self._evaluations) or self._agenda.has_unseen

    def lead_is_free(self) -> None:
        """The leader has left: ask for its place now. To be called on the loop's thread."""
        self._asked_at = float("-inf")
        self._woken.set()

    def wake(self) -> None:
        """Schedules were changed: read them again. To be called on the loop's thread."""
        self._stale = True
        self._woken.set()

    async def run_once(self) -> Swept:
        """Evaluate every schedule until no plan is left that is due now."""
        before = self.counters.items
        for schedule in await self._store.schedules.find():
            entry = self._agenda.entry(schedule)
            while (evaluated := await self.evaluate(entry)) is not None:
                self._count(evaluated)
                if not evaluated.more:
                    break
        written = self.counters.items.mended - before.mended
        return Swept(found=written, mended=written)

    async def evaluate(self, entry: Entry) -> Evaluated | None:
        """Evaluate a schedule by its definition as it is now, so that a pause or an edit counts
        from its moment on. None if the schedule is gone. Only an outage of the store is raised."""
        found = await self._store.schedules.find([entry.name])
        if not found:
            return None
        entry.schedule = found[0]
        evaluation = Evaluation(
            self._store,
            self._events,
            self._providers,
            self._batches,
            entry.schedule,
            entry.tried_up_to,
        )
        begun = time.monotonic()
        try:
            return await evaluation.run()
        finally:
            entry.took = time.monotonic() - begun
            entry.tried_up_to = evaluation.tried_up_to

    # The loop ----------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                self._woken.clear()
                await pause(await self._tick(), stop, self._woken)
        finally:
            await self._abandon_evaluations()

    async def _tick(self) -> float:
        """Start every evaluation that is due; seconds until the next tick."""
        started = self._monotonic()
        try:
            await self._lead()
            await self._reread()
            await self._start_due()
        except StoreUnavailable as error:
            self.counters.count_error(error)
            self._outage.failed(self.name, error)
            return self._backoff.next()
        except Exception as error:  # noqa: BLE001 - counted and reported; the loop goes on
            self.counters.count_error(error)
            self._events.error("schedule.tick_failed", error=repr(error))
            return self._backoff.next()
        self._outage.over(self.name)
        self._backoff.reset()
        self._start_unseen()
        self.counters.count_tick(self._monotonic() - started)
        return self._until_next()

    async def _lead(self) -> None:
        """Ask for the lead from time to time. A replica that just got it evaluates everything
        once. While there is no schedule, nobody extends the lead."""
        asked_at = self._monotonic()
        if asked_at < self._ask_at:
            return
        led, self._leading = self._leading, False
        self._asked_at = asked_at  # before the call: `lead_is_free` may come during it
        try:
            self._leading = await self.leadership.ensure()
        except BaseException:
            self._asked_at = float("-inf")  # the next tick repeats a call that failed
            raise
        if self._agenda.first_due is not None:
            await self._clock.read()  # the estimate is wrong if this machine has slept
        if self._leading and not led:
            self._stale = True
            self._agenda.mark_all_unseen()

    @property
    def _ask_at(self) -> float:
        """With no schedule to lead, only when the lead became free."""
        if self._agenda.is_empty and not self._stale and self._asked_at > float("-inf"):
            return float("inf")
        return self._asked_at + self._pace(LEAD_SECONDS / 3)

    def _pace(self, interval: float) -> float:
        """The more replicas there are, the less often each of those that do not lead asks. Any one
        of them is enough to find a free lead or a change that woke nobody."""
        return interval if self._leading else self._replicas.stretched(interval)

    async def _reread(self) -> None:
        if not self._stale and self._monotonic() - self._read_at < self._pace(REREAD_SECONDS):
            return
        self._stale = False
        try:
            now = await self._clock.read()
            schedules = await self._store.schedules.find()
        except BaseException:
            self._stale = True
            raise
        self._read_at = self._monotonic()
        await self._agenda.update(schedules, now, leading=self._leading)

    @property
    def _lag(self) -> timedelta:
        """How long after a plan is due this replica evaluates the schedule. It is no part of the
        agenda, so a replica that takes the lead is on time from its first plan on."""
        return timedelta(seconds=0 if self._leading else FOLLOWER_SECONDS)

    def _until_next(self) -> float:
        wait = min(self._read_at + self._pace(REREAD_SECONDS), self._ask_at) - self._monotonic()
        first_due = self._agenda.first_due
        if first_due is not None and not self._has_room(MOST_EVALUATIONS):
            wait = min(wait, SLOW_SECONDS)
        elif first_due is not None:
            due_in = (first_due + self._lag - self._clock.estimate()).total_seconds()
            wait = min(wait, due_in + TIMER_SLACK_SECONDS)
        return max(TIMER_SLACK_SECONDS, wait)

    # Evaluations -------------------------------------------------------------------------

    async def _start_due(self) -> None:
        first_due = self._agenda.first_due
        if first_due is None or first_due + self._lag > self._clock.estimate():
            return
        by = await self._clock.read() - self._lag
        while self._has_room(MOST_EVALUATIONS) and (entry := self._agenda.pop_due(by)):
            self._start(entry)

    def _start_unseen(self) -> None:
        """A few at a time: there may be thousands, and most have no plan that is due."""
        while self._has_room(MOST_UNSEEN_EVALUATIONS) and (entry := self._agenda.pop_unseen()):
            self._start(entry)

    def _has_room(self, most: int) -> bool:
        """Evaluations that wait for a slow provider do not count: however many of them hang, the
        other schedules go on."""
        return len(self._evaluations) - self._providers.slow < most

    def _start(self, entry: Entry) -> None:
        if entry.busy:
            return
        self._agenda.begin(entry)
        task = asyncio.create_task(self._run(entry), name=f"holdfast-evaluate-{entry.name}")
        self._evaluations.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._evaluations.discard(task)
        self._woken.set()

    async def _run(self, entry: Entry) -> None:
        """One evaluation, whatever comes of it; then the time of the next."""
        again: datetime | None = None
        version = entry.schedule.version
        try:
            evaluated = await self.evaluate(entry)
            self._outage.over(EVALUATION)
            if evaluated is not None:
                self._count(evaluated)
                again = entry.next_evaluation(evaluated)
        except StoreUnavailable as error:
            self.counters.count_error(error)
            self._outage.failed(EVALUATION, error)
            again = self._clock.estimate() + timedelta(seconds=self._backoff.next())
        except Exception as error:  # noqa: BLE001 - counted and reported; other schedules go on
            self.counters.count_error(error)
            self._events.error("schedule.evaluation_failed", schedule=entry.name, error=repr(error))
            again = self._clock.estimate() + timedelta(seconds=entry.backoff.next())
        finally:
            self._agenda.end(entry, again, version)

    def _count(self, evaluated: Evaluated) -> None:
        self.counters.items += Swept(found=evaluated.recorded, mended=evaluated.recorded)

    async def _abandon_evaluations(self) -> None:
        """An evaluation that is cut off has written whole batches or nothing, and another
        evaluation continues it."""
        for task in self._evaluations:
            task.cancel()
        if self._evaluations:
            await asyncio.wait(self._evaluations)
