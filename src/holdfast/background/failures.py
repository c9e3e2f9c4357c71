"""Remembers which items a sweep cannot mend, so that no item blocks the sweep or floods the log.

An item that fails three times in a row rests for ten cycles and is then tried again. If it fails
once more it rests again, if it succeeds it is forgotten. Memory is bounded: an item that has not
failed for long is forgotten, and so is the oldest failure when there are too many. Forgetting an
item early only costs a retry.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec


class _Record(msgspec.Struct):
    in_a_row: int
    failed_in: int  # the cycle of the last failure


class FailureTracker:
    """Counts the failures in a row of each item. A cycle is one sweep."""

    def __init__(self, *, strikes: int = 3, rest: int = 10, capacity: int = 10_000) -> None:
        self._strikes = strikes
        self._rest = rest
        self._capacity = capacity
        self._cycle = 0
        # In order of the last failure, oldest first.
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def begin_cycle(self) -> None:
        self._cycle += 1
        self._forget_old_failures()

    def skips(self, item: str) -> bool:
        """Whether the item is resting in this cycle."""
        record = self._records.get(item)
        if record is None or record.in_a_row < self._strikes:
            return False
        return 0 < self._cycle - record.failed_in <= self._rest

    def failed(self, item: str) -> bool:
        """Count a failure; returns whether the item now rests."""
        record = self._records.pop(item, None) or _Record(0, 0)
        record.in_a_row += 1
        record.failed_in = self._cycle
        self._records[item] = record
        if len(self._records) > self._capacity:
            self._records.popitem(last=False)
        return record.in_a_row >= self._strikes

    def succeeded(self, item: str) -> None:
        self._records.pop(item, None)

    def _forget_old_failures(self) -> None:
        """An item that still exists is retried when its rest ends. If it has not failed for two
        rests, another replica mended it, so we forget it."""
        oldest = self._cycle - 2 * self._rest - 1
        while self._records and next(iter(self._records.values())).failed_in < oldest:
            self._records.popitem(last=False)
