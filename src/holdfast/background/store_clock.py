"""The store's clock, estimated between two readings of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from holdfast.store.contract.store import Store


class StoreClock:
    """Reads the store's time, and adds the local time that has passed since the last reading."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._read = datetime(1970, 1, 1, tzinfo=UTC), 0.0

    async def read(self) -> datetime:
        before = self._monotonic()
        now = await self._store.now()
        self._read = now, (before + self._monotonic()) / 2
        return now

    def heard(self, now: datetime) -> None:
        """Another answer of the store told its time just now."""
        self._read = now, self._monotonic()

    def estimate(self) -> datetime:
        now, read = self._read
        return now + timedelta(seconds=self._monotonic() - read)
