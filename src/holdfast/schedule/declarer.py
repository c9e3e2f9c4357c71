"""Declares the schedules of this program's code to the store, at the start and from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

from holdfast.background.backoff import pause
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.schedule.model import Definition
from holdfast.store.contract.store import Store

DECLARE_SECONDS = 600.0
"""The time between two declarations. They show which schedules are still in the code of a live
program."""


class Declarer:
    """A Loop that repeats the declaration. The first one is made by the service that runs it."""

    name = "declarer"

    def __init__(self, store: Store, events: Events, declared: Mapping[str, Definition]) -> None:
        self._store = store
        self._events = events
        self._declared = declared
        self._since: datetime | None = None

    async def declare(self) -> None:
        """Add what is absent and update what changed. `since` is when this program first declared:
        if programs differ, the store takes the definition of the program that first declared
        last."""
        self._since = self._since or await self._store.now()
        await self._store.schedules.declare(dict(self._declared), self._since)

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await pause(DECLARE_SECONDS, stop)
            if stop.is_set():
                return
            try:
                await self.declare()
            except StoreUnavailable as error:
                self._events.warning("schedule.declare_failed", error=str(error))
