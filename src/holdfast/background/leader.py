"""Leadership of a role: one replica does what it can do for all, and the others save that work.

It is a lease row in the store, never a session lock. Nothing may depend on it for correctness: two
leaders at once must be harmless, only wasteful. `ensure` extends the lease when a third of its ttl
has passed. A replica gives leadership up when in doubt: when a call fails, or when more local time
than the ttl has passed since the last success.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.job.ids import WorkerId
from holdfast.store.contract.store import Store


class Leadership:
    """One candidate for one role."""

    def __init__(
        self,
        store: Store,
        events: Events,
        role: str,
        candidate: WorkerId,
        *,
        ttl: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.role = role
        self._store = store
        self._events = events
        self._candidate = candidate
        self._ttl = ttl
        self._monotonic = monotonic
        self._since: float | None = None
        self._turn = asyncio.Lock()

    @property
    def held(self) -> bool:
        """Whether this candidate leads beyond doubt at this moment."""
        return self._age() < self._ttl

    async def ensure(self) -> bool:
        """Take the role, or extend it when a third of its ttl has passed; returns whether it is
        held."""
        async with self._turn:
            if self._age() >= self._ttl / 3:
                await self._ask()
            return self.held

    async def resign(self) -> None:
        """Let another candidate take the role at once instead of after the ttl. If the store is
        away, the ttl ends the lead."""
        async with self._turn:
            if self._since is None:
                return
            self._set(None)
            try:
                await self._store.workers.stop_leading(self.role, self._candidate)
            except StoreUnavailable as error:
                self._events.debug("leader.resign_failed", role=self.role, error=str(error))

    async def _ask(self) -> None:
        # The store counts the ttl from a moment after the call began. Counting from before the
        # call makes this side doubt before the store gives the role to another.
        asked = self._monotonic()
        granted = False
        try:
            granted = await self._store.workers.lead(self.role, self._candidate, self._ttl)
        finally:
            self._set(asked if granted else None)

    def _set(self, since: float | None) -> None:
        if (since is None) != (self._since is None):
            name = "leader.stepped_down" if since is None else "leader.elected"
            self._events.debug(name, role=self.role, worker=self._candidate)
        self._since = since

    def _age(self) -> float:
        return float("inf") if self._since is None else self._monotonic() - self._since
