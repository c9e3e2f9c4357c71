"""Works in a worker on operations that nobody else works on.

The loop asks the store nothing by itself: a poll of the worker says whether an operation is to run,
which every poll answers anyway. Only then are operations read, and their roles asked for. As long
as another holds the role of an operation, that is done every `LOOK_SECONDS` by a few replicas.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.background.backoff import pause
from holdfast.background.options import ReconcileOptions
from holdfast.background.replicas import Replicas
from holdfast.background.woken_service import WokenService
from holdfast.events import Events
from holdfast.store.contract.operations import OperationId
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup

if TYPE_CHECKING:
    from holdfast.operations.runner import OperationRunner

IDLE_SECONDS = 3600.0
"""Nothing happens when it is over."""
LOOK_SECONDS = 2.0
MOST_AT_WORK = 4
"""Operations that one worker works on at the same time: a slow one must not hold up the others."""


class OperationLoop:
    """Begins to work on operations whenever it is woken."""

    name = "operations"

    def __init__(self, store: Store, events: Events, options: ReconcileOptions) -> None:
        self._store = store
        self._events = events
        self._owner = options.owner
        self._woken = asyncio.Event()
        self._legs: dict[OperationId, asyncio.Task[None]] = {}

    @cached_property
    def _runner(self) -> OperationRunner:
        from holdfast.operations.runner import (
            OperationRunner,  # most workers never see an operation
        )

        return OperationRunner(self._store, self._events, self._owner)

    def wake(self) -> None:
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                await pause(IDLE_SECONDS, stop, self._woken)
                if self._woken.is_set() and not stop.is_set():
                    self._woken.clear()
                    await self._look(stop)
                    await pause(LOOK_SECONDS, stop)
        finally:
            if self._legs:
                await asyncio.wait(self._legs.values())

    async def run_once(self) -> int:
        """Work on all operations that run, one after the other; answers how many."""
        running = await self._runner.running()
        for operation_id in running:
            await self._runner.work(operation_id)
        return len(running)

    async def _look(self, stop: asyncio.Event) -> None:
        for operation_id in await self._runner.running():
            if operation_id not in self._legs and len(self._legs) < MOST_AT_WORK:
                leg = asyncio.create_task(self._leg(operation_id, stop))
                self._legs[operation_id] = leg

    async def _leg(self, operation_id: OperationId, stop: asyncio.Event) -> None:
        try:
            await self._runner.work(operation_id, stop)
        except Exception as error:  # noqa: BLE001 - reported; the next poll wakes the loop again
            self._events.warning("operation.leg_failed", operation=operation_id, error=repr(error))
        finally:
            del self._legs[operation_id]


class OperationService(WokenService):
    """Runs the loop, and wakes it when a poll says that an operation is to run."""

    name = "operations"
    topics = frozenset({Topic.OPERATIONS})

    def __init__(
        self,
        store: Store,
        events: Events,
        options: ReconcileOptions | None = None,
        *,
        replicas: Replicas | None = None,
    ) -> None:
        options, self._replicas = options or ReconcileOptions(), replicas or Replicas()
        self._loop = OperationLoop(store, events, options)
        super().__init__(store, events, [self._loop], grace=options.grace)

    async def run_once(self) -> int:
        return await self._loop.run_once()

    def wake(self, wakeup: Wakeup) -> None:
        if self._replicas.chosen():
            self._loop.wake()
