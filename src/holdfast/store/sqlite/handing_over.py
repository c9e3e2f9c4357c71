"""Giving a node to the worker whose end has released it, without its standing in line.

Where nobody stands before it, the node would be written to its line, found there as the first, and
removed again. So it goes from the blocked nodes straight to the leases, in the transaction of the
end. The books have both moves, and the node has an arrival number, as by the long way.
"""

from __future__ import annotations

import msgspec

from holdfast.job.policy import readable_part
from holdfast.job.record import Claimed
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.job.what import What
from holdfast.store.contract.queues import EVERY_QUEUE, jobs_of
from holdfast.store.contract.records import Room, Verdict
from holdfast.store.sqlite.finishing import finish, succeed_node
from holdfast.store.sqlite.node_facts import facts_of
from holdfast.store.sqlite.picked import picked_jobs
from holdfast.store.sqlite.places import leave, take_numbers
from holdfast.store.sqlite.rows import after, to_datetime, to_texts
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteHandingOver(Verbs):
    """See `holdfast.store.contract.handing_over.HandingOver`."""

    async def hand_over(self, end: Transition, room: Room) -> tuple[Verdict, Claimed | None]:
        return await self._writer.write(lambda tx: hand_over(tx, end, room), small=True)


def hand_over(tx: Transaction, end: Transition, room: Room) -> tuple[Verdict, Claimed | None]:
    taker = RoomTaker(room)
    if end.is_plain_success_of_node and succeed_node(tx, end, taker):
        return Verdict(end.id, accepted=True), taker.taken
    [verdict] = finish(tx, [end])
    return verdict, None


class RoomTaker:
    """Takes a released node for the worker that has the room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.taken: Claimed | None = None

    def take(self, tx: Transaction, job_id: str) -> bool:
        """Whether the worker has the node now. If not, nothing has changed, and the node is to
        stand in its line."""
        values = {"worker": self._room.worker, "now": tx.now, "job_id": job_id}
        for closed, inputs, state, *columns in tx.rows(steps("jobs/hand_over")["look"], values):
            for _, job in picked_jobs([tuple(columns)], to_datetime(tx.now), free=1):
                if self._may_begin(job, closed):
                    _lease(tx, job, self._room)
                    facts = facts_of(tx, [(job.id, inputs, state)])
                    self.taken = msgspec.structs.replace(job, node=facts[job.id])
        return self.taken is not None

    def _may_begin(self, job: Claimed, closed: str) -> bool:
        """Whether the worker has a slot for this job, and neither its queue nor its task is
        closed."""
        if job.queue not in self._room.queues or job.task not in self._room.tasks:
            return False
        return {EVERY_QUEUE, job.queue, jobs_of(job.task)}.isdisjoint(to_texts(closed))


def _lease(tx: Transaction, job: Claimed, room: Room) -> None:
    timeout = readable_part(job.policy).timeout
    timeout_at = None if timeout is None else after(tx.now, timeout)
    values = (take_numbers(tx, 1), tx.now, room.worker, tx.now, timeout_at, job.id)
    tx.run(steps("jobs/hand_over")["lease"], values)
    leave(tx, JobState.BLOCKED, [job.id])
    tx.count(job.queue, job.task, JobState.BLOCKED, JobState.READY, What.RELEASED)
    tx.count(job.queue, job.task, JobState.READY, JobState.RUNNING, What.CLAIMED)
