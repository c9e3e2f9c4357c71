"""What becomes of a claim whose reply was lost.

It is not simply repeated: the jobs it took belong to the worker, whether or not the worker heard of
them. Each claim has a number. The numbers of failed claims are kept for a while; the next claim
first asks which jobs those took, and answers them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from holdfast.job.ids import WorkerId
from holdfast.job.record import Claimed
from holdfast.store.contract.records import Want
from holdfast.store.postgres import rows
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
        self._delivered: dict[WorkerId, dict[int, set[str]]] = {}

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
        before = self._delivered.get(worker, {})
        mine = self._delivered[worker] = {number: before.get(number, set()) for number in numbers}
        for row in found:
            delivered = mine[row["batch"]]
            if row["job_id"] in delivered:
                continue
            if room.get(row["queue"], 0) < 1:
                left = True
                continue
            delivered.add(row["job_id"])
            room[row["queue"]] -= 1
            answer.append(rows.claimed(row))
        if not left:
            self._ask_at[worker] = time.monotonic() + ASK_EVERY_SECONDS
        return answer
