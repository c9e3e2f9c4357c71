"""Looks at schedules when they are due, each on its own.

It sleeps until the next plan of all schedules and is woken when one is changed. Every replica runs
one; the leader looks at once, the others a moment later, when a look usually finds everything
written: a leader that dies costs that moment and nothing else. Who takes over looks at all
schedules once, for what was left behind; what is due meanwhile goes first.

One schedule's trouble (its expression, its zone, its providers, its jobs) is shown on it and tried
again, later each time; it touches no other and disables nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from holdfast.background.backoff import Backoff, pause
from holdfast.background.counters import Counters, Tally
from holdfast.background.leader import Leadership
from holdfast.background.options import ReconcileOptions
from holdfast.background.outage import Outage
from holdfast.background.replicas import Replicas
from holdfast.background.store_clock import StoreClock
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.schedule.agenda import Attention, Entry
from holdfast.schedule.bounded_calls import PATIENCE
from holdfast.schedule.evaluation import Looked
from holdfast.schedule.model import Schedule
from holdfast.schedule.providers import Providers
from holdfast.schedule.rule import shift_of, times_of
from holdfast.schedule.status import newest_due
from holdfast.store.contract.store import Store

REREAD = 30.0
LEASE = 10.0
LOOK = "schedule look"
BEHIND = 2.0
"""Seconds that a replica which does not lead leaves to the leader."""
MOST_LOOKS = 256
MOST_FIRST_LOOKS = 8
BREATH = 50
TIMER_SLACK = 0.001


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
        self.counters = Counters()
        self.leadership = Leadership(store, events, self.name, options.owner, ttl=LEASE)
        self._store = store
        self._events = events
        self._providers = providers or Providers()
        self._attention = Attention(store, events, self._providers)
        self._outage = Outage(events, "reconcile")
        self._monotonic = monotonic
        self._replicas = replicas or Replicas()
        self._entries: dict[str, Entry] = {}
        self._heap: list[tuple[datetime, str]] = []
        self._unseen: dict[str, None] = {}
        self._looks: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._stale = True
        self._leading = False
        self._read_at = self._asked_at = float("-inf")
        self._clock = StoreClock(store, monotonic)
        self._backoff = Backoff(first=0.25, cap=5.0)

    @property
    def busy(self) -> bool:
        """Whether a look is under way or a first one is still to come."""
        return bool(self._looks or self._unseen)

    def lead_is_free(self) -> None:
        """The leader has left: ask for its place now. To be called on the loop's thread."""
        self._asked_at = float("-inf")
        self._woken.set()

    def wake(self) -> None:
        """Schedules were changed: read them again. To be called on the loop's thread."""
        self._stale = True
        self._woken.set()

    async def run_once(self) -> Tally:
        """Look at every schedule until nothing is left that is due now."""
        before = self.counters.items
        for schedule in await self._store.schedules.list():
            entry = self._entries.setdefault(schedule.name, Entry(schedule))
            while (looked := await self._attention.look(entry)) is not None:
                self._count(looked)
                if not looked.more:
                    break
        written = self.counters.items.mended - before.mended
        return Tally(found=written, mended=written)

    async def close(self) -> None:
        try:
            await self.leadership.resign()
        except StoreUnavailable as error:
            # The ttl ends it without us.
            self._events.debug("leader.resign_failed", role=self.name, error=str(error))

    # The loop ----------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                self._woken.clear()
                await pause(await self._tick(), stop, self._woken)
        finally:
            await self._abandon_looks()

    async def _tick(self) -> float:
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
        """Ask for the lead now and then; who just got it looks at everything once."""
        asked_at = self._monotonic()
        if asked_at - self._asked_at < self._pace(LEASE / 3):
            return
        led, self._leading = self._leading, False
        self._leading = await self.leadership.ensure()
        self._asked_at = asked_at  # only now: a call that failed is repeated by the next tick
        if self._heap:
            await self._clock.read()  # it may have jumped: this machine may have slept
        if self._leading and not led:
            self._stale = True
            self._unseen.update(dict.fromkeys(self._entries))

    def _pace(self, interval: float) -> float:
        """Those who do not lead look the less often the more they are: any one of them is enough
        to find a lead that is free or a change that nobody was woken for."""
        return interval if self._leading else self._replicas.stretched(interval)

    async def _reread(self) -> None:
        if not self._stale and self._monotonic() - self._read_at < self._pace(REREAD):
            return
        self._stale = False
        try:
            now = await self._clock.read()
            schedules = await self._store.schedules.list()
        except BaseException:
            self._stale = True
            raise
        self._read_at = self._monotonic()
        entries: dict[str, Entry] = {}
        for number, schedule in enumerate(schedules):
            entries[schedule.name] = self._entry(self._entries.get(schedule.name), schedule, now)
            if number % BREATH == 0:
                await asyncio.sleep(0)  # thousands of new ones take a while to compute
        self._entries = entries
        self._heap = [(e.due, name) for name, e in self._entries.items() if e.due is not None]
        heapq.heapify(self._heap)

    def _entry(self, entry: Entry | None, schedule: Schedule, now: datetime) -> Entry:
        if entry is not None and entry.schedule.version == schedule.version:
            return entry
        entry = entry or Entry(schedule)
        entry.schedule = schedule
        entry.backoff.reset()
        entry.due = self._next_plan(schedule, now)
        if entry.due == now or self._needs_first_look(schedule, now):
            self._unseen[schedule.name] = None
        return entry

    def _needs_first_look(self, schedule: Schedule, now: datetime) -> bool:
        """Not where nothing can be due yet; and where another leads, only if that one may lack
        the code."""
        chosen = schedule.definition
        if not self._leading and not chosen.scopes and not chosen.planner:
            return False
        if schedule.error is not None or schedule.changed_at is not None or chosen.planner:
            return True
        return newest_due(schedule, now) is not None

    def _next_plan(self, schedule: Schedule, now: datetime) -> datetime | None:
        try:
            rule = schedule.definition.rule
            shift = shift_of(rule, schedule.name)
            following = times_of(rule).after(now - shift)
        except Exception:  # noqa: BLE001 - looked at now, so that it is told where it shows
            return now
        return None if following is None else following + shift

    @property
    def _lag(self) -> timedelta:
        """How long after a plan is due this replica looks. Entries know nothing of it, so that
        who takes the lead is on time from the first plan on."""
        return timedelta(seconds=0 if self._leading else BEHIND)

    def _until_next(self) -> float:
        waits = [self._read_at + self._pace(REREAD), self._asked_at + self._pace(LEASE / 3)]
        wait = min(waits) - self._monotonic()
        if self._heap and not self._has_room(MOST_LOOKS):
            wait = min(wait, PATIENCE)
        elif self._heap:
            due_in = (self._heap[0][0] + self._lag - self._clock.estimate()).total_seconds()
            wait = min(wait, due_in + TIMER_SLACK)
        return max(TIMER_SLACK, wait)

    # Looks -------------------------------------------------------------------------------

    async def _start_due(self) -> None:
        if not self._heap or self._heap[0][0] + self._lag > self._clock.estimate():
            return
        by = await self._clock.read() - self._lag
        while self._heap and self._heap[0][0] <= by and self._has_room(MOST_LOOKS):
            due, name = heapq.heappop(self._heap)
            entry = self._entries.get(name)
            if entry is not None and entry.due == due:
                self._start(entry)

    def _start_unseen(self) -> None:
        """First looks, a few at a time: there may be thousands, and little to find."""
        while self._unseen and self._has_room(MOST_FIRST_LOOKS):
            entry = self._entries.get(next(iter(self._unseen)))
            del self._unseen[next(iter(self._unseen))]
            if entry is not None:
                self._start(entry)

    def _has_room(self, most: int) -> bool:
        """Looks that wait for a slow provider are left out: however many hang, others go on."""
        return len(self._looks) - self._providers.slow < most

    def _start(self, entry: Entry) -> None:
        if entry.busy:
            return
        entry.busy = True
        self._unseen.pop(entry.name, None)
        task = asyncio.create_task(self._look(entry), name=f"holdfast-look-{entry.name}")
        self._looks.add(task)
        task.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._looks.discard(task)
        self._woken.set()

    async def _look(self, entry: Entry) -> None:
        """One look, whatever comes of it; then the time of the next."""
        again: datetime | None = None
        version = entry.schedule.version
        try:
            looked = await self._attention.look(entry)
            self._outage.over(LOOK)
            if looked is not None:
                self._count(looked)
                again = self._attention.next_look(entry, looked)
        except StoreUnavailable as error:
            self.counters.count_error(error)
            self._outage.failed(LOOK, error)
            again = self._clock.estimate() + timedelta(seconds=self._backoff.next())
        except Exception as error:  # noqa: BLE001 - counted and reported; others go on
            self.counters.count_error(error)
            self._events.error("schedule.look_failed", schedule=entry.name, error=repr(error))
            again = self._clock.estimate() + timedelta(seconds=entry.backoff.next())
        finally:
            entry.busy = False
            self._put(entry, again, version)

    def _put(self, entry: Entry, due: datetime | None, version: tuple[datetime, int]) -> None:
        if self._entries.get(entry.name) is not entry:
            return
        if entry.schedule.version != version:
            self._unseen[entry.name] = None  # changed meanwhile: this look was by the old rule
        entry.due = due
        if due is not None:
            heapq.heappush(self._heap, (due, entry.name))

    def _count(self, looked: Looked) -> None:
        self.counters.items += Tally(found=looked.recorded, mended=looked.recorded)

    async def _abandon_looks(self) -> None:
        """A look that is cut off has written whole batches or nothing: another goes on."""
        for task in self._looks:
            task.cancel()
        if self._looks:
            await asyncio.wait(self._looks)
