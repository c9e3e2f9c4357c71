"""Giving ready jobs to a worker.

Each line (queue and priority) is read in order of arrival. For each line a mark remembers the
arrival number up to which every job has been claimed or belongs to a task that the worker does
not know, and the next claim starts there: thousands of jobs of unknown tasks are read once and
not at every claim. That is safe. Arrival numbers are given under the write lock, so new jobs
always stand behind the mark. A job that goes back to its old position increments the `return`
counter, and a changed counter discards all marks.

A claim that found nothing in open queues finds nothing again until somebody commits, so the
claims of an idle worker cost a look at the database's version and no transaction.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping, Sequence, Set

from holdfast.job.ids import WorkerId
from holdfast.job.policy import readable_part
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.queues import EVERY_QUEUE, jobs_of
from holdfast.store.contract.records import Want
from holdfast.store.sqlite.admitting import LimitedClaims
from holdfast.store.sqlite.node_facts import with_facts
from holdfast.store.sqlite.picked import Picked, picked_jobs
from holdfast.store.sqlite.rows import after, to_datetime, to_json, to_texts
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.version import Remembered, Version
from holdfast.store.sqlite.writer import Verbs, Writer

MOST_MARKS = 10_000
SMALL_BATCH = 64
"""So many jobs are claimed in less than a millisecond."""
BEFORE_ALL, AFTER_ALL = -(2**63), 2**63 - 1

_Line = tuple[str, int]  # queue and priority


class SqliteClaiming(Verbs):
    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._lines = MarkedLines()

    async def claim(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]
    ) -> list[Claimed]:
        if not wants or not tasks:
            return []
        return await self._writer.write(
            lambda tx: self._lines.claim(tx, worker, wants, tasks),
            small=sum(want.limit for want in wants) <= SMALL_BATCH,
            if_unchanged=lambda version: self._lines.known_empty(version, wants, tasks),
        )


class MarkedLines:
    """The lines of ready jobs, and how far each has been read. Used only by whoever has the
    writer's connection at the moment, so its memory needs no lock."""

    def __init__(self) -> None:
        self._marks: dict[_Line, int] = {}
        self._hold_for: tuple[object, ...] = ()
        self._empty: Remembered[Set[str]] = Remembered()

    def known_empty(
        self, version: Version, wants: Sequence[Want], tasks: Sequence[str]
    ) -> list[Claimed] | None:
        """No jobs, if that is known without a transaction."""
        queues = self._empty.recall(version, tuple(tasks))
        if queues is None or any(want.queue not in queues for want in wants):
            return None
        return []

    def claim(
        self, tx: Transaction, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]
    ) -> list[Claimed]:
        gate = steps("jobs/claim")["gate"]
        [(trusted, returns, names, has_limited)] = tx.rows(gate, (worker, tx.now, tx.now))
        if not trusted:
            return []
        closed = set(to_texts(names))
        if EVERY_QUEUE in closed:
            return []
        known = to_json(task for task in tasks if jobs_of(task) not in closed)
        marks = self._marks_for(known, returns)
        admission = LimitedClaims(tx, worker, known) if has_limited else None
        claimed: list[Claimed] = []
        for want in wants:
            if want.queue not in closed and want.limit > 0:
                # Taken from the line before the next want is served: two may name one queue.
                if admission is None:
                    claimed += _give(tx, worker, want, known, marks)
                else:
                    claimed += _give_both(tx, worker, want, known, marks, admission)
        if admission is not None:
            admission.save()
        kept = self._marks
        claimed = with_facts(tx, claimed)
        tx.committed = lambda: kept.update(marks.maps[0])
        read = {want.queue for want in wants if want.limit > 0}
        # Where limits hold jobs up, time may give a claim what the last one did not find.
        if not claimed and admission is None and closed.isdisjoint(read):
            self._empty.keep(read, tuple(tasks))
        return claimed

    def _marks_for(self, tasks: str, returns: int) -> ChainMap[_Line, int]:
        """The marks hold for one set of tasks and one opening of the store, until a job goes back
        to its old position. New marks are kept apart: they hold only if the claim commits."""
        version = self._empty.asked_at
        hold_for = (tasks, returns, version and version.opening)
        if self._hold_for != hold_for or len(self._marks) > MOST_MARKS:
            self._marks = {}
            self._hold_for = hold_for
        return ChainMap({}, self._marks)


def _give(
    tx: Transaction, worker: WorkerId, want: Want, tasks: str, marks: MutableMapping[_Line, int]
) -> list[Claimed]:
    """Jobs without limits of one queue, priority by priority."""
    sql = steps("jobs/claim")
    picked: list[Picked] = []
    priority: int | None = BEFORE_ALL
    while len(picked) < want.limit:
        [(priority,)] = tx.rows(sql["next priority"], (want.queue, priority))
        if priority is None:
            break
        picked += _pick(tx, want, priority, len(picked), tasks, marks)
    _take(tx, worker, picked, want.free)
    return [job for _, job in picked]


def _pick(
    tx: Transaction,
    want: Want,
    priority: int,
    before: int,
    tasks: str,
    marks: MutableMapping[_Line, int],
) -> list[Picked]:
    """The first jobs of one line, where so many were picked `before`."""
    sql = steps("jobs/claim")
    claimed_at = to_datetime(tx.now)
    line, limit = (want.queue, priority), want.limit - before
    rows = tx.rows(sql["pick"], (*line, marks.get(line, 0), tasks, limit))
    last = rows[-1][3] if len(rows) == limit else tx.rows(sql["last"], line)[0][0]
    marks[line] = (last or 0) + 1
    return picked_jobs(rows, claimed_at, want.free - before)


def _give_both(
    tx: Transaction,
    worker: WorkerId,
    want: Want,
    tasks: str,
    marks: MutableMapping[_Line, int],
    admission: LimitedClaims,
) -> list[Claimed]:
    """Jobs with limits and jobs without. Where both wait at one priority, each kind has half, and
    what the other leaves."""
    given: list[Claimed] = []
    priority = BEFORE_ALL
    while len(given) < want.limit:
        [(plain,)] = tx.rows(steps("jobs/claim")["next priority"], (want.queue, priority))
        limited = admission.next_priority(want.queue, priority)
        if plain is None and limited is None:
            break
        priority = min(one for one in (plain, limited) if one is not None)
        if limited == priority:
            share = (want.limit - len(given) + 1) // 2 if plain == priority else want.limit
            given += admission.admit(want, priority, len(given), share)
        if plain == priority and len(given) < want.limit:
            picked = _pick(tx, want, priority, len(given), tasks, marks)
            _take(tx, worker, picked, want.free - len(given))
            given += [job for _, job in picked]
        if limited == plain:
            given += admission.admit(want, priority, len(given), want.limit)
    return given


def _take(tx: Transaction, worker: WorkerId, picked: Sequence[Picked], free: int) -> None:
    """Move jobs of one queue from the line to the leases, all alike in one statement: a statement
    for each job would also hand the interpreter to another thread and back for each. All but the
    first `free` jobs are claimed ahead."""
    alike: dict[tuple[str, int, float | None], list[int]] = {}
    pairs: dict[tuple[str, str], int] = {}
    for seq, job in picked:
        timeout = readable_part(job.policy).timeout
        alike.setdefault((job.queue, job.priority, timeout), []).append(seq)
        pair = (job.queue, job.task)
        pairs[pair] = pairs.get(pair, 0) + 1
    first_ahead = next(((job.priority, seq) for seq, job in picked[free:]), None)
    sql = steps("jobs/claim")
    for (queue, priority, timeout), numbers in alike.items():
        line = (queue, priority, to_json(numbers))
        timeout_at = None if timeout is None else after(tx.now, timeout)
        ahead_from = _ahead_from(first_ahead, priority)
        tx.run(sql["lease"], (worker, tx.now, timeout_at, ahead_from, *line))
        tx.run(sql["leave"], line)
    for (queue, task), jobs in pairs.items():
        tx.count(queue, task, JobState.READY, JobState.RUNNING, What.CLAIMED, jobs)


def _ahead_from(first_ahead: tuple[int, int] | None, priority: int) -> int:
    """The arrival number from which on the picked jobs of this priority are claimed ahead."""
    if first_ahead is None or priority < first_ahead[0]:
        return AFTER_ALL
    return first_ahead[1] if priority == first_ahead[0] else BEFORE_ALL
