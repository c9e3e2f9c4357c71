"""How likely an idle worker looks when all idle workers hear of a few jobs.

One gets a job and the others have looked in vain, each for a third of a millisecond of its
processor. Nobody knows how many are idle, so each learns from its own looks: who got a job looks at
the next one, and who came too late grows lazy. The last winners are then awake for the next job
and the rest sleep until their polls. A small fleet never grows lazy.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from holdfast.reconcile.replicas import FEW, Replicas

AFTER_A_VAIN_LOOK = 0.7
"""What is left of the chance: after twenty vain looks it is what the size of the fleet allows."""


class Eagerness:
    """Of one worker for one queue."""

    def __init__(self, replicas: Replicas, chance: Callable[[], float] = random.random) -> None:
        self._replicas = replicas
        self._chance = chance
        self._learned = 1.0

    def looks(self, jobs: int) -> bool:
        """Whether to look for so many new jobs."""
        least = FEW / max(1, self._replicas.count)
        return self._chance() < max(self._learned, least) * jobs

    def won(self) -> None:
        self._learned = 1.0

    def lost(self) -> None:
        self._learned *= AFTER_A_VAIN_LOOK
