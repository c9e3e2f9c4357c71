"""How a worker that ends a node gets the next one."""

from __future__ import annotations

from typing import Protocol

from holdfast.job.record import Claimed
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Room, Verdict


class HandingOver(Protocol):
    async def hand_over(self, end: Transition, room: Room) -> tuple[Verdict, Claimed | None]:
        """`finish` for one node; and if its end releases one other, which a claim for this room
        would give before any other job, give it in the same step, as `claim` would. Nobody is
        woken for it. Where a store cannot tell at once, it gives nothing, and wakes as `finish`
        does.

        Only of a store that can HAND_OVER.
        """
        ...
