"""What a claim asks for: how many jobs of which queues, and of which tasks.

A job is claimed only when its queue has a permit for it (`Permits`). One claim asks for all queues
that have room and may have work, so a full or empty queue never holds up another. A claim asks for
at most one batch.

A claim says how many of its jobs will begin at once: as many as find a free slot, and a free
thread or child process if their task needs one. The others are claimed ahead. While claims bring
jobs that may not be claimed ahead, the fetcher claims only jobs that begin at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from holdfast.handlers.registry import Mode
from holdfast.store.contract.records import ALL, Want
from holdfast.worker.finisher import Finisher
from holdfast.worker.identity import Identity
from holdfast.worker.permits import Permits, Places
from holdfast.worker.queue_order import QueueOrder
from holdfast.worker.runner import Runner
from holdfast.worker.setup import WorkerSetup


class Wants:
    """Decides what the next claim asks for. It asks nobody and waits for nothing."""

    def __init__(
        self,
        setup: WorkerSetup,
        permits: Permits,
        places: Places,
        order: QueueOrder,
        runner: Runner,
        finisher: Finisher,
        identity: Identity,
    ) -> None:
        self._batch = setup.options.batch
        self._permits = permits
        self._places = places
        self._order = order
        self._runner = runner
        self._finisher = finisher
        self._identity = identity

    @property
    def may_claim(self) -> bool:
        return self._identity.trusted and not self._finisher.full

    def to_claim(self, hungry: AbstractSet[str], free: Mapping[Mode, int]) -> list[Want]:
        """How many jobs of which of these queues. `free` has the free places by mode."""
        if not self.may_claim:
            return []
        permits = self._permits
        permits.adapt()
        ahead = permits.reads_ahead
        begin = least(free, ahead)
        wants, left = list[Want](), self._batch if ahead else min(self._batch, begin)
        queues = self._order.to_ask(hungry, self._runner.opens)
        shared = permits.divided(queues)
        for queue in queues:
            part = shared.get(queue, left)
            if (room := min(permits.room(queue), left, part, self._share_left(queue))) > 0:
                at_once = min(permits.free(queue), begin, room)
                wants.append(Want(queue, room, at_once))
                begin -= at_once
                left -= room
        return wants

    def tasks(self, free: Mapping[Mode, int]) -> Sequence[str]:
        """All tasks, unless nothing may be claimed ahead and some could not begin at once."""
        return self._places.tasks_that_could_begin({} if self._permits.reads_ahead else free)

    def _share_left(self, queue: str) -> int:
        """How many more jobs of this queue's total are for this worker. A job counts there until
        its end is written: a claim before that finds the total full, or takes a part of it that is
        for others."""
        left = self._permits.share_left(queue)
        return ALL if left is None else left - self._finisher.permits_of(queue)


def least(free: Mapping[Mode, int], ahead: bool) -> int:
    """How many jobs could begin at once, whatever their mode. If nothing is claimed ahead, tasks
    whose mode has no free place are left out of the claim, and do not count."""
    if not free:
        return ALL
    return max(0, min((n for n in free.values() if n > 0 or ahead), default=ALL))
