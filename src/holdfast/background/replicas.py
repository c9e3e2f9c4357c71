"""How replicas share what any one of them could do alone.

Nobody is told off or elected: each replica knows about how many there are and does its part by
chance. Chance may leave a moment to nobody, so a poll stands behind all that is decided here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import sqrt

FEW = 8
"""Replicas that should act where one would do: none does in one of three thousand cases."""


class Replicas:
    """Kept by the worker's polls; until the first of them a worker counts as alone."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._on_fewer: list[Callable[[], None]] = []

    def on_fewer(self, call: Callable[[], None]) -> None:
        """Call this when replicas are gone: who died has left jobs behind."""
        self._on_fewer.append(call)

    def recount(self, count: int) -> None:
        fewer, self.count = count < self.count, count
        if fewer and self.chosen():
            for call in self._on_fewer:
                call()

    def stretched(self, interval: float) -> float:
        """How long one replica waits between two sweeps, so that the fleet of n sweeps √n
        times an interval instead of n times. With chance alone to space them, that leaves an
        interval without a sweep once in e^√n."""
        return interval * sqrt(max(1, self.count))

    def chosen(self) -> bool:
        """Whether this one is among the few that look at what all were told of."""
        return random.random() * self.count < FEW
