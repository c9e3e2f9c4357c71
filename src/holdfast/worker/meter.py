"""Measures how long jobs wait and run, and writes it down every two seconds.

An attempt is measured when the store has accepted its end. What a minute has come to so far is
written whole, again and again, so a flush whose answer was lost is simply followed by the next one.
A worker that is killed loses what it measured since its last flush, and no count: those are in the
books.

A meter must never harm jobs. It writes on its own time and within a bound, keeps a bounded number
of rows while the store is away, and counts what it has to drop. If thousands of jobs end in a
second, it measures only some of them, each of which stands for several. While nothing ends it asks
nothing of the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter

from holdfast.events import Events
from holdfast.job.ids import new_worker_id
from holdfast.job.state import ENDED, JobState
from holdfast.job.text import describe
from holdfast.job.transition import Transition
from holdfast.store.contract.measures import JobTimes, Measure, Pair, named
from holdfast.store.contract.store import Store
from holdfast.worker.attempt import Attempt
from holdfast.worker.paces import MinuteRow, PairPace

FLUSH_SECONDS = 2.0
PATIENCE_SECONDS = 5.0
"""How long a flush may take. What it could not write is written by the next one."""
LONGEST_PAUSE_SECONDS = 30.0
"""Between two flushes while the store does not take them."""
MOST_MEASURED = 100
"""So many attempts a second are measured one by one. Pairs that end more share them equally."""
FEWEST_MEASURED = 5
"""So many of each pair are measured, however many pairs there are."""
ENOUGH = 400
"""When so many attempts were measured between two flushes, every second one is measured from then
on: a burst is over before a flush could tell how fast it was."""
ENOUGH_MORE = 100
"""After each so many more, half as many are."""
MOST_ROWS = 5_000
"""So many rows are kept while the store does not take them."""
MINUTES_KEPT = 2
"""So many minutes before the newest one are kept although they are written: an end may still belong
to one of them."""


def _by_pair(attempts: Sequence[Attempt]) -> Iterable[tuple[Pair, Sequence[Attempt]]]:
    """In their order. Most claims bring jobs of one pair."""
    pairs = [(attempt.job.queue, attempt.job.task) for attempt in attempts]
    if pairs.count(pairs[0]) == len(pairs):
        return [(pairs[0], attempts)]
    both = groupby(zip(pairs, attempts, strict=True), itemgetter(0))
    return ((pair, [one for _, one in some]) for pair, some in both)


class Meter:
    """The times of the attempts of one worker. `dropped` counts the attempts whose times nobody
    will ever hear of."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._events = events
        self._source = new_worker_id()
        self._paces: dict[Pair, PairPace] = {}
        self._thins = False
        self._minutes: dict[int, dict[Pair, MinuteRow]] = {}
        self._oldest = 0
        self._number = 0
        self._claimed_at = datetime(1970, 1, 1, tzinfo=UTC)
        self._claimed_seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._pause = FLUSH_SECONDS
        self._adapted = time.monotonic()
        self._left = ENOUGH
        self._closed = False
        self.dropped = 0

    # Measuring ------------------------------------------------------------------------------

    def choose(self, attempts: Sequence[Attempt]) -> None:
        """Choose which attempts of a claim are measured: each, unless many end. A claim of many
        hundreds is a burst that nothing has told of yet."""
        least = len(attempts) // ENOUGH_MORE
        if least < 2 and not self._thins:
            for attempt in attempts:
                attempt.weight = 1
            return
        for pair, some in _by_pair(attempts):
            pace = self._paces.get(pair) or self._new_pace(pair)
            self._choose_some(pace, max(pace.every, least), some)

    def _choose_some(self, pace: PairPace, every: int, attempts: Sequence[Attempt]) -> None:
        """Every `every`-th of a pair's, counted on from the claim before. What is not chosen is not
        touched: those are nearly all."""
        first = max(0, every - pace.unseen - 1)
        chosen = attempts[first::every]
        for attempt in chosen:
            attempt.weight = every
        if chosen:
            chosen[0].weight = pace.unseen + first + 1
            pace.unseen = (len(attempts) - first - 1) % every
        else:
            pace.unseen += len(attempts)

    def observe(self, attempt: Attempt, transition: Transition, now: float) -> None:
        """The store has accepted this end, now by the monotonic clock. An attempt that was handed
        back will be made anew: it is measured then."""
        to, job, weight = transition.to, attempt.job, attempt.weight
        if to is JobState.READY:
            return
        claimed_at, since, began = job.claimed_at, attempt.since, attempt.began_at
        over = attempt.over_at or now
        if claimed_at is not self._claimed_at:  # the jobs of one claim share it
            self._claimed_at, self._claimed_seconds = claimed_at, claimed_at.timestamp()
        minute = int(self._claimed_seconds + now - since) // 60
        pace = self._paces.get((job.queue, job.task)) or self._new_pace((job.queue, job.task))
        pace.ended += weight
        pace.seen += 1
        self._left -= 1
        if not self._left:
            self._halve()
        row = pace.row if pace.minute == minute else self._row(pace, minute)
        row.weigh(weight)
        waited = (claimed_at - job.ready_at).total_seconds()
        row.waits.append(waited + began - since if began > since else waited)
        row.runs.append(over - began)
        if to in ENDED:
            held = (claimed_at - job.created_at).total_seconds()
            row.totals.append(held + over - since if over > since else held)
        row.dirty = True
        if self._timer is None and self._flushing is None:
            self._flush_in(self._pause)

    def _halve(self) -> None:
        """Measure half as many of all pairs but the rare ones, until the next span begins."""
        self._left = ENOUGH_MORE
        for pace in self._paces.values():
            if pace.seen >= FEWEST_MEASURED:
                pace.halve()
                self._thins = True

    def _new_pace(self, pair: Pair) -> PairPace:
        pace = self._paces[pair] = PairPace(pair)
        return pace

    def _row(self, pace: PairPace, minute: int) -> MinuteRow:
        """Where to count from now on. A minute that is forgotten here would be written anew and
        replace what the store has of it, so what comes that late counts in the next one."""
        minute = max(minute, self._oldest)
        rows = self._minutes.get(minute)
        if rows is None:
            self._make_room()
            rows = self._minutes[minute] = {}
        row = rows.setdefault(named(pace.pair, rows), MinuteRow())
        pace.minute, pace.row = minute, row
        return row

    def _make_room(self) -> None:
        while len(self._minutes) > 1 and sum(map(len, self._minutes.values())) > MOST_ROWS:
            oldest = min(self._minutes)
            self._drop(self._minutes[oldest].values(), "the store did not take them for too long")
            self._forget(oldest)

    def _forget(self, minute: int) -> None:
        del self._minutes[minute]
        self._oldest = max(self._oldest, minute + 1)
        for pace in self._paces.values():
            if pace.minute == minute:
                pace.minute = -1

    def _drop(self, rows: Iterable[MinuteRow], reason: str) -> None:
        if dropped := sum(row.unwritten for row in rows):
            self.dropped += dropped
            self._events.warning("telemetry.dropped", attempts=dropped, reason=reason)

    # Writing --------------------------------------------------------------------------------

    async def close(self, patience: float) -> None:
        """Write what is left, for at most so many seconds."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        try:
            async with asyncio.timeout(patience):
                if self._flushing is not None:
                    await asyncio.wait((self._flushing,))
                await self._flush()
        except TimeoutError:
            pass  # what is left is counted as dropped
        finally:
            if self._flushing is not None:
                self._flushing.cancel()
        left = (row for rows in self._minutes.values() for row in rows.values())
        self._drop(left, "the worker has left")
        self._minutes.clear()

    def _flush_in(self, seconds: float) -> None:
        if not self._closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._start_flush)

    def _start_flush(self) -> None:
        self._timer = None
        self._flushing = asyncio.create_task(self._flush(), name="holdfast-meter")
        self._flushing.add_done_callback(self._flushed)

    def _flushed(self, flush: asyncio.Task[None]) -> None:
        """Flush again if there is more to write, or if only some attempts are measured: whether
        that is still right is decided then."""
        self._flushing = None
        if flush.cancelled():
            return
        rows = (row for rows in self._minutes.values() for row in rows.values())
        if any(row.dirty for row in rows) or self._thins:
            self._flush_in(self._pause)

    async def _flush(self) -> None:
        self._adapt()
        self._number += 1
        sent = list(self._news())
        if not sent:
            return
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                open_from = await self._store.telemetry.record([one for one, _ in sent])
        except BaseException as error:
            for _, row in sent:
                row.dirty = True
            if not isinstance(error, Exception):
                raise
            self._put_off(error)
        else:
            self._pause = FLUSH_SECONDS
            self._taken(sent, open_from)

    def _put_off(self, error: Exception) -> None:
        """Whatever it is, it must not harm jobs: what was not written is kept for the next
        flush. It is told once for each time that the store does not take measures."""
        if self._pause == FLUSH_SECONDS:
            self._events.warning("telemetry.not_written", error=describe(error))
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def _news(self) -> Iterator[tuple[Measure, MinuteRow]]:
        for minute, rows in self._minutes.items():
            at = datetime.fromtimestamp(minute * 60, UTC)
            for (queue, task), row in rows.items():
                if row.dirty:
                    row.dirty = False
                    # A copy: the row goes on while the store writes.
                    times = JobTimes.none()
                    times.merge(row.times)
                    yield Measure(at, self._source, queue, task, self._number, times), row

    def _taken(self, sent: list[tuple[Measure, MinuteRow]], open_from: datetime) -> None:
        late = [row for measure, row in sent if measure.minute < open_from]
        self._drop(late, "their minute was closed when the store heard of them")
        for measure, row in sent:
            row.written = measure.times.observed
        newest = max(self._minutes)
        for minute in [minute for minute in self._minutes if minute < newest - MINUTES_KEPT]:
            if not any(row.dirty for row in self._minutes[minute].values()):
                self._forget(minute)

    def _adapt(self) -> None:
        """Decide anew which attempts are measured; forget pairs of which nothing has ended."""
        now = time.monotonic()
        seconds, self._adapted = max(now - self._adapted, 0.001), now
        self._paces = {pair: pace for pair, pace in self._paces.items() if pace.ended}
        fewest = FEWEST_MEASURED * max(seconds, 1.0)
        busy = sum(pace.ended > fewest for pace in self._paces.values())
        most = max(fewest, MOST_MEASURED * max(seconds, 1.0) / max(busy, 1))
        for pace in self._paces.values():
            pace.adapt(most)
        self._left = ENOUGH
        self._thins = any(pace.every > 1 for pace in self._paces.values())
