"""Claims of jobs with limits: the lines whose turn it is, as far as all their buckets have room.

A claim serves them in rounds (`rounds`). Nothing is held while a line waits, so limits cannot wait
for each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.job.ids import WorkerId
from holdfast.job.passing import total_name
from holdfast.job.record import Claimed
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Want
from holdfast.store.contract.wakeups import Topic
from holdfast.store.sqlite.buckets import Buckets
from holdfast.store.sqlite.rounds import Claimer, Round
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import MANY, Transaction

MOST_READ, MOST_PARKED = 512, 1_000
"""Jobs that a round reads, and lines that a claim lets wait: it must not hold the lock for long."""


class LimitedClaims:
    """The claims of one worker in one transaction."""

    def __init__(
        self,
        tx: Transaction,
        worker: WorkerId,
        tasks: str,
        labels: str,
        only: str,
        ruled: Mapping[str, QueueSettings],
    ) -> None:
        self._tx = tx
        self._ruled = ruled
        self._sql = steps("parts/lines")
        self._buckets = Buckets(tx)
        self._buckets.reopen()
        self._buckets.save()
        who = {"tasks": tasks, "labels": labels, "only": only}
        self._claimer = Claimer(tx, worker, who, self._buckets, set())

    def next_priority(self, queue: str, behind: int) -> int | None:
        """The first priority behind this one that has an open line."""
        [(priority,)] = self._tx.rows(self._sql["next priority"], (queue, behind))
        return None if priority is None else int(priority)

    def head(self, queue: str, priority: int) -> tuple[int, int] | None:
        """The line whose turn it is, and since when its first job waits."""
        values = {"queue": queue, "priority": priority, **self._claimer.who}
        found = self._tx.row(self._sql["head"], values)
        return None if found is None else (found[0], found[1])

    def total_of(self, queue: str) -> str | None:
        """The bucket that counts all running jobs of the queue, if it has a total."""
        rules = self._ruled.get(queue)
        return None if rules is None or rules.max_running is None else total_name(queue)

    def room(self, total: str) -> int:
        return self._buckets.get(total).free(self._tx.now)

    def count_plain(self, total: str, jobs: int) -> None:
        self._buckets.count([total], [jobs])

    def admit(self, want: Want, priority: int, before: int, most: int) -> list[Claimed]:
        """At most so many jobs of one priority, where so many were given `before`. Every round
        serves each line that it reads, parks it or removes it, so that there is an end. A round
        that read jobs in vain is followed by one that reads more: lines have to wait. If very many
        do, the next claim goes on."""
        given: list[Claimed] = []
        place, total = (want.queue, priority), self.total_of(want.queue)
        wanted = min(want.limit - before, most)
        in_vain = parked = 0
        while len(given) < wanted:
            if parked >= MOST_PARKED:
                self._tx.wake(Topic.READY, want.queue, MANY)
                break
            left = wanted - len(given)
            read = max(left, min(in_vain * 4, MOST_READ))
            served = Round(self._claimer, place, total, left, want.free - before - len(given))
            if not served.serve(read):
                break
            served.write()
            given += served.given
            in_vain = read - len(served.given)
            parked += served.parked
        return given

    def save(self) -> None:
        self._buckets.save()
