"""Claims of queues in which jobs with limits wait, or for which operators have made rules.

Where jobs with limits and jobs without wait at one priority, each kind has half, and what the other
leaves. In a queue that lets jobs age, the level that has waited longest for its priority goes
first: a level is the jobs of one priority and kind.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.job.ids import WorkerId
from holdfast.job.passing import total_name
from holdfast.job.record import Claimed
from holdfast.job.ties import Tie
from holdfast.limits.turns import QUANTUM
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Want
from holdfast.store.sqlite.admitting import LimitedClaims
from holdfast.store.sqlite.plain_lines import AFTER_ALL, BEFORE_ALL, PlainLine, take_first
from holdfast.store.sqlite.rows import SECOND, to_json
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction

UNRULED = QueueSettings()


def ruled_queues(tx: Transaction, wants: Sequence[Want]) -> dict[str, QueueSettings]:
    """Those of the wanted queues that have a total or let jobs age."""
    wanted = {want.queue for want in wants}
    rows = tx.rows(steps("jobs/claim")["ruled queues"])
    return {name: QueueSettings.from_json(text) for name, text in rows if name in wanted}


class _Level(NamedTuple):
    """The jobs of one priority and kind. The least `age` goes first: since when its first job
    waits, and a while later for each step of priority."""

    age: int
    priority: int
    line: int
    is_plain: bool


class MixedClaims:
    """Jobs of both kinds, given to one worker."""

    def __init__(
        self,
        tx: Transaction,
        worker: WorkerId,
        tasks: str,
        marks: MutableMapping[PlainLine, int],
        admission: LimitedClaims,
        *,
        takes_plain: bool = True,
    ) -> None:
        self._tx = tx
        self._worker = worker
        self._tasks = tasks
        self._marks = marks
        self._admission = admission
        self._takes_plain = takes_plain

    def give(self, want: Want, rules: QueueSettings) -> list[Claimed]:
        if rules.max_running is not None:
            room = self._admission.room(total_name(want.queue))
            want = msgspec.structs.replace(want, limit=min(want.limit, room))
        if rules.aging is not None:
            return self._by_age(want, round(rules.aging * SECOND))
        return self._by_priority(want)

    def _by_priority(self, want: Want) -> list[Claimed]:
        given: list[Claimed] = []
        priority = BEFORE_ALL
        while len(given) < want.limit:
            plain, limited = self._next(want.queue, priority)
            if plain is None and limited is None:
                break
            priority = min(one for one in (plain, limited) if one is not None)
            if limited == priority:
                share = (want.limit - len(given) + 1) // 2 if plain == priority else want.limit
                given += self._admission.admit(want, priority, len(given), share)
            if plain == priority and len(given) < want.limit:
                given += self._plain(want, priority, len(given))
            if limited == plain:
                given += self._admission.admit(want, priority, len(given), want.limit)
        return given

    def _next(self, queue: str, behind: int) -> tuple[int | None, int | None]:
        """The next priorities of plain jobs and of lines."""
        plain: int | None = None
        if self._takes_plain:
            [(plain,)] = self._tx.rows(steps("jobs/claim")["next priority"], (queue, behind))
        return plain, self._admission.next_priority(queue, behind)

    def _plain(self, want: Want, priority: int, before: int) -> list[Claimed]:
        """Plain jobs. If their queue has a total, their leases count in it."""
        found = take_first(self._tx, self._worker, want, priority, before, self._tasks, self._marks)
        total = self._admission.total_of(want.queue)
        if total is None or not found:
            return found
        self._admission.count_plain(total, len(found))
        ids = to_json(job.id for job in found)
        self._tx.run(steps("jobs/claim")["count in total"], (total, ids))
        return [msgspec.structs.replace(job, ties=job.ties | int(Tie.PERMITS)) for job in found]

    # Aging -----------------------------------------------------------------------------------

    def _by_age(self, want: Want, aging: int) -> list[Claimed]:
        given: list[Claimed] = []
        done: set[tuple[int, bool]] = set()  # levels that had nothing to give
        while len(given) < want.limit:
            levels = [
                level
                for level in self._levels(want.queue, aging)
                if (level.priority, level.is_plain) not in done
            ]
            if not levels:
                break
            first, *others = sorted(levels)
            until = min((level.age for level in others), default=AFTER_ALL)
            more = self._serve(want, first, until - first.priority * aging, len(given))
            if not more:
                done.add((first.priority, first.is_plain))
            given += more
        return given

    def _levels(self, queue: str, aging: int) -> list[_Level]:
        levels: list[_Level] = []
        priority = BEFORE_ALL
        while True:
            plain, limited = self._next(queue, priority)
            if plain is None and limited is None:
                return levels
            priority = min(one for one in (plain, limited) if one is not None)
            if plain == priority and (since := self._plain_head(queue, priority)) is not None:
                levels.append(_Level(since + priority * aging, priority, 0, True))
            head = self._admission.head(queue, priority) if limited == priority else None
            if head is not None:
                levels.append(_Level(head[1] + priority * aging, priority, head[0], False))

    def _plain_head(self, queue: str, priority: int) -> int | None:
        values = (queue, priority, self._marks.get((queue, priority), 0), self._tasks)
        head = self._tx.row(steps("jobs/claim")["head"], values)
        return None if head is None else head[0]

    def _serve(self, want: Want, level: _Level, until: int, before: int) -> list[Claimed]:
        """The first jobs of a level that have waited since this moment or longer: one, at least,
        and of lines no more than a turn."""
        left = want.limit - before
        mark = self._marks.get((want.queue, level.priority), 0) if level.is_plain else 0
        place = (level.line, want.queue, level.priority, mark)
        most = min(until, AFTER_ALL)
        [(count,)] = self._tx.rows(steps("jobs/claim")["as old"], (*place, most, left))
        if level.is_plain:
            upto = msgspec.structs.replace(want, limit=before + max(1, count))
            return self._plain(upto, level.priority, before)
        turn = min(max(1, count), QUANTUM)
        return self._admission.admit(want, level.priority, before, turn)
