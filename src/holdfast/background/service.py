"""What runs in the background of a worker, as its starter and its supervisor see it.

A `Service` is what a worker is given: it knows how to begin and how to end. A
`Loop` is what a `Supervisor` keeps alive: it runs until told to stop, and if it
ends before that, something is wrong with it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Service(Protocol):
    """Something with a beginning and an end; both are safe to ask for twice."""

    @property
    def name(self) -> str: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Loop(Protocol):
    """Something that goes on until `stop` is set.

    The event is given to each run rather than kept by the loop, so a stop that
    comes before the first step of the run is seen by it all the same.
    """

    @property
    def name(self) -> str: ...

    async def run(self, stop: asyncio.Event) -> None: ...
