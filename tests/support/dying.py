"""A store through which a replica dies: at a write of the ledger, before it or right after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.schedule.model import Plan
from holdfast.store.contract.store import Store


class Dying:
    """Everything as the store does it, but for `record`.

    `verdict()` says before each write what happens to the replica: None lets it live, "before"
    and "after" end it at that side of the write. To the replica it is a cancellation: nothing of
    it goes on. To the others it is a death, with the write done or not.
    """

    def __init__(self, store: Store, verdict: Callable[[], str | None]) -> None:
        self._store = store
        self.schedules: Any = _DyingSchedules(store, verdict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _DyingSchedules:
    def __init__(self, store: Store, verdict: Callable[[], str | None]) -> None:
        self._schedules = store.schedules
        self._verdict = verdict

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedules, name)

    async def record(self, plans: Sequence[Plan]) -> list[bool]:
        side = self._verdict()
        if side == "before":
            raise asyncio.CancelledError
        answer = await self._schedules.record(plans)
        if side == "after":
            raise asyncio.CancelledError
        return answer
