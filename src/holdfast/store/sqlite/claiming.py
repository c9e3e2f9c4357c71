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
from collections.abc import Collection, MutableMapping, Sequence, Set

from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.store.contract.queues import EVERY_QUEUE, jobs_of
from holdfast.store.contract.records import Want
from holdfast.store.sqlite.admitting import LimitedClaims
from holdfast.store.sqlite.mixing import UNRULED, MixedClaims, ruled_queues
from holdfast.store.sqlite.node_facts import with_facts
from holdfast.store.sqlite.plain_lines import BEFORE_ALL, PlainLine, take_first
from holdfast.store.sqlite.rows import to_json, to_texts
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.version import Remembered, Version
from holdfast.store.sqlite.writer import Verbs, Writer

MOST_MARKS = 10_000
SMALL_BATCH = 64
"""So many jobs are claimed in less than a millisecond."""


class SqliteClaiming(Verbs):
    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._lines = MarkedLines()

    async def claim(
        self,
        worker: WorkerId,
        wants: Sequence[Want],
        tasks: Sequence[str],
        labels: Collection[str] = (),
        only: Collection[str] = (),
    ) -> list[Claimed]:
        if not wants or not tasks:
            return []
        return await self._writer.write(
            lambda tx: self._lines.claim(tx, worker, wants, tasks, labels, only),
            small=sum(want.limit for want in wants) <= SMALL_BATCH,
            if_unchanged=lambda version: self._lines.known_empty(version, wants, tasks),
        )


class MarkedLines:
    """The lines of ready jobs, and how far each has been read. Used only by whoever has the
    writer's connection at the moment, so its memory needs no lock."""

    def __init__(self) -> None:
        self._marks: dict[PlainLine, int] = {}
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
        self,
        tx: Transaction,
        worker: WorkerId,
        wants: Sequence[Want],
        tasks: Sequence[str],
        labels: Collection[str] = (),
        only: Collection[str] = (),
    ) -> list[Claimed]:
        gate = steps("jobs/claim")["gate"]
        values = (worker, tx.now, tx.now)
        [(trusted, returns, names, has_limited, has_ruled)] = tx.rows(gate, values)
        if not trusted:
            return []
        closed = set(to_texts(names))
        if EVERY_QUEUE in closed:
            return []
        known = to_json(task for task in tasks if jobs_of(task) not in closed)
        marks = self._marks_for(known, returns)
        ruled = ruled_queues(tx, wants) if has_ruled else {}
        admission = None
        if has_limited or ruled:
            admission = LimitedClaims(tx, worker, known, to_json(labels), to_json(only), ruled)
        claimed: list[Claimed] = []
        for want in wants if has_limited or not only else ():
            if want.queue not in closed and want.limit > 0:
                # Taken from the line before the next want is served: two may name one queue.
                if admission is None or not (has_limited or want.queue in ruled):
                    claimed += _give(tx, worker, want, known, marks)
                else:
                    claims = MixedClaims(tx, worker, known, marks, admission, takes_plain=not only)
                    claimed += claims.give(want, ruled.get(want.queue, UNRULED))
        if admission is not None:
            admission.save()
        kept = self._marks
        claimed = with_facts(tx, claimed)
        tx.committed = lambda: kept.update(marks.maps[0])
        read = {want.queue for want in wants if want.limit > 0}
        # Where limits hold jobs up, time may give a claim what the last one did not find.
        if not (claimed or only) and admission is None and closed.isdisjoint(read):
            self._empty.keep(read, tuple(tasks))
        return claimed

    def _marks_for(self, tasks: str, returns: int) -> ChainMap[PlainLine, int]:
        """The marks hold for one set of tasks and one opening of the store, until a job goes back
        to its old position. New marks are kept apart: they hold only if the claim commits."""
        version = self._empty.asked_at
        hold_for = (tasks, returns, version and version.opening)
        if self._hold_for != hold_for or len(self._marks) > MOST_MARKS:
            self._marks = {}
            self._hold_for = hold_for
        return ChainMap({}, self._marks)


def _give(
    tx: Transaction, worker: WorkerId, want: Want, tasks: str, marks: MutableMapping[PlainLine, int]
) -> list[Claimed]:
    """Jobs without limits of one queue, priority by priority."""
    sql = steps("jobs/claim")
    given: list[Claimed] = []
    priority: int | None = BEFORE_ALL
    while len(given) < want.limit:
        [(priority,)] = tx.rows(sql["next priority"], (want.queue, priority))
        if priority is None:
            break
        given += take_first(tx, worker, want, priority, len(given), tasks, marks)
    return given
