"""How replicas share work that any one of them could do alone.

No replica is elected or given orders. Each knows about how many there are, and does its part by
chance. Chance may choose no replica at all, so everything decided here is repeated by a poll.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import sqrt

CHOSEN_REPLICAS = 8
"""How many replicas act on average where one would be enough: with eight, nobody acts in one of
three thousand cases."""


class Replicas:
    """About how many replicas there are. The worker's polls keep the count; before the first poll
    a worker takes itself for the only one."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._on_fewer: list[Callable[[], None]] = []

    def on_fewer(self, call: Callable[[], None]) -> None:
        """Call this when there are fewer replicas than before: a dead one left jobs behind."""
        self._on_fewer.append(call)

    def recount(self, count: int) -> None:
        fewer, self.count = count < self.count, count
        if fewer and self.chosen():
            for call in self._on_fewer:
                call()

    def stretched(self, interval: float) -> float:
        """How long one replica waits between two sweeps, so that a fleet of n sweeps √n times per
        interval instead of n times. The sweeps are spaced by chance, so one of e^√n intervals has
        no sweep."""
        return interval * sqrt(max(1, self.count))

    def chosen(self) -> bool:
        """Whether this replica is among the few that act on a wakeup that all of them heard."""
        return random.random() * self.count < CHOSEN_REPLICAS
