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
    """One scan: what it took, the queues of which it skipped a part, and its number."""

    found: list[Record]
    skipped: frozenset[str]
    number: int


class PostgresClaiming(JobVerbs):
    """See `holdfast.store.contract.claiming.Claiming` for what the verb promises."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        patience = connections.options.statement_timeout + LATEST_COMMIT_SECONDS
        self._lost_claims = LostClaims(patience)
        self._last_number = random.getrandbits(62)
        self._known_tasks: tuple[str, ...] = ()

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
        scan = await self._scan(worker, wants, tasks)
        doubtful = [want for want in _still_wanted(wants, scan.found) if want.queue in scan.skipped]
        if doubtful:
            scan.found.extend(await self._scan_again(worker, doubtful, tasks, scan.number))
        return [rows.claimed(row) for row in scan.found]

    async def _scan_again(
        self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str], before: int
    ) -> list[Record]:
        """The same queues from their first rows. If this fails, the caller hears nothing of what
        the scan before it took either, so that one counts as lost too."""
        try:
            return (await self._scan(worker, wants, tasks)).found
        except BaseException:
            self._lost_claims.add(worker, before)
            raise

    async def _scan(self, worker: WorkerId, wants: Sequence[Want], tasks: Sequence[str]) -> Scan:
        began = time.monotonic()
        queues = [want.queue for want in wants]
        limits = [want.limit for want in wants]
        free = [want.free for want in wants]
        stretches = self._skip_points.stretches(queues, began)
        skipped = self._skip_points.queues
        number = self._last_number = self._last_number + 1
        values = (worker, list(tasks), number, queues, limits, *stretches, free)
        try:
            found = await self._connections.timed("jobs/claim", *values, again=False)
        except BaseException:  # also when the caller is cancelled: the statement may commit
            self._lost_claims.add(worker, number)
            raise
        self._skip_points.learn(found, {want.queue for want in _still_wanted(wants, found)})
        if not skipped:
            self._skip_points.scanned_all(began, time.monotonic())
        return Scan(list(found), skipped, number)


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
