"""Whether the store does what it is asked. Said once when it stops and once when it is back.

Any error but a refused row counts: a login that is being rotated, a grant that is missing, a table
that is being restored. The worker can do nothing about it, and what it holds is still good later.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress

from holdfast.events import Events
from holdfast.handlers.ends import describe

FIRST_WAIT = 0.05
LONGEST_WAIT = 5.0


class Outage:
    """Shared by all that talk to the store on the worker's loop.

    It lasts from the first verb that failed until every verb that failed has been answered
    again: on a full disk reads go on while writes fail, and one does not speak for the other.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._since: float | None = None
        self._cut_off: set[str] = set()
        self.reason = ""
        self._tries = 0
        self._back = asyncio.Event()
        self.last_answer = time.monotonic()

    def answered(self, verb: str) -> None:
        self.last_answer = time.monotonic()
        self.over(verb)

    def over(self, verb: str) -> None:
        """Answered, or not asked any more. Whoever waits for another verb tries it now."""
        if verb not in self._cut_off:
            return
        self._cut_off.remove(verb)
        self._back.set()
        self._back = asyncio.Event()
        if not self._cut_off and self._since is not None:
            seconds = round(time.monotonic() - self._since, 3)
            self._since, self._tries, self.reason = None, 0, ""
            self._events.info("worker.store_back", after=seconds)

    def failed(self, verb: str, error: Exception) -> None:
        self._tries += 1
        self._cut_off.add(verb)
        self.reason = describe(error)
        if self._since is None:
            self._since = time.monotonic()
            self._events.warning("worker.store_unavailable", verb=verb, error=self.reason)

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
