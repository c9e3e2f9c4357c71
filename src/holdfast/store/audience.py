"""Who listens to the wakeups of one store, for what, and whether all of them doze.

Seats are replaced, never changed: on SQLite another thread looks at them.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from holdfast.store.contract.wakeups import FEW_JOBS, Listener, Topic, Wakeup


class Seat(msgspec.Struct, frozen=True):
    listener: Listener
    topics: Set[Topic]
    dozes: bool = False


class Audience:
    def __init__(self) -> None:
        self._seats: tuple[Seat, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._seats)

    def add(self, listener: Listener, topics: Set[Topic]) -> None:
        self._seats = (*self._seats, Seat(listener, topics))

    def remove(self, listener: Listener) -> None:
        self._seats = tuple(seat for seat in self._seats if seat.listener != listener)

    def clear(self) -> None:
        self._seats = ()

    def doze(self, listener: Listener, dozes: bool) -> None:
        self._seats = tuple(
            Seat(seat.listener, seat.topics, dozes) if seat.listener == listener else seat
            for seat in self._seats
        )

    @property
    def dozes(self) -> bool:
        """Whether nobody who would hear of jobs wants to hear of a few, and nobody follows."""
        for_jobs = [seat.dozes for seat in self._seats if Topic.READY in seat.topics]
        return bool(for_jobs) and all(for_jobs) and not self.follows

    @property
    def hears_few(self) -> bool:
        """Whether somebody wants to hear of a few jobs."""
        return any(Topic.READY in seat.topics and not seat.dozes for seat in self._seats)

    @property
    def follows(self) -> bool:
        """Whether somebody follows streams."""
        return any(Topic.STREAMS in seat.topics for seat in self._seats)

    def of(self, wakeup: Wakeup) -> list[Listener]:
        few = wakeup.topic is Topic.READY and 0 < wakeup.jobs <= FEW_JOBS
        return [
            seat.listener
            for seat in self._seats
            if wakeup.topic in seat.topics and not (few and seat.dozes)
        ]
