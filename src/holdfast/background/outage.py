"""Whether the store does what it is asked: one event when it stops, and one when it is back.

Any error but a refused row counts: a login that is being rotated, a grant that is missing, a table
that is being restored. Nobody here can do anything about it, and what they hold is good later.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress

from holdfast.events import Events
from holdfast.job.text import describe

FIRST_WAIT = 0.05
LONGEST_WAIT = 5.0


class Outage:
    """Shared by the verbs of a worker, or by the reconcilers of a process (`of`).

    An outage starts when the first of them fails and ends when each that failed has succeeded
    again: on a full disk reads go on while writes fail, and one does not speak for the other.
    """

    def __init__(self, events: Events, of: str = "worker") -> None:
        self._events = events
        self._of = of
        self._since: float | None = None
        self._cut_off: set[str] = set()
        self.reason = ""
        self._tries = 0
        self._back = asyncio.Event()
        self.last_answer = time.monotonic()

    def answered(self, name: str) -> None:
        self.last_answer = time.monotonic()
        self.over(name)

    def over(self, name: str) -> None:
        """It was answered, or is not asked any more. Who waits for another verb tries it now."""
        if name not in self._cut_off:
            return
        self._cut_off.remove(name)
        self._back.set()
        self._back = asyncio.Event()
        if not self._cut_off and self._since is not None:
            seconds = round(time.monotonic() - self._since, 3)
            self._since, self._tries, self.reason = None, 0, ""
            self._events.info(f"{self._of}.store_back", seconds=seconds)

    def failed(self, name: str, error: Exception) -> None:
        self._tries += 1
        self._cut_off.add(name)
        self.reason = describe(error)
        if self._since is None:
            self._since = time.monotonic()
            self._events.warning(f"{self._of}.store_unavailable", failed=name, error=self.reason)

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
