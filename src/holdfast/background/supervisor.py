"""Keeps background loops alive, and ends them together.

A loop that dies (it raised, or returned without being asked) is reported and started again, after a
wait that doubles each time it dies soon after its start. At shutdown every loop is told to stop at
the same moment, so no loop takes on work while another winds down. Loops that do not stop within
the grace are cancelled and named.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from holdfast.background.backoff import Backoff, pause
from holdfast.background.service import Loop
from holdfast.events import Events

CANCEL_GRACE_SECONDS = 1.0
"""How long a cancelled loop has to unwind before it is left behind."""


class Supervisor:
    """A Service that runs loops.

    `restarts` counts the deaths of each loop since the supervisor was made. `stragglers` names the
    loops that the last stop had to cancel.
    """

    def __init__(
        self,
        loops: Sequence[Loop],
        events: Events,
        *,
        name: str = "supervisor",
        grace: float = 10.0,
        first_restart: float = 0.1,
        longest_restart: float = 30.0,
    ) -> None:
        self.name = name
        self.restarts: Counter[str] = Counter()
        self.stragglers: tuple[str, ...] = ()
        self._loops = tuple(loops)
        self._events = events
        self._grace = grace
        self._first_restart = first_restart
        self._longest_restart = longest_restart
        self._stop = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        async with self._turn:
            if self._tasks:
                return
            self._stop = asyncio.Event()
            self.stragglers = ()
            for loop in self._loops:
                task = asyncio.create_task(
                    self._keep(loop, self._stop), name=f"holdfast-{loop.name}"
                )
                self._tasks[task] = loop.name

    async def stop(self) -> None:
        self._stop.set()
        async with self._turn:
            if not self._tasks:
                return
            try:
                _, late = await asyncio.wait(self._tasks, timeout=self._grace)
                await self._cancel(late)
            finally:
                # Also when this stop is itself cancelled: nothing may outlive its supervisor.
                for task in self._tasks:
                    task.cancel()
                self._tasks = {}

    async def _cancel(self, late: set[asyncio.Task[None]]) -> None:
        if not late:
            return
        for task in late:
            task.cancel()
        _, deaf = await asyncio.wait(late, timeout=CANCEL_GRACE_SECONDS)
        self.stragglers = tuple(sorted(self._tasks[task] for task in late))
        self._events.error(
            "supervisor.did_not_stop",
            supervisor=self.name,
            grace=self._grace,
            cancelled=self.stragglers,
            still_running=tuple(sorted(self._tasks[task] for task in deaf)),
        )

    async def _keep(self, loop: Loop, stop: asyncio.Event) -> None:
        backoff = Backoff(first=self._first_restart, cap=self._longest_restart)
        while not stop.is_set():
            started = time.monotonic()
            cause = await _cause_of_death(loop, stop)
            if cause is None:
                return
            if time.monotonic() - started > 2 * self._longest_restart:
                backoff.reset()
            self.restarts[loop.name] += 1
            wait = backoff.next()
            self._events.error("service.died", service=loop.name, error=cause, restart_in=wait)
            await pause(wait, stop)


async def _cause_of_death(loop: Loop, stop: asyncio.Event) -> str | None:
    """Run the loop to its end; None if it was asked to end."""
    try:
        await loop.run(stop)
    except asyncio.CancelledError:
        # A cancellation of this task is obeyed. A cancellation that leaked from something the loop
        # awaited would otherwise end the loop without a word.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return "CancelledError: something it awaited was cancelled"
    except Exception as error:  # noqa: BLE001 - whatever killed it is reported by the caller
        return f"{type(error).__name__}: {error}"
    return None if stop.is_set() else "returned without being asked to stop"
