"""Whether the store answers. Said once when it stops and once when it is back."""

from __future__ import annotations

import asyncio
import math
import random
import time
from contextlib import suppress

from holdfast.events import Events

FIRST_WAIT = 0.05
LONGEST_WAIT = 5.0


class Outage:
    """Shared by all that talk to the store on the worker's loop."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._since: float | None = None
        self._tries = 0
        self._back = asyncio.Event()
        self.last_answer = time.monotonic()

    def answered(self, asked: float = math.inf) -> None:
        """`asked`: when the question was sent. What was on its way as the outage began says
        nothing about its end."""
        self.last_answer = time.monotonic()
        if self._since is not None and asked > self._since:
            seconds = round(self.last_answer - self._since, 3)
            self._since, self._tries = None, 0
            self._back.set()
            self._back = asyncio.Event()
            self._events.info("worker.store_back", after=seconds)

    def failed(self, error: Exception) -> None:
        self._tries += 1
        if self._since is None:
            self._since = time.monotonic()
            self._events.warning("worker.store_unavailable", error=str(error) or repr(error))

    def wait(self) -> float:
        """Seconds until the next try: longer each time, and never the same for two workers."""
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self._tries, 10))
        return longest * random.uniform(0.5, 1.0)

    async def pause(self) -> None:
        """Until the next try is due, or until another's try was answered: then all may go on."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.wait()):
                await self._back.wait()

    @property
    def lasted(self) -> float:
        return 0.0 if self._since is None else time.monotonic() - self._since
