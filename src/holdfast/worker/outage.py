"""Whether the store does what it is asked. Said once when it stops and once when it is back.

Any error but a refused row counts: a login that is being rotated, a grant that is missing, a table
that is being restored. The worker can do nothing about it, and what it holds is still good later.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from contextlib import suppress

from holdfast.events import Events
from holdfast.handlers.ends import describe

FIRST_WAIT = 0.05
LONGEST_WAIT = 5.0


class Outage:
    """Shared by all that talk to the store on the worker's loop.

    It lasts until everybody who was refused has been answered, so that one verb which fails
    among others that work does not make it begin and end again and again.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._since: float | None = None
        self._cut_off: set[str] = set()
        self.reason = ""
        self._tries = 0
        self._back = asyncio.Event()
        self.last_answer = time.monotonic()

    def answered(self, who: str = "", *, asked_at: float = math.inf) -> None:
        """`asked_at`: when the question was sent. What was on its way as the outage began says
        nothing about its end."""
        self.last_answer = time.monotonic()
        if self._since is None or asked_at <= self._since:
            return
        self._cut_off.discard(who)
        if not self._cut_off:
            seconds = round(self.last_answer - self._since, 3)
            self._since, self._tries, self.reason = None, 0, ""
            self._back.set()
            self._back = asyncio.Event()
            self._events.info("worker.store_back", after=seconds)

    def failed(self, error: Exception, who: str = "") -> None:
        self._tries += 1
        self._cut_off.add(who)
        self.reason = describe(error)
        if self._since is None:
            self._since = time.monotonic()
            self._events.warning("worker.store_unavailable", error=self.reason)

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
