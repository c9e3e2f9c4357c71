"""How loops wait: until a time or an event, and longer after each failure."""

from __future__ import annotations

import asyncio

FIRST_ERROR_SECONDS, LONGEST_ERROR_SECONDS = 0.25, 5.0
"""How long a loop waits after a tick that failed: at first, and at most."""


async def pause(seconds: float, *events: asyncio.Event) -> None:
    """Wait this long, or until one of the events is set, whichever comes first."""
    if seconds <= 0 or any(event.is_set() for event in events):
        return
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def jittered(seconds: float) -> float:
    """From half of a wait to all of it, at random, so that replicas do not try in step."""
    import random  # most programs never wait after a failure

    return seconds * random.uniform(0.5, 1.0)


class Backoff:
    """A wait that doubles with each failure up to a cap, and starts over after a success.

    >>> backoff = Backoff(first=0.5, cap=3.0)
    >>> [backoff.next() for _ in range(4)]
    [0.5, 1.0, 2.0, 3.0]
    """

    def __init__(self, *, first: float, cap: float) -> None:
        self._first = first
        self._cap = cap
        self._wait = first

    def next(self) -> float:
        wait = min(self._wait, self._cap)
        self._wait = wait * 2
        return wait

    def reset(self) -> None:
        self._wait = self._first
