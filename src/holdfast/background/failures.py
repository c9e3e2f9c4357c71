"""Remembers which items a sweep cannot mend, so that none blocks or floods it.

An item that fails three times running is left alone for ten cycles, then tried
again: if it fails once more it rests again, if it succeeds it is forgotten.
Memory is bounded: what was not seen to fail for long is dropped, and so is the
oldest failure when there are too many. Forgetting early only costs a retry.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(slots=True)
class _Record:
    running: int
    failed_in: int


class FailureTracker:
    """Counts failures in a row by item, in cycles of one sweep each."""

    def __init__(self, *, strikes: int = 3, rest: int = 10, capacity: int = 10_000) -> None:
        self._strikes = strikes
        self._rest = rest
        self._capacity = capacity
        self._cycle = 0
        # By the time of the last failure, oldest first.
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def begin_cycle(self) -> None:
        self._cycle += 1
        self._forget_the_vanished()

    def skips(self, item: str) -> bool:
        """Whether the item is resting in this cycle."""
        record = self._records.get(item)
        if record is None or record.running < self._strikes:
            return False
        return 0 < self._cycle - record.failed_in <= self._rest

    def failed(self, item: str) -> bool:
        """Count a failure; True if the item now rests."""
        record = self._records.pop(item, None) or _Record(0, 0)
        record.running += 1
        record.failed_in = self._cycle
        self._records[item] = record
        if len(self._records) > self._capacity:
            self._records.popitem(last=False)
        return record.running >= self._strikes

    def succeeded(self, item: str) -> None:
        self._records.pop(item, None)

    def _forget_the_vanished(self) -> None:
        """An item still there is tried again after its rest at the latest; one that was
        not has been mended by somebody else."""
        oldest = self._cycle - 2 * self._rest - 1
        while self._records and next(iter(self._records.values())).failed_in < oldest:
            self._records.popitem(last=False)
