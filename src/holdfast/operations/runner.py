"""Works on operations, each for as long as it holds the operation's role."""

from __future__ import annotations

import asyncio

from holdfast.background.leader import Leadership
from holdfast.events import Events
from holdfast.job.ids import WorkerId
from holdfast.operations.leg import Leg, OnOperation
from holdfast.operations.pages import MatchingPages, Pages, filter_of, is_readable, row_of, value_of
from holdfast.operations.undoing import UndonePages
from holdfast.store.contract.operations import Operation, OperationId, OperationState
from holdfast.store.contract.store import Store

LEAD_SECONDS = 10.0
"""How long a runner is waited for that has died."""


def _nobody(operation: Operation) -> None:
    """Nobody watches."""


class OperationRunner:
    """Works on operations of one store under one name."""

    def __init__(self, store: Store, events: Events, owner: WorkerId) -> None:
        self._store = store
        self._events = events
        self._owner = owner

    async def running(self) -> list[OperationId]:
        """What is to be worked on, oldest first. What only a newer release can read is left to its
        workers."""
        found = await self._store.operations.find(states=[OperationState.RUNNING])
        return [operation.id for operation in found[::-1] if is_readable(operation.request)]

    async def work(
        self,
        operation_id: OperationId,
        stop: asyncio.Event | None = None,
        on_move: OnOperation = _nobody,
    ) -> Operation | None:
        """Work on an operation until it no longer runs, or `stop` is set, or another has its
        role. Answers how it stands; None if there is no such operation."""
        leadership = Leadership(
            self._store, self._events, f"operation:{operation_id}", self._owner, ttl=LEAD_SECONDS
        )
        try:
            if not await leadership.ensure():
                return await self._read(operation_id)
            operation = await self._read(operation_id)
            if operation is None or operation.state is not OperationState.RUNNING:
                return operation
            leg = await self._leg(operation, leadership, stop or asyncio.Event(), on_move)
            return await leg.run()
        finally:
            await leadership.resign()

    async def settle(self, operation: Operation) -> Operation:
        """Find out which jobs of the page in hand were changed, and change no other. For an
        operation that was stopped, or whose runner died, before it is undone."""
        if operation.hand is None:
            return operation
        leadership = Leadership(
            self._store, self._events, f"operation:{operation.id}", self._owner, ttl=LEAD_SECONDS
        )
        try:
            if await leadership.ensure():
                leg = await self._leg(operation, leadership, asyncio.Event(), _nobody)
                await leg.take_over(change=False)
                return leg.operation
            return operation
        finally:
            await leadership.resign()

    async def _read(self, operation_id: OperationId) -> Operation | None:
        found = await self._store.operations.find([operation_id])
        return found[0] if found else None

    async def _leg(
        self,
        operation: Operation,
        leadership: Leadership,
        stop: asyncio.Event,
        on_move: OnOperation,
    ) -> Leg:
        request = operation.request
        pages: Pages
        if request.undoes is None:
            row, value = row_of(request), value_of(request)
            pages = MatchingPages(self._store, row, filter_of(request), value)
        else:
            [undone] = await self._store.operations.find([request.undoes])
            pages = UndonePages(self._store, undone)
        return Leg(self._store, self._events, operation, pages, leadership, stop, on_move)
