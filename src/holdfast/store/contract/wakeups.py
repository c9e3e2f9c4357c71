"""Hints that something is worth a look."""

from __future__ import annotations

from collections.abc import Callable, Set
from enum import StrEnum
from typing import Protocol

import msgspec


class Topic(StrEnum):
    """What a wakeup is about."""

    READY = "ready"  # jobs became ready in queue `name`
    PAUSED = "paused"  # queue `name` was paused: what was claimed and has not begun should go back
    DUE = "due"  # something was scheduled; the next due time may be sooner
    CANCEL = "cancel"  # worker `name` is to beat now: it has jobs to cancel, or is to drain
    SCHEDULES = "schedules"  # schedules were changed
    LEAD = "lead"  # the leader of role `name` has left
    ERRANDS = "errands"  # a flow owes something
    OPERATIONS = "operations"  # an operation is to run; only polls tell it
    FLEET = "fleet"  # workers came or left, or the total of queue `name` was changed
    LIMITS = "limits"  # a budget has reached its soft amount, or overran
    STREAMS = "streams"  # frames were written by a job whose id ends with `name`


USUAL_TOPICS = frozenset(Topic) - {Topic.STREAMS}
"""What workers listen to. Frames concern those alone who follow streams, and come all the time."""
FEW_JOBS = 8
"""Up to so many new jobs concern a part of a large fleet only; who dozes does not hear of them."""


class Wakeup(msgspec.Struct, frozen=True):
    """`jobs`: how many became ready; 0 where that is not known or they are many."""

    topic: Topic
    name: str = ""
    jobs: int = 0


Listener = Callable[[Wakeup], None]


class Wakeups(Protocol):
    """Hints that something may be worth a look. They may be lost; polling is the truth."""

    async def subscribe(
        self, listener: Listener, topics: Set[Topic] = USUAL_TOPICS
    ) -> Callable[[], None]:
        """Call `listener` on this loop for each wakeup of these topics, until the returned
        function is called. Reconnects by itself. After a reconnect every topic may have been
        missed, so the listener gets READY, DUE, SCHEDULES and STREAMS with an empty name, meaning
        any."""
        ...

    def doze(self, listener: Listener, dozes: bool) -> None:
        """Whether `listener` goes without READY of up to `FEW_JOBS` jobs from now on: where
        many could do a job, a message to each of them costs more than the job."""
        ...

    def tell(self, wakeup: Wakeup) -> None:
        """Call the listeners of this store, as if the wakeup had been heard: for who learned
        by a poll what there is to do."""
        ...

    @property
    def hears(self) -> bool:
        """Whether wakeups arrive at this moment. Where they do not, polls do all of it."""
        ...
