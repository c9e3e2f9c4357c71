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
        self._on_loss: list[Callable[[], None]] = []

    def on_loss(self, call: Callable[[], None]) -> None:
        """Call this when a replica may have left jobs behind: there are fewer than before, or the
        lease of one has lapsed."""
        self._on_loss.append(call)

    def recount(self, count: int, *, lapsed: bool = False) -> None:
        """`lapsed` is told by each poll for as long as the dead replica is on the list, so a sweep
        that must not take its jobs back yet is repeated."""
        fewer, self.count = count < self.count, count
        if (fewer or lapsed) and self.chosen():
            for call in self._on_loss:
                call()

    def stretched(self, interval: float) -> float:
        """How long one replica waits between two sweeps, so that a fleet of n sweeps √n times per
        interval instead of n times. The sweeps are spaced by chance, so one of e^√n intervals has
        no sweep."""
        return interval * sqrt(max(1, self.count))

    def chosen(self) -> bool:
        """Whether this replica is among the few that act on a wakeup that all of them heard."""
        return random.random() * self.count < CHOSEN_REPLICAS
