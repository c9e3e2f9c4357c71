"""Who listens to the wakeups of a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup

PATIENCE = 10.0


class Ear:
    """Remembers what it heard, and waits for what it has not heard yet."""

    def __init__(self) -> None:
        self.heard: list[Wakeup] = []
        self._changed = asyncio.Event()

    def __call__(self, wakeup: Wakeup) -> None:
        asyncio.get_running_loop()  # raises unless we are called on a loop
        self.heard.append(wakeup)
        self._changed.set()

    async def hears(self, topic: Topic, name: str = "") -> bool:
        async with asyncio.timeout(PATIENCE):
            while not any(one.topic is topic and one.name in (name, "") for one in self.heard):
                self._changed.clear()
                await self._changed.wait()
        return True


@asynccontextmanager
async def listening(store: Store) -> AsyncIterator[Ear]:
    ear = Ear()
    unsubscribe = await store.wakeups.subscribe(ear)
    ear.heard.clear()  # what is said at the start (look at everything) is not what we test
    try:
        yield ear
    finally:
        unsubscribe()
