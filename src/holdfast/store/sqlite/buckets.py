"""The buckets that a transaction counts in. The write lock is held, so what was read stays true."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.job.passing import is_total, parents_in
from holdfast.limits.admission import Bucket
from holdfast.limits.model import Concurrency, Settings, from_json
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.cooling import window
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction

MOST_REOPENED = 1_000
"""Lines that one claim takes from a bucket. What is left waits for the next claim."""


Turn = tuple[int, int, int]
"""Of a line: its priority, its turn, and its number, which decides between equal turns."""


class _Books(msgspec.Struct, array_like=True):
    """What a rate or a budget keeps in `holdfast_bucket.state`."""

    spent: int
    since: int
    scale: int
    alarms: int
    slices: dict[int, int]


_books = msgspec.json.Decoder(_Books)
_encoder = msgspec.json.Encoder()


class Buckets:
    """Reads each bucket once, and writes those that were changed."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._known: dict[str, Bucket] = {}
        self._changed: set[str] = set()
        self._parked: list[Row] = []  # still to be written
        self._first: dict[str, Turn] = {}  # of those, by bucket

    def load(self, names: Iterable[str]) -> None:
        missing = [name for name in names if name not in self._known]
        if missing:
            for row in self._tx.rows(steps("parts/buckets")["load"], (to_json(missing),)):
                self._known[row[0]] = bucket(row)

    def get(self, name: str) -> Bucket:
        if name not in self._known:
            self.load([name])
        return self._known[name]

    def change(self, name: str) -> Bucket:
        """A bucket that is to be saved."""
        self._changed.add(name)
        return self.get(name)

    def rooms(self, names: Sequence[str], turn: Turn) -> list[int]:
        """How much may begin at each of the buckets of a line whose turn is this."""
        parents = parents_in(names) if len(names) > 1 else ()
        return [self._room(self.get(name), turn, is_parent=name in parents) for name in names]

    def _room(self, one: Bucket, turn: Turn, *, is_parent: bool) -> int:
        room = one.room(self._tx.now, is_parent=is_parent)
        if room or not one.has_waiting:
            return room
        free = one.free(self._tx.now, is_parent=is_parent)
        return free if free and turn < self._first_turn(one) else 0

    def _first_turn(self, one: Bucket) -> Turn:
        """Of the lines that are parked at a bucket and can ever pass."""
        first = self._first_parked(one)
        turns = [] if first is None else [(first[2], first[3], first[0])]
        if one.name in self._first:
            turns.append(self._first[one.name])
        return min(turns, default=(0, 0, 0))

    def _first_parked(self, one: Bucket) -> Row | None:
        return self._tx.row(steps("parts/buckets")["parked"], self._parked_at(one, 1))

    def barring(self, names: Sequence[str], units: Sequence[int]) -> int | None:
        """The place of the first of these buckets that never lets so much pass, if there is one.
        A limit that lets nothing pass at all is shut: nobody costs too much there."""
        parents = parents_in(names) if len(names) > 1 else ()
        now = self._tx.now
        for place, (name, cost) in enumerate(zip(names, units, strict=True)):
            one = self.get(name)
            is_parent = name in parents
            if cost > one.most_passing(now) and one.never_fits(cost, now, is_parent=is_parent):
                return place
        return None

    def opens_at(self, name: str, units: int, names: Sequence[str]) -> int | None:
        """When so much is free at one of these buckets, which are taken together."""
        found, now = self.get(name), self._tx.now
        if found.free(now, is_parent=name in parents_in(names)) >= units:
            return now
        return found.opens_at(now, units)

    def count(self, names: Sequence[str], units: Sequence[int]) -> None:
        """Count jobs that begin, which cost so much in these buckets together."""
        parents = parents_in(names) if len(names) > 1 else ()
        for name, cost in zip(names, units, strict=True):
            one = self.change(name)
            one.in_use += cost
            one.take(cost, self._tx.now, is_parent=name in parents)

    def park(self, turn: Turn, names: Sequence[str], place: int, cost: int) -> None:
        """Let the line of this turn wait at one of its buckets, where its first job costs so much.
        It is written by `write_parked`."""
        name = names[place]
        found = self.change(name)
        need = found.need_of(cost, is_parent=name in parents_in(names))
        self._parked.append((name, need, turn[2]))
        found.has_waiting = True
        if not found.never_fits(need, self._tx.now):
            self._first[name] = min(turn, self._first.get(name, turn))
            if found.needs is None:
                found.needs = need

    def write_parked(self) -> None:
        self._tx.each(steps("parts/buckets")["park"], self._parked)
        self._parked.clear()
        self._first.clear()

    def reopen(self) -> None:
        """Let the lines go on that are parked at buckets with room: in their order, as far as there
        is room for the first job of each."""
        for (name,) in self._tx.rows(steps("parts/buckets")["opening"], (self._tx.now,)):
            found = self.change(name)
            self._unpark(self._fitting(found, found.free(self._tx.now)))

    def _fitting(self, one: Bucket, free: int) -> list[int]:
        """The parked lines that may go on. A line that can never pass keeps nobody waiting."""
        lines: list[int] = []
        most = free if one.needs else MOST_REOPENED
        values = self._parked_at(one, max(1, min(most, MOST_REOPENED)))
        for line, need, *_ in self._tx.rows(steps("parts/buckets")["parked"], values):
            if need > free:
                break
            free -= need
            lines.append(line)
        return lines

    def _parked_at(self, one: Bucket, most: int) -> dict[str, str | int]:
        return {"name": one.name, "largest": one.largest(self._tx.now), "most": most}

    def _unpark(self, lines: Iterable[int]) -> None:
        self._tx.each(steps("parts/buckets")["unpark"], [(line,) for line in lines])

    def open_lines(self, parked: Iterable[Row]) -> None:
        """Let parked lines be looked at again. Of each: its number, the bucket, and its queue."""
        for line, name, queue in parked:
            self._unpark([line])
            self.change(name)
            self._tx.wake(Topic.READY, queue)

    def wake(self, name: str, jobs: int) -> None:
        """Tell the workers of so many lines that are parked at this bucket."""
        if self.get(name).has_waiting:
            for (queue,) in self._tx.rows(steps("parts/buckets")["parked queues"], (name, jobs)):
                self._tx.wake(Topic.READY, queue)

    def save(self) -> None:
        """A bucket that holds nothing any more loses its row: where there are very many keys, the
        rows of those that are in use lie close together."""
        self.write_parked()
        rows: list[Row] = []
        blank: list[Row] = []
        for name in self._changed:
            one = self._known[name]
            if one.has_waiting:
                self._look_at_waiting(one)
            if one.rings:
                self._tx.wake(Topic.LIMITS)
            if one.is_blank:
                blank.append((name,))
            else:
                rows.append(_row(one, self._tx.now))
        self._tx.each(steps("parts/buckets")["save"], rows)
        self._tx.each(steps("limits/recount")["forget"], blank)
        self._changed.clear()

    def _look_at_waiting(self, one: Bucket) -> None:
        """Whether lines are parked at it, and what the first of them needs that can ever pass."""
        first = self._first_parked(one)
        one.needs = None if first is None else first[1]
        if first is None:
            waited_for = steps("parts/buckets")["is waited for"]
            [(waiting,)] = self._tx.rows(waited_for, (one.name,))
            one.has_waiting = bool(waiting)


def _row(one: Bucket, now: int) -> Row:
    opens_at = None
    if one.has_waiting and one.needs is not None:
        opens_at = one.opens_at(now, one.needs)
    state = None
    if one.settings is not None and not isinstance(one.settings, Concurrency):
        books = _Books(one.spent, one.since, one.scale, one.alarms, one.slices)
        state = _encoder.encode(books).decode()
    waits = (one.has_waiting, one.needs, opens_at)
    return (one.name, one.in_use, *waits, state, one.rings, now)


def bucket(row: Row) -> Bucket:
    """From a row of `load`, or of `limits/get`."""
    name, settings, retired, in_use, shut_until, has_waiting, override, needs, state, queue, *_ = (
        row
    )
    text = None if settings is None else (override or settings)
    ruled = total_of(name, queue) if text is None else from_json(text)
    found = Bucket(
        name,
        ruled,
        override is not None,
        bool(retired) or (ruled is None and is_total(name)),
        in_use,
        shut_until,
        bool(has_waiting),
        needs,
    )
    if state is not None:
        books = _books.decode(state)
        found.spent, found.since, found.scale = books.spent, books.since, books.scale
        found.alarms, found.slices = books.alarms, books.slices
    return found


def total_of(name: str, settings: str | None) -> Settings | None:
    """What the settings of its queue say of a total. A queue without one holds nothing up."""
    most = QueueSettings.from_json(settings).max_running if settings else None
    return Concurrency(most) if is_total(name) and most is not None else None


def defined_of(tx: Transaction, limits: Iterable[str]) -> frozenset[str]:
    """Those of these limits that are defined."""
    return frozenset(name for (name,) in tx.rows(script("limits/defined"), (to_json([*limits]),)))


def throttle(tx: Transaction, name: str, hint: float) -> None:
    """Shut a bucket for a while. Repeated throttles shut it for longer, as they do a queue."""
    [row] = tx.rows(script("limits/get"), (to_json([name]),))
    until, count = window(row[4], row[10], hint, tx.now, QueueSettings())
    shut(tx, name, until, count)


def shut(tx: Transaction, name: str, until: int | None, throttles: int) -> None:
    values = {"name": name, "shut_until": until, "throttles": throttles, "now": tx.now}
    tx.run(script("limits/drain"), values)
    look_again(tx, [name])


def look_again(tx: Transaction, names: Iterable[str]) -> None:
    """Correct when buckets are to be looked at, and wake those who wait where there is room."""
    buckets = Buckets(tx)
    for name in names:
        one = buckets.change(name)
        if one.needs == 0 and not one.is_shut(tx.now):
            buckets.wake(name, MOST_REOPENED)
        elif room := one.free(tx.now):
            buckets.wake(name, room)
    buckets.save()


def let_go_on(tx: Transaction, name: str) -> None:
    """Let all lines be looked at again that are parked at a bucket. Those that have to wait will be
    parked again."""
    sql, buckets = steps("parts/buckets"), Buckets(tx)
    buckets.open_lines(tx.rows(sql["parked lines"], (name,)))
    buckets.save()
