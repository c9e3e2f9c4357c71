"""Claiming: where to look first, and what to do about a reply that was lost.

**Skip points.** A claim walks a line from its head. When a forgotten
transaction keeps dead rows there, or thousands of jobs wait whose task this
worker does not know, walking over them again at every claim is what makes a
queue slow. So the first row that the last scan took is remembered per queue and
priority, and the next scan starts there. That is a guess: a job handed back
takes its old turn, and a transaction may commit an early number late. So the
guess is dropped as soon as this store puts something back, and otherwise after
fifty times what the last full scan took, so that full scans cost little. A line
that could not fill its share is not guessed at: if the scan had skipped some of
it, the same claim looks again from the head, and so does the next one at once.

**Lost replies.** A claim is not repeated blindly: what it took belongs to the
worker whether or not the worker heard of it. Each claim has a number, and when
one fails its number is kept for a while; the next claim first asks what those
took, and answers that.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Sequence
from typing import Any

from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.store.contract.records import Want
from holdfast.store.postgres import rows
from holdfast.store.postgres.connection import Connections

LOWEST, HIGHEST = -(2**31), 2**31 - 1
FORGET_AFTER = 1.0
LOOK_EVERY = 1.0
PER_FULL_SCAN = 50

Stretches = tuple[list[str], list[int], list[int], list[int]]


class SkipPoints:
    """Where each line's last scan found its first row, until that is forgotten."""

    def __init__(self) -> None:
        self._points: dict[str, dict[int, int]] = {}
        self._forget_at = 0.0

    def forget(self) -> None:
        self._points.clear()

    @property
    def lines(self) -> frozenset[str]:
        """The queues of which a part is skipped."""
        return frozenset(self._points)

    def stretches(self, queues: Sequence[str], now: float) -> Stretches:
        """What to walk, in order: from each point on, and all priorities in between."""
        if now >= self._forget_at:
            self.forget()
        walk: Stretches = ([], [], [], [])
        for queue in queues:
            points = sorted(self._points.get(queue, {}).items())
            starts = [(LOWEST, 0), *points]
            ends = [priority - 1 for priority, _ in points] + [HIGHEST]
            for (priority, seq), end in zip(starts, ends, strict=True):
                if end < priority:
                    continue  # the point is the lowest priority there is: nothing before it
                walk[0].append(queue)
                walk[1].append(priority)
                walk[2].append(seq)
                walk[3].append(end)
        return walk

    def learn(self, found: Sequence[Any], short: Collection[str]) -> None:
        """`found` is in order of priority and seq, so the first of each is the lowest. Pool
        that came back `short` have nothing to skip to."""
        for queue in short:
            self._points.pop(queue, None)
        first: dict[tuple[str, int], int] = {}
        for row in found:
            first.setdefault((row["queue"], row["priority"]), row["seq"])
        for (queue, priority), seq in first.items():
            if queue not in short:
                self._points.setdefault(queue, {})[priority] = seq

    def walked(self, began: float, ended: float) -> None:
        """All lines were walked from their heads, which took so long."""
        self._forget_at = ended + min(FORGET_AFTER, PER_FULL_SCAN * (ended - began))


class Unheard:
    """Claims whose reply was lost, by worker, until nothing of theirs can come any more.

    A statement may commit after its client gave up, but not after its own timeout. Until
    then it is asked for again now and then, since most of those claims took nothing.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._claims: dict[WorkerId, dict[int, float]] = {}
        self._look_at: dict[WorkerId, float] = {}

    def add(self, worker: WorkerId, batch: int) -> None:
        self._claims.setdefault(worker, {})[batch] = time.monotonic() + self._patience
        self._look_at.pop(worker, None)

    def of(self, worker: WorkerId) -> list[int]:
        """What to ask for now; usually nothing."""
        claims, now = self._claims.get(worker), time.monotonic()
        if not claims or now < self._look_at.get(worker, now):
            return []
        for batch in [batch for batch, until in claims.items() if until < now]:
            del claims[batch]
        return list(claims)

    def looked(self, worker: WorkerId) -> None:
        """All that there is by now was answered."""
        self._look_at[worker] = time.monotonic() + LOOK_EVERY


class Claimer:
    """The claim verb of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.skip = SkipPoints()
        self._unheard = Unheard(connections.options.statement_timeout + 30)
        self._delivered: dict[int, set[str]] = {}
        self._next_batch = random.getrandbits(62)
        self._tasks: tuple[str, ...] = ()

    async def claim(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]
    ) -> list[Claimed]:
        wants = [want for want in wants if want.limit > 0]
        if not wants or not tasks:
            return []
        if self._tasks != (known := tuple(tasks)):
            self._tasks = known
            self.skip.forget()  # what was passed over for others may be for these
        if lost := self._unheard.of(worker):
            recovered = await self._recover(worker, wants, lost)
            if recovered:
                return recovered
        found, skipped, batch = await self._scan(worker, wants, tasks)
        doubtful = [want for want in _still_wanted(wants, found) if want.queue in skipped]
        if doubtful:
            found += await self._look_again(worker, doubtful, tasks, batch)
        return [rows.claimed(row) for row in found]

    async def _look_again(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str], before: int
    ) -> list[Any]:
        """The same from the heads of the lines. If it fails, what the look before it took
        has not been answered either."""
        try:
            return (await self._scan(worker, wants, tasks))[0]
        except BaseException:
            self._unheard.add(worker, before)
            raise

    async def _scan(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]
    ) -> tuple[list[Any], frozenset[str], int]:
        """One walk of the lines; those of which it skipped a part; its number."""
        began = time.monotonic()
        queues = [want.queue for want in wants]
        limits = [want.limit for want in wants]
        free = [want.free for want in wants]
        walk = self.skip.stretches(queues, began)
        skipped = self.skip.lines
        batch = self._next_batch = self._next_batch + 1
        try:
            found = await self._connections.timed(
                "jobs/claim", worker, list(tasks), batch, queues, limits, *walk, free, again=False
            )
        except BaseException:  # also when the caller is cancelled: the statement may commit
            self._unheard.add(worker, batch)
            raise
        self.skip.learn(found, {want.queue for want in _still_wanted(wants, found)})
        if not skipped:
            self.skip.walked(began, time.monotonic())
        return list(found), skipped, batch

    async def _recover(
        self, worker: WorkerId, wants: Sequence[Want], lost: list[int]
    ) -> list[Claimed]:
        """What lost replies held, as much of it as there is room for. Each job once."""
        room = {want.queue: want.limit for want in wants}
        answer, left = [], False
        for row in await self._connections.timed("jobs/lost_claims", worker, lost):
            told = self._delivered.setdefault(row["batch"], set())
            if row["job_id"] in told:
                continue
            if room.get(row["queue"], 0) < 1:
                left = True
                continue
            told.add(row["job_id"])
            room[row["queue"]] -= 1
            answer.append(rows.claimed(row))
        self._delivered = {b: told for b, told in self._delivered.items() if b in lost}
        if not left:
            self._unheard.looked(worker)
        return answer


def _still_wanted(wants: Sequence[Want], found: Sequence[Any]) -> list[Want]:
    if len(found) == sum(want.limit for want in wants):
        return []
    got: dict[str, int] = {}
    for row in found:
        got[row["queue"]] = got.get(row["queue"], 0) + 1
    return [
        Want(
            want.queue,
            want.limit - got.get(want.queue, 0),
            max(0, want.free - got.get(want.queue, 0)),
        )
        for want in wants
        if want.limit > got.get(want.queue, 0)
    ]
