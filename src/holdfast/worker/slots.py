"""Room for running jobs, counted per queue. A permit is taken before a job is claimed for it."""

from __future__ import annotations

from collections.abc import Mapping


class Slots:
    """How many more jobs each queue may run."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.free = dict(sizes)

    def take(self, queue: str, count: int) -> None:
        self.free[queue] -= count

    def give(self, queue: str, count: int = 1) -> None:
        self.free[queue] += count

    @property
    def taken(self) -> int:
        return sum(self.sizes.values()) - sum(self.free.values())
