"""Tells the store of the limits of this program's code, when a worker starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.background.counters import LoopCounters
from holdfast.background.options import ReconcileOptions
from holdfast.background.service import Loop
from holdfast.events import Events
from holdfast.limits.definition import Limit
from holdfast.store.contract.store import Store


class LimitService:
    """It has nothing to do while the worker runs: what is changed after that is the operators'."""

    name = "limits"
    loops: Sequence[Loop] = ()

    def __init__(
        self, store: Store, events: Events, declared: Mapping[str, Limit], options: ReconcileOptions
    ) -> None:
        self._store = store
        self._declared = declared

    @property
    def counters(self) -> Mapping[str, LoopCounters]:
        return {}

    async def start(self) -> None:
        await self.run_once()

    async def stop(self) -> None:
        """Nothing runs."""

    async def run_once(self) -> None:
        limits = {name: limit.settings for name, limit in self._declared.items()}
        await self._store.limits.declare(limits)
