"""Claims of jobs with limits: the lines whose turn it is, as far as all their buckets have room.

A line that meets a full bucket is parked there. A line that was served goes behind the others of
its priority. Nothing is held while a line waits, so limits cannot wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.job.ids import WorkerId
from holdfast.job.passing import parted
from holdfast.job.policy import readable_part
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.limits.admission import FEWEST_LINES, turn_size
from holdfast.store.contract.records import Want
from holdfast.store.sqlite.buckets import Buckets
from holdfast.store.sqlite.picked import Picked, picked_jobs
from holdfast.store.sqlite.places import take_numbers
from holdfast.store.sqlite.rows import after, to_datetime, to_json
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Row, Transaction

DAMAGED_BATCH = 100
"""So many damaged jobs at the head of a line do not hold it up."""
_Line = tuple[int, str, int]  # number, queue and priority


class LimitedClaims:
    """The claims of one worker in one transaction."""

    def __init__(self, tx: Transaction, worker: WorkerId, tasks: str) -> None:
        self._tx = tx
        self._worker = worker
        self._tasks = tasks
        self._sql = steps("parts/buckets")
        self._buckets = Buckets(tx)
        self._buckets.reopen()
        self._damaged: set[int] = set()  # lines that gave none of their jobs

    def next_priority(self, queue: str, behind: int) -> int | None:
        """The first priority behind this one that has an open line."""
        [(priority,)] = self._tx.rows(self._sql["next priority"], (queue, behind))
        return None if priority is None else int(priority)

    def admit(self, want: Want, priority: int, before: int, most: int) -> list[Claimed]:
        """At most so many jobs of one priority, where so many were given `before`. Every round
        serves each line, parks it or removes it, so that there is an end."""
        given: list[Claimed] = []
        wanted = min(want.limit - before, most)
        while len(given) < wanted:
            left = wanted - len(given)
            values = (want.queue, priority, self._tasks, max(FEWEST_LINES, left))
            found = self._tx.rows(self._sql["open lines"], values)
            lines = [line for line in found if line[0] not in self._damaged]
            if not lines:
                break
            self._buckets.load({name for _, buckets in lines for name in parted(buckets)})
            size = turn_size(left, len(lines))
            for number, buckets in lines:
                line = (number, want.queue, priority)
                free = want.free - before - len(given)
                given += self._serve(line, buckets, min(size, wanted - len(given)), free)
        return given

    def save(self) -> None:
        self._buckets.save()

    def _serve(self, line: _Line, buckets: str, most: int, free: int) -> list[Claimed]:
        """Give the first jobs of a line, as many as its buckets have room for."""
        names = parted(buckets)
        full = self._buckets.first_full(names)
        if full is not None:
            self._buckets.park(line[0], full)
            return []
        asked = min(most, self._buckets.room(names))
        rows = self._tx.rows(self._sql["pick"], (*line, asked)) if asked else []
        if len(rows) < asked:
            self._tx.run(self._sql["close"], (line[0],))
        else:
            self._tx.run(self._sql["served"], (take_numbers(self._tx, 1), line[0]))
        picked = self._readable(line, rows, free)[:asked]
        if rows and not picked:
            self._damaged.add(line[0])
        if picked:
            self._buckets.count(names, len(picked))
            self._take(line, picked, buckets)
        return [job for _, job in picked]

    def _readable(self, line: _Line, rows: list[Row], free: int) -> list[Picked]:
        """The jobs of these rows. Damaged ones stay where they are: who stands behind them has
        their turn."""
        claimed_at = to_datetime(self._tx.now)
        picked = picked_jobs(rows, claimed_at, free)
        if len(picked) == len(rows):
            return picked
        rows = self._tx.rows(self._sql["pick"], (*line, len(rows) + DAMAGED_BATCH))
        return picked_jobs(rows, claimed_at, free)

    def _take(self, line: _Line, picked: Sequence[Picked], buckets: str) -> None:
        """Move jobs from their line to the leases, which list what they count in."""
        tx, alike = self._tx, dict[tuple[float | None, bool], list[int]]()
        for seq, job in picked:
            alike.setdefault((readable_part(job.policy).timeout, job.ahead), []).append(seq)
        for (timeout, ahead), numbers in alike.items():
            timeout_at = None if timeout is None else after(tx.now, timeout)
            facts = (self._worker, tx.now, timeout_at, ahead, buckets)
            tx.run(self._sql["lease"], (*facts, *line, to_json(numbers)))
        _, job = picked[-1]
        tx.run(self._sql["leave"], (*line, to_json(seq for seq, _ in picked)))
        moved = (JobState.READY, JobState.RUNNING, What.CLAIMED)
        tx.count(job.queue, job.task, *moved, len(picked))
