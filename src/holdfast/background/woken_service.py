"""The base of services that run loops under a supervisor and wake them when the store says so."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from holdfast.background.counters import LoopCounters
from holdfast.background.service import Loop
from holdfast.background.supervisor import Supervisor
from holdfast.events import Events
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup


class WokenService(ABC):
    """A Service: start subscribes to the topics and runs the loops, stop undoes both.

    Wakeups only save time. The store may lose any of them, so every loop also wakes up by itself.
    """

    name: ClassVar[str]
    topics: ClassVar[frozenset[Topic]]

    def __init__(
        self, store: Store, events: Events, loops: Sequence[Loop], *, grace: float
    ) -> None:
        self.loops = tuple(loops)
        self._store = store
        self._supervisor = Supervisor(self.loops, events, name=self.name, grace=grace)
        self._unsubscribe: Callable[[], None] | None = None
        self._turn = asyncio.Lock()

    @property
    def counters(self) -> Mapping[str, LoopCounters]:
        """What its loops have counted, by the name of each loop that counts."""
        return {}

    async def start(self) -> None:
        async with self._turn:
            if self._unsubscribe is None:
                unsubscribe = await self._store.wakeups.subscribe(self.wake, self.topics)
                try:
                    await self.before_loops()
                except BaseException:
                    unsubscribe()
                    raise
                self._unsubscribe = unsubscribe
            await self._supervisor.start()

    async def stop(self) -> None:
        async with self._turn:
            if self._unsubscribe is not None:
                self._unsubscribe()
                self._unsubscribe = None
            await self._supervisor.stop()
            await self.after_loops()

    async def before_loops(self) -> None:  # noqa: B027 - most need nothing
        """Called once per start, after the subscription and before any loop runs."""

    async def after_loops(self) -> None:  # noqa: B027 - most hold nothing
        """Give back what the loops hold in the store. Called by every stop."""

    @abstractmethod
    def wake(self, wakeup: Wakeup) -> None:
        """Wake the loops that this wakeup concerns. Called on the event loop's thread."""
