"""When each schedule is to be evaluated next: the memory of one evaluator.

A fresh replica misses nothing that is remembered here. Losing it costs an evaluation too many or
one a moment too early, never a plan.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from datetime import datetime, timedelta

from holdfast.background.backoff import Backoff
from holdfast.schedule.evaluation import MISSING_CODE_SECONDS, Evaluated
from holdfast.schedule.model import Schedule
from holdfast.schedule.retrying import Place
from holdfast.schedule.status import newest_due, next_plan_due

AGAIN_SECONDS = 1.0
"""The wait before an evaluation continues, or is first tried again after an error."""
LONGEST_RETRY_SECONDS = 60.0
REST_FACTOR, LONGEST_REST_SECONDS = 9.0, 300.0
"""After an evaluation that failed, the schedule rests nine times as long as the evaluation took:
failing evaluations have at most a tenth of the time."""
ENTRIES_PER_TURN = 50
"""Entries computed before other tasks of the event loop get a turn."""


class Entry:
    """What is remembered of one schedule.

    `took` is how many seconds its last evaluation ran. `tried_up_to` is the open plan after which
    the next evaluation continues to try open plans.
    """

    __slots__ = ("backoff", "busy", "due", "schedule", "took", "tried_up_to")

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.due: datetime | None = None
        self.busy = False
        self.took = 0.0
        self.tried_up_to: Place | None = None
        self.backoff = Backoff(first=AGAIN_SECONDS, cap=LONGEST_RETRY_SECONDS)

    @property
    def name(self) -> str:
        return self.schedule.name

    def next_evaluation(self, evaluated: Evaluated) -> datetime | None:
        """When to evaluate the schedule again: at its next plan, or earlier if something is left
        to do. A schedule that fails waits longer each time."""
        waits = []
        if evaluated.failed:
            rest = min(REST_FACTOR * self.took, LONGEST_REST_SECONDS)
            waits.append(max(self.backoff.next(), rest))
        else:
            self.backoff.reset()
        if evaluated.waiting or evaluated.more:
            waits.append(AGAIN_SECONDS)
        if evaluated.lacks_code:
            waits.append(MISSING_CODE_SECONDS + AGAIN_SECONDS)
        times = [evaluated.now + timedelta(seconds=wait) for wait in waits]
        return min([*times, *filter(None, [evaluated.next_due])], default=None)


class Agenda:
    """All schedules that this replica knows: a heap of those with a due time, and those that are
    `unseen`. An unseen schedule needs one evaluation whatever its due time, because plans may have
    come due while nobody evaluated it."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._heap: list[tuple[datetime, str]] = []
        self._unseen: dict[str, None] = {}

    @property
    def is_empty(self) -> bool:
        return not self._entries

    @property
    def has_unseen(self) -> bool:
        return bool(self._unseen)

    @property
    def first_due(self) -> datetime | None:
        return self._heap[0][0] if self._heap else None

    def entry(self, schedule: Schedule) -> Entry:
        """The entry of a schedule; made if there is none."""
        return self._entries.setdefault(schedule.name, Entry(schedule))

    async def update(self, schedules: Sequence[Schedule], now: datetime, *, leading: bool) -> None:
        """Replace the known schedules by these. An unchanged schedule keeps its due time."""
        entries: dict[str, Entry] = {}
        for number, schedule in enumerate(schedules):
            entries[schedule.name] = self._updated(schedule, now, leading)
            if number % ENTRIES_PER_TURN == 0:
                await asyncio.sleep(0)
        self._entries = entries
        self._heap = [(e.due, name) for name, e in self._entries.items() if e.due is not None]
        heapq.heapify(self._heap)

    def mark_all_unseen(self) -> None:
        self._unseen.update(dict.fromkeys(self._entries))

    def pop_due(self, by: datetime) -> Entry | None:
        """The next entry that is due by this time. An item of the heap whose entry has another due
        time by now is dropped."""
        while self._heap and self._heap[0][0] <= by:
            due, name = heapq.heappop(self._heap)
            entry = self._entries.get(name)
            if entry is not None and entry.due == due:
                return entry
        return None

    def pop_unseen(self) -> Entry | None:
        while self._unseen:
            name = next(iter(self._unseen))
            del self._unseen[name]
            if name in self._entries:
                return self._entries[name]
        return None

    def begin(self, entry: Entry) -> None:
        entry.busy = True
        self._unseen.pop(entry.name, None)

    def end(self, entry: Entry, due: datetime | None, version: tuple[datetime, int]) -> None:
        """The evaluation of a schedule of this version has ended; `due` is the time of the next."""
        entry.busy = False
        if self._entries.get(entry.name) is not entry:
            return
        if entry.schedule.version != version:
            self._unseen[entry.name] = None  # changed meanwhile: evaluate the new rule too
        entry.due = due
        if due is not None:
            heapq.heappush(self._heap, (due, entry.name))

    def _updated(self, schedule: Schedule, now: datetime, leading: bool) -> Entry:
        entry = self._entries.get(schedule.name)
        if entry is not None and entry.schedule.version == schedule.version:
            return entry
        entry = entry or Entry(schedule)
        entry.schedule = schedule
        entry.backoff.reset()
        entry.due = _first_due(schedule, now)
        if entry.due == now or _starts_unseen(schedule, now, leading):
            self._unseen[schedule.name] = None
        return entry


def _first_due(schedule: Schedule, now: datetime) -> datetime | None:
    try:
        return next_plan_due(schedule, now)
    except Exception:  # noqa: BLE001 - evaluated now, which shows the error on the schedule
        return now


def _starts_unseen(schedule: Schedule, now: datetime, leading: bool) -> bool:
    """Whether a new or changed schedule needs an evaluation at once. The leader evaluates it if a
    plan may be due already. A replica that does not lead evaluates only schedules that need code,
    because the leader may lack that code."""
    chosen = schedule.definition
    if not leading and not chosen.scopes and not chosen.planner:
        return False
    if schedule.error is not None or schedule.changed_at is not None or chosen.planner:
        return True
    return newest_due(schedule, now) is not None
