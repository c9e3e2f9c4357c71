"""The buckets that a transaction counts in. The write lock is held, so what was read stays true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.job.passing import parted
from holdfast.limits.admission import Bucket
from holdfast.limits.model import from_json
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.cooling import window
from holdfast.store.sqlite.rows import to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction


class Buckets:
    """Reads each bucket once, and writes those that were changed."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._known: dict[str, Bucket] = {}
        self._changed: set[str] = set()

    def load(self, names: Iterable[str]) -> None:
        missing = [name for name in names if name not in self._known]
        if missing:
            for row in self._tx.rows(script("limits/get"), (to_json(missing),)):
                self._known[row[0]] = bucket(row)

    def get(self, name: str) -> Bucket:
        if name not in self._known:
            self.load([name])
        return self._known[name]

    def first_full(self, names: Iterable[str]) -> str | None:
        """The first of these buckets that has no room."""
        return next((name for name in names if self.get(name).room(self._tx.now) == 0), None)

    def room(self, names: Iterable[str]) -> int:
        return min(self.get(name).room(self._tx.now) for name in names)

    def count(self, names: Iterable[str], jobs: int) -> None:
        """Count jobs that begin, or with a negative number jobs that are over."""
        for name in names:
            self.get(name).in_use += jobs
            self._changed.add(name)

    def park(self, line: int, name: str) -> None:
        self._tx.run(steps("parts/buckets")["park"], (name, line))
        self.get(name).has_waiting = True
        self._changed.add(name)

    def reopen(self) -> None:
        """Let the lines go on that are parked at buckets with room, as many as have room."""
        sql = steps("parts/buckets")
        for (name,) in self._tx.rows(sql["opening"], (self._tx.now,)):
            found = self.get(name)
            if room := found.room(self._tx.now):
                self._tx.run(sql["unpark"], (name, room))
                [(waiting,)] = self._tx.rows(sql["is waited for"], (name,))
                found.has_waiting = bool(waiting)
            self._changed.add(name)

    def wake(self, name: str, jobs: int) -> None:
        """Tell the workers of so many lines that are parked at this bucket."""
        if self.get(name).has_waiting:
            for (queue,) in self._tx.rows(steps("parts/buckets")["parked queues"], (name, jobs)):
                self._tx.wake(Topic.READY, queue)

    def save(self) -> None:
        now = self._tx.now
        for name in self._changed:
            one = self._known[name]
            values = {
                "name": name,
                "in_use": one.in_use,
                "has_waiting": one.has_waiting,
                "opens_at": one.opens_at(now) if one.has_waiting else None,
                "now": now,
            }
            self._tx.run(steps("parts/buckets")["save"], values)
        self._changed.clear()


def bucket(row: Row) -> Bucket:
    """From a row of `limits/get`."""
    name, settings, retired, in_use, shut_until, has_waiting, override, *_ = row
    text = None if settings is None else (override or settings)
    found = None if text is None else from_json(text)
    return Bucket(name, found, bool(retired), in_use, shut_until, bool(has_waiting))


def give_back(tx: Transaction, receipts: Iterable[str], drains: Mapping[str, float]) -> None:
    """Give back what ended leases counted, and shut the buckets that an upstream asked to shut."""
    freed: dict[str, int] = {}
    for receipt in receipts:
        for name in parted(receipt):
            freed[name] = freed.get(name, 0) + 1
    buckets = Buckets(tx)
    buckets.load(freed)
    for name, jobs in freed.items():
        buckets.count([name], -jobs)
        buckets.wake(name, jobs)
    buckets.save()
    for name, hint in drains.items():
        throttle(tx, name, hint)


def throttle(tx: Transaction, name: str, hint: float) -> None:
    """Shut a bucket for a while. Repeated throttles shut it for longer, as they do a queue."""
    [row] = tx.rows(script("limits/get"), (to_json([name]),))
    until, count = window(row[4], row[7], hint, tx.now, QueueSettings())
    shut(tx, name, until, count)


def shut(tx: Transaction, name: str, until: int | None, throttles: int) -> None:
    values = {"name": name, "shut_until": until, "throttles": throttles, "now": tx.now}
    tx.run(script("limits/drain"), values)
    look_again(tx, [name])


def look_again(tx: Transaction, names: Iterable[str]) -> None:
    """Correct when buckets are to be looked at, and wake those who wait where there is room."""
    buckets = Buckets(tx)
    for name in names:
        buckets.count([name], 0)
        if room := buckets.get(name).room(tx.now):
            buckets.wake(name, room)
    buckets.save()
