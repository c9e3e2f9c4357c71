"""What runs in the background of a worker, as the worker and the supervisor see it.

A worker starts and stops a `Service`. A `Supervisor` keeps a `Loop` alive: the loop runs until it
is told to stop, and if it ends before that, something is wrong with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from holdfast.background.counters import LoopCounters


class Service(Protocol):
    """Something that starts and stops. Both may be called twice."""

    @property
    def name(self) -> str: ...

    @property
    def counters(self) -> Mapping[str, LoopCounters]:
        """What its loops have counted, by the name of each loop that counts."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Loop(Protocol):
    """Something that goes on until `stop` is set.

    The event is passed to each run rather than kept by the loop, so that a run also sees a stop
    that came before its first step.
    """

    @property
    def name(self) -> str: ...

    async def run(self, stop: asyncio.Event) -> None: ...
