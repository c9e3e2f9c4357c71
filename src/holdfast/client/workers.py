"""The verbs on workers: `client.workers.all()`."""

from __future__ import annotations

from holdfast.store.contract.records import WorkerInfo
from holdfast.store.contract.store import Store


class WorkerVerbs:
    """Read who is working."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def all(self) -> list[WorkerInfo]:
        """Every registered worker, oldest first. A lapsed worker is listed until it is swept."""
        return await self._store.workers.find()
