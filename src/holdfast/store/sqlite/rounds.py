"""Rounds of a claim of jobs with limits: each line whose turn it is gives its first jobs.

A line that meets a bucket without room for its first job is parked there. All lines of a round are
read by one statement, and what they gave is written together: a statement for each line cost more
than all else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from holdfast.job.ids import WorkerId
from holdfast.job.passing import (
    Passed,
    is_aside,
    parted,
    parted_costs,
    with_bucket,
    without_aside,
)
from holdfast.job.policy import readable_part
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.limits.admission import ROOMY, fitting
from holdfast.limits.turns import QUANTUM, after_serving, turn_size
from holdfast.store.sqlite.buckets import Buckets
from holdfast.store.sqlite.limited import KeptLine, stand_aside
from holdfast.store.sqlite.picked import Picked, picked_jobs
from holdfast.store.sqlite.rows import after, to_datetime
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Row, Transaction

DAMAGED_BATCH = 100
"""So many damaged jobs at the head of a line do not hold it up."""
_COSTS, _JOB, _SEQ, _TASK = 6, 7, 10, 11  # behind those of a line: the job's costs, and the job


class Claimer(NamedTuple):
    """Who claims, and what all rounds of one claim share. `who` says for which lines it comes: its
    `tasks`, its `labels`, and those that it takes `only`, in this order, each as a list in JSON.
    `damaged` are the lines that gave none of their jobs."""

    tx: Transaction
    worker: WorkerId
    who: Mapping[str, str]
    buckets: Buckets
    damaged: set[int]


class _Line(NamedTuple):
    id: int
    buckets: str
    costly: int
    turn: int
    weight: int
    fair: str | None


class _Given(NamedTuple):
    """Jobs that stand next to each other in their line, and are alike in what they cost, how long
    they may run, and whether they are claimed ahead."""

    jobs: list[Claimed]
    first: int
    last: int
    timeout: float | None
    costs: str | None


class Round:
    """One turn of the lines of one place, which is a queue and a priority. If the queue has a
    `total`, all its jobs count there. At most `left` jobs are given; all but `free` are claimed
    ahead."""

    def __init__(
        self, claimer: Claimer, place: tuple[str, int], total: str | None, left: int, free: int
    ) -> None:
        self._claimer = claimer
        self._tx, self._sql, self._buckets = claimer.tx, steps("parts/lines"), claimer.buckets
        self._place = place
        self._total = total
        self._left, self._free = left, free
        self.given: list[Claimed] = []
        self.parked = 0
        self._served: dict[_Line, int] = {}
        self._fair: set[str] = set()  # keys that have had their turn
        self._empty: set[int] = set()  # lines without a job
        self._joined: set[int] = set()  # lines that jobs of others have come to, to stand aside
        self._leases: list[Row] = []
        self._leaves: list[Row] = []

    def serve(self, read: int) -> bool:
        """Serve the lines of so many jobs; False if none is there that could be served."""
        size, until = self._turn()
        values = {
            "queue": self._place[0],
            "priority": self._place[1],
            **self._claimer.who,
            "until": until,
            "others": size - 1,
            "most": read,
        }
        rows = self._tx.rows(self._sql["first jobs"], values)
        lines = [list(jobs) for _, jobs in groupby(rows, itemgetter(0))]
        self._buckets.load({name for jobs in lines for name in self._names(jobs[0][1])})
        is_cut = len(rows) == read
        went_on = False
        for n, jobs in enumerate(lines, 1):
            line = _Line._make(jobs[0][:_COSTS])
            if line.id not in self._claimer.damaged and len(self.given) < self._left:
                is_whole = len(jobs) < size and not (is_cut and n == len(lines))
                self._serve(line, jobs, is_whole)
                went_on = True
        return went_on

    def _turn(self) -> tuple[int, int]:
        """How many jobs a line gives, and which lines have their turn: those that are no further
        than that from the least one."""
        enough = -(-self._left // QUANTUM)
        values = (*self._place, *self._claimer.who.values(), enough)
        [(lines, least)] = self._tx.rows(self._sql["open lines"], values)
        size = turn_size(self._left, lines)
        return size, (least or 0) + after_serving(size, weight=1)

    def _names(self, buckets: str) -> tuple[str, ...]:
        """The buckets of a line, and the total of its queue, in order."""
        names = parted(buckets)
        return names if self._total is None else tuple(sorted((*names, self._total)))

    def _units(self, names: Sequence[str], costs: str | None) -> Sequence[int]:
        """What a job costs in these buckets. In the total of its queue it counts as one."""
        if costs is None:
            return (1,) * len(names)
        units = parted_costs(costs)
        if self._total is None:
            return units
        place = names.index(self._total)
        return (*units[:place], 1, *units[place:])

    def _serve(self, line: _Line, rows: Sequence[Row], is_whole: bool) -> None:
        """Give the first jobs of a line, as many as its buckets have room for. The lines of one key
        of fairness share a turn."""
        if rows[0][_JOB] is None:
            self._empty.add(line.id)
            return
        if line.fair is not None and line.fair in self._fair:
            return
        names = self._names(line.buckets)
        if line.costly and not is_aside(line.buckets):
            rows = self._able(line, names, rows)
        fits = self._fitting(line, names, [row[_COSTS] for row in rows]) if rows else 0
        if fits == 0:
            return
        most = min(fits, self._left - len(self.given))
        given = self._give(line, names, self._readable(line, rows[:most], most))
        if not given:
            self._claimer.damaged.add(line.id)
        self._served[line] = given or QUANTUM
        if is_whole and given == len(rows):
            self._empty.add(line.id)

    def _able(self, line: _Line, names: Sequence[str], rows: Sequence[Row]) -> list[Row]:
        """These jobs without those that can never pass. Such jobs stand aside, so that they keep
        nobody of their line waiting."""
        barred = [
            one
            for one in dict.fromkeys(row[_COSTS] for row in rows)
            if self._buckets.barring(names, self._units(names, one)) is not None
        ]
        for one in barred:
            unable = [row for row in rows if row[_COSTS] == one]
            passes = KeptLine(line.buckets, one, line.weight)
            place = (*self._place, unable[0][_TASK])
            seqs = [row[_SEQ] for row in unable]
            self._joined.add(stand_aside(self._tx, line.id, passes, place, seqs))
            self.parked += len(unable)
        return [row for row in rows if row[_COSTS] not in barred]

    def _fitting(self, line: _Line, names: Sequence[str], costs: Sequence[str | None]) -> int:
        """How many of the first jobs may begin. If none may, the line is parked."""
        rooms = self._buckets.rooms(names, (self._place[1], line.turn, line.id))
        if not line.costly:
            fits = min(rooms, default=ROOMY)
        else:
            fits = fitting([self._units(names, one) for one in costs], rooms)
        if fits == 0:
            units = self._units(names, costs[0])
            place = self._buckets.barring(names, units)
            if place is None:
                place = next(n for n, room in enumerate(rooms) if units[n] > room)
            turn = (self._place[1], line.turn, line.id)
            self._buckets.park(turn, names, place, units[place])
            self.parked += 1
        return fits

    def _readable(self, line: _Line, rows: Sequence[Row], most: int) -> list[_Given]:
        """The jobs of these rows. Damaged ones stay where they are: who stands behind them has
        their turn, as far as the same costs fit."""
        free, claimed_at = self._free - len(self.given), to_datetime(self._tx.now)
        picked = picked_jobs([row[_JOB:] for row in rows], claimed_at, free)
        if len(picked) == len(rows):
            return _alike(picked, [row[_COSTS] for row in rows])
        values = (line.id, *self._place, most + DAMAGED_BATCH)
        more = self._tx.rows(self._sql["pick"], values)
        costs: dict[int, str | None] = {row[4]: row[0] for row in more}
        picked = picked_jobs([row[1:] for row in more], claimed_at, free)[:most]
        names = self._names(line.buckets)
        rooms = self._buckets.rooms(names, (self._place[1], line.turn, line.id))
        fits = fitting([self._units(names, costs[seq]) for seq, _ in picked], rooms)
        return [one for pick in picked[:fits] for one in _alike([pick], [costs[pick[0]]])]

    def _give(self, line: _Line, names: Sequence[str], runs: Sequence[_Given]) -> int:
        """Move jobs from their line to the leases, which list what they count in; returns how many
        they are."""
        tx, worker = self._tx, self._claimer.worker
        given = 0
        for jobs, first, last, timeout, costs in runs:
            units = self._units(names, costs)
            self._buckets.count(names, [cost * len(jobs) for cost in units])
            receipt = Passed(without_aside(line.buckets) if names else None, costs)
            if self._total is not None:
                receipt = with_bucket(line.buckets, costs, self._total)
            timeout_at = None if timeout is None else after(tx.now, timeout)
            place = (line.id, *self._place, first, last)
            self._leases.append((worker, tx.now, timeout_at, jobs[0].ahead, *receipt, *place))
            self._leaves.append(place)
            self.given += jobs
            given += len(jobs)
        if given:
            moved = (JobState.READY, JobState.RUNNING, What.CLAIMED)
            tx.count(self._place[0], runs[0].jobs[0].task, *moved, given)
            if line.fair is not None:
                self._fair.add(line.fair)
        return given

    def write(self) -> None:
        """Write what the round has given, and whose turn is next. An empty line is removed, unless
        a job that stands aside has come to it in this round: without its line it would be lost."""
        tx, sql = self._tx, self._sql
        self._buckets.write_parked()
        tx.each(sql["lease"], self._leases)
        tx.each(sql["leave"], self._leaves)
        turns: list[Row] = []
        closed = self._empty - self._joined
        for line, jobs in self._served.items():
            added = after_serving(jobs, line.weight)
            if line.id not in closed:
                turns.append((added, line.id))
            if line.fair is not None:
                tx.run(sql["served kin"], (added, line.fair, *self._place, line.id))
        tx.each(sql["served"], turns)
        tx.each(sql["close"], [(number,) for number in closed])
        if self._served:
            least = min(line.turn for line in self._served)
            tx.run(sql["turn"], (*self._place, least))


def _alike(picked: Sequence[Picked], costs: Sequence[str | None]) -> list[_Given]:
    """Jobs that stand next to each other, parted where they are not alike."""
    runs: list[_Given] = []
    start = 0
    job = picked[0][1]
    policy, ahead, cost = job.policy, job.ahead, costs[0]
    for n, (_, one) in enumerate(picked):
        if one.policy != policy or one.ahead != ahead or costs[n] != cost:
            runs.append(_run(picked[start:n], cost))
            start, policy, ahead, cost = n, one.policy, one.ahead, costs[n]
    runs.append(_run(picked[start:], cost))
    return runs


def _run(picked: Sequence[Picked], costs: str | None) -> _Given:
    jobs = [job for _, job in picked]
    timeout = readable_part(jobs[0].policy).timeout
    return _Given(jobs, picked[0][0], picked[-1][0], timeout, costs)
