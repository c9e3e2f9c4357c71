"""`HandingOver` on Postgres: what an end releases is for the next claim."""

from __future__ import annotations

from holdfast.errors import NotCapable
from holdfast.job.record import Claimed
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Capability, Room, Verdict


class PostgresHandingOver:
    """See `holdfast.store.contract.handing_over.HandingOver`."""

    async def hand_over(self, end: Transition, room: Room) -> tuple[Verdict, Claimed | None]:
        raise NotCapable("postgres", Capability.HAND_OVER.value)
