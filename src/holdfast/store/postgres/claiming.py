"""How a worker gets jobs on Postgres.

A claim starts its scan where `skip_points` says. If a queue gave less than was wanted, and a part
of it was skipped, the same call scans it again from its first row.

A claim whose reply was lost is not simply repeated: the jobs it took belong to the worker, whether
or not the worker heard of them. Each claim has a number. The numbers of failed claims are kept for
a while (`LostClaims`); the next claim first asks which jobs those took, and answers them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.store.contract.records import Want
from holdfast.store.postgres import rows
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.job_verbs import JobVerbs
from holdfast.store.postgres.pool import Record

ASK_EVERY_SECONDS = 1.0
LATEST_COMMIT_SECONDS = 30
"""A statement may commit so long after its own timeout, and not later."""


class LostClaims:
    """Claims whose reply was lost, by worker, until they can take nothing more.

    A statement may commit after its client gave up, but not long after its own timeout. Until then
    it is asked for again now and then, since most of those claims took nothing.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._claims: dict[WorkerId, dict[int, float]] = {}
        self._ask_at: dict[WorkerId, float] = {}
        self._delivered: dict[int, set[str]] = {}

    def add(self, worker: WorkerId, number: int) -> None:
        self._claims.setdefault(worker, {})[number] = time.monotonic() + self._patience
        self._ask_at.pop(worker, None)

    def of(self, worker: WorkerId) -> list[int]:
        """The numbers to ask for now; usually none."""
        claims, now = self._claims.get(worker), time.monotonic()
        if not claims or now < self._ask_at.get(worker, now):
            return []
        for number in [number for number, until in claims.items() if until < now]:
            del claims[number]
        return list(claims)

    def deliver(
        self, worker: WorkerId, numbers: list[int], found: Sequence[Record], wants: Sequence[Want]
    ) -> list[Claimed]:
        """Those of the `found` jobs that there is room for and that were not delivered before.
        If all found room, the store is not asked again for a while."""
        room = {want.queue: want.limit for want in wants}
        answer, left = [], False
        for row in found:
            delivered = self._delivered.setdefault(row["batch"], set())
            if row["job_id"] in delivered:
                continue
            if room.get(row["queue"], 0) < 1:
                left = True
                continue
            delivered.add(row["job_id"])
            room[row["queue"]] -= 1
            answer.append(rows.claimed(row))
        self._delivered = {n: jobs for n, jobs in self._delivered.items() if n in numbers}
        if not left:
            self._ask_at[worker] = time.monotonic() + ASK_EVERY_SECONDS
        return answer


@dataclass(frozen=True, slots=True)
class Scan:
    """One scan: what it took, and the queues of which it skipped a part."""

    found: list[Record]
    skipped: frozenset[str]


class PostgresClaiming(JobVerbs):
    """See `holdfast.store.contract.claiming.Claiming` for what the verb promises."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        patience = connections.options.statement_timeout + LATEST_COMMIT_SECONDS
        self._lost_claims = LostClaims(patience)
        self._last_number = random.getrandbits(62)
        self._known_tasks: tuple[str, ...] = ()
        self._limited: dict[str, bool] = {}
        """The queues in which jobs with limits wait, and whether their lines are to be opened
        first. A claim of jobs without limits tells."""

    async def claim(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]
    ) -> list[Claimed]:
        wants = [want for want in wants if want.limit > 0]
        if not wants or not tasks:
            return []
        if self._known_tasks != (known := tuple(tasks)):
            self._known_tasks = known
            self._skip_points.forget()  # a job that was passed over may be for these tasks
        if lost := self._lost_claims.of(worker):
            found = await self._connections.timed("jobs/lost_claims", worker, lost)
            if recovered := self._lost_claims.deliver(worker, lost, found, wants):
                return recovered
        numbers: list[int] = []
        try:
            found = await self._claim(worker, wants, tasks, numbers)
        except BaseException:
            # The caller hears nothing of what the statements before this one took either.
            for number in numbers:
                self._lost_claims.add(worker, number)
            raise
        return [rows.claimed(row) for row in found]

    async def _claim(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str], numbers: list[int]
    ) -> list[Record]:
        """Jobs with limits have a part of their queues, as far as such jobs are known to wait; then
        come those without limits, and then whatever fills the rest."""
        found: list[Record] = []
        for want in wants:
            if want.queue in self._limited:
                found += await self._admit(worker, want, tasks, numbers, shared=True)
        scan = await self._scan(worker, _still_wanted(wants, found), tasks, numbers)
        found += scan.found
        doubtful = [want for want in _still_wanted(wants, found) if want.queue in scan.skipped]
        if doubtful:
            found += (await self._scan(worker, doubtful, tasks, numbers)).found
        if self._limited:
            for want in _still_wanted(wants, found):
                if want.queue in self._limited:
                    found += await self._admit(worker, want, tasks, numbers)
        return found

    async def _admit(
        self,
        worker: WorkerId,
        want: Want,
        tasks: Sequence[str],
        numbers: list[int],
        *,
        shared: bool = False,
    ) -> list[Record]:
        """Jobs with limits of one queue. One call gives the lines one turn each, and locks their
        buckets in order; so there is a call for each turn, until one gives nothing."""
        if self._limited[want.queue]:
            await self._connections.timed("limits/hear", [want.queue])
        found: list[Record] = []
        while len(found) < want.limit:
            limit, free = want.limit - len(found), max(0, want.free - len(found))
            number = self._next_number(numbers)
            values = (worker, list(tasks), number, want.queue, limit, free, shared)
            given = await self._connections.timed("limits/admit", *values, again=False)
            found += given
            if shared or not given:
                break
        return found

    def _next_number(self, numbers: list[int]) -> int:
        self._last_number += 1
        numbers.append(self._last_number)
        return self._last_number

    async def _scan(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str], numbers: list[int]
    ) -> Scan:
        if not wants:
            return Scan([], frozenset())
        began = time.monotonic()
        queues = [want.queue for want in wants]
        limits = [want.limit for want in wants]
        free = [want.free for want in wants]
        stretches = self._skip_points.stretches(queues, began)
        skipped = self._skip_points.queues
        number = self._next_number(numbers)
        values = (worker, list(tasks), number, queues, limits, *stretches, free)
        found = await self._connections.timed("jobs/claim", *values, again=False)
        found = self._without_marks(queues, found)
        self._skip_points.learn(found, {want.queue for want in _still_wanted(wants, found)})
        if not skipped:
            self._skip_points.scanned_all(began, time.monotonic())
        return Scan(list(found), skipped)

    def _without_marks(self, queues: Sequence[str], found: list[Record]) -> list[Record]:
        """Jobs alone. The other rows, mostly none, come last and say where jobs with limits
        wait."""
        for queue in queues:
            self._limited.pop(queue, None)
        while found and found[-1]["job_id"] is None:
            mark = found.pop()
            self._limited[mark["queue"]] = mark["ahead"]
        return found


def _still_wanted(wants: Sequence[Want], found: Sequence[Record]) -> list[Want]:
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
