"""Hints that something is worth a look."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Protocol

from holdfast.store.contract.records import (
    EVERY_TOPIC,
    Topic,
    Wakeup,
)

Listener = Callable[[Wakeup], None]


class Wakeups(Protocol):
    """Hints that something may be worth a look. They may be lost; polling is the truth."""

    async def subscribe(
        self, listener: Listener, topics: Set[Topic] = EVERY_TOPIC
    ) -> Callable[[], None]:
        """Call `listener` on this loop for each wakeup of these topics, until the returned
        function is called. Reconnects by itself. After a reconnect every topic may have been
        missed, so the listener gets READY, DUE and SCHEDULES with an empty name, meaning any."""
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
