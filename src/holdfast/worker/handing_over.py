"""Ends of nodes that bring the next node.

The lone end of a node mostly releases the next one, which the worker would be woken for and claim.
If no claim is on its way and the store can, the end is written with the worker's room, and its
answer brings the next node (`HandingOver.hand_over`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.job.record import Claimed
from holdfast.job.ties import NODE
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Capability, Room, Verdict
from holdfast.worker.lost_claims import LostClaims
from holdfast.worker.permits import Permits
from holdfast.worker.setup import WorkerSetup


class HandOvers:
    """At most one at a time. `room` says what could begin here; None if nothing may. While the
    store is asked, a permit of each queue of the room is taken. `on_over` is called when it has
    answered or failed, and then the fetcher calls `received`. Until that the worker counts as
    claiming."""

    def __init__(
        self,
        setup: WorkerSetup,
        permits: Permits,
        lost_claims: LostClaims,
        room: Callable[[], Room | None],
        on_over: Callable[[], None],
    ) -> None:
        self._store = setup.store
        self._capable = Capability.HAND_OVER in setup.store.capabilities
        self._permits = permits
        self._lost_claims = lost_claims
        self._room = room
        self._on_over = on_over
        self._asked: Room | None = None
        self._brought: list[Claimed] | None = None

    @property
    def under_way(self) -> bool:
        return self._asked is not None

    async def finish(self, ends: Sequence[Transition]) -> list[Verdict]:
        """Have these ends written, and take what the store hands over."""
        if not self._capable or self.under_way or len(ends) > 1 or not ends[0].ties & NODE:
            return await self._store.jobs.finish(ends)
        if (room := self._room()) is None:
            return await self._store.jobs.finish(ends)
        return [await self._hand_over(ends[0], room)]

    async def _hand_over(self, end: Transition, room: Room) -> Verdict:
        self._asked, brought = room, None
        self._lost_claims.claiming = True
        for queue in room.queues:
            self._permits.take(queue, 1)
        try:
            verdict, brought = await self._store.jobs.hand_over(end, room)
        except BaseException:
            self._lost_claims.suspect()
            raise
        finally:
            self._brought = [] if brought is None else [brought]
            self._on_over()
        return verdict

    def received(self) -> list[Claimed] | None:
        """What has come, once; None while the store is asked. Only the permits of what has come
        stay taken."""
        brought, room = self._brought, self._asked
        if brought is None or room is None:
            return None
        self._asked = self._brought = None
        self._lost_claims.claiming = False
        kept = {job.queue for job in brought}
        for queue in room.queues:
            if queue not in kept:
                self._permits.give(queue)
        return brought
