"""Outages of the store: one event when the store stops answering, and one when it is back.

Every error but a refused row counts: a login that is being rotated, a grant that is missing, a
table that is being restored. The caller can do nothing about it but try again, and what it wants to
write is still good then.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from holdfast.background.backoff import Backoff, jittered
from holdfast.events import Events
from holdfast.job.text import describe

FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 2.0
"""A store that is back is used again within this time, however long it was away."""


class Outage:
    """Shared by the verbs of a worker, or by the reconcilers of a process (`of`).

    An outage starts when the first of them fails to reach the store, and ends when each of them
    that failed has succeeded again. One failing verb among working ones therefore does not log
    start and end over and over: on a full disk reads go on while writes fail. A verb is repeated
    after `longest` seconds at the latest.
    """

    def __init__(
        self, events: Events, of: str = "worker", longest: float = LONGEST_WAIT_SECONDS
    ) -> None:
        self._events = events
        self._of = of
        self._since: float | None = None
        self._cut_off: set[str] = set()
        self.reason = ""
        self._backoff = Backoff(first=FIRST_WAIT_SECONDS, cap=longest)
        self._wait = self._backoff.next()
        self._back = asyncio.Event()

    def over(self, name: str) -> None:
        """The verb was answered, or nobody asks for it any more. Callers that wait to repeat
        another verb try it now."""
        if name not in self._cut_off:
            return
        self._cut_off.remove(name)
        self._back.set()
        self._back = asyncio.Event()
        if not self._cut_off and self._since is not None:
            seconds = round(time.monotonic() - self._since, 3)
            self._since, self.reason = None, ""
            self._backoff.reset()
            self._wait = self._backoff.next()
            self._events.info(f"{self._of}.store_back", seconds=seconds)

    def failed(self, name: str, error: Exception) -> None:
        self._wait = self._backoff.next()
        self._cut_off.add(name)
        self.reason = describe(error)
        if self._since is None:
            self._since = time.monotonic()
            self._events.warning(f"{self._of}.store_unavailable", failed=name, error=self.reason)

    def wait(self) -> float:
        """Seconds until the next try: longer after each failure, and different for each worker."""
        return jittered(self._wait)

    async def pause(self) -> None:
        """Wait until the next try is due, or until the store answered another caller that had
        failed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.wait()):
                await self._back.wait()

    @property
    def lasted(self) -> float:
        """Seconds since the outage began; 0 if there is none."""
        return 0.0 if self._since is None else time.monotonic() - self._since
