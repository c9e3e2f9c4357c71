"""When time opens a limit that holds jobs up.

No commit tells of that, so the fetcher asks the store after its claims, and claims again then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from holdfast.errors import StoreUnavailable
from holdfast.worker.setup import WorkerSetup

SOONEST_SECONDS = 0.005


class Openings:
    """`matter`: whether limits may hold jobs up here; None while that is not known. `on_open` is
    called when a limit has opened."""

    def __init__(self, setup: WorkerSetup, on_open: Callable[[], None]) -> None:
        self._store = setup.store
        self._on_open = on_open
        self._timer: asyncio.TimerHandle | None = None
        self.matter: bool | None = None

    async def expect(self, queues: Collection[str]) -> None:
        """Find out when a limit opens for these queues. First, the store tells whether it has
        limits at all: a worker may come while all jobs wait for one."""
        try:
            if self.matter is None:
                self.matter = bool(await self._store.limits.find())
            if not self.matter:
                return
            opens_in = await self._store.limits.opens_in(queues)
        except StoreUnavailable:  # the next claim tells of it, and polls look again
            return
        self.close()
        if opens_in is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(opens_in, SOONEST_SECONDS), self._on_open)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
