"""Whether a worker of a large fleet hears of single jobs, or dozes and leaves them to others.

A wakeup that all workers read costs a large fleet more than the job does. So of many replicas a
few stay awake, chosen by chance, and the others doze until their next poll. A worker that got a
job stays awake: it may be the only one that could get it, because the others are busy or serve
other queues. A worker that woke up for a job and got none draws again. A small fleet never dozes,
and neither do the workers of a queue that only a few serve.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable

from holdfast.background.replicas import CHOSEN_REPLICAS, Replicas
from holdfast.store.contract.workers import WorkerInfo

POLLS_PER_DRAW = 5
"""A worker without a job draws again after so many polls, on average."""


class Watch:
    """Decides whether this worker dozes. `doze` is called when that changes."""

    def __init__(
        self,
        replicas: Replicas,
        queues: Collection[str],
        doze: Callable[[bool], None],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._replicas = replicas
        self._queues = queues
        self._doze = doze
        self._chance = chance
        self._peers: int | None = None
        self._won = False
        self.dozes = False

    @property
    def is_crowd(self) -> bool:
        return self._replicas.count > CHOSEN_REPLICAS

    def recount(self, workers: Iterable[WorkerInfo]) -> None:
        """Count the live workers of each queue of this worker, and keep the smallest number."""
        serving = dict.fromkeys(self._queues, 0)
        for worker in workers:
            for queue in serving if worker.available else ():
                serving[queue] += worker.serves(queue)
        self._peers = min(serving.values(), default=0)

    def polled(self) -> None:
        if not self.is_crowd:
            self._turn(False)
        elif not self._won and self._chance() * POLLS_PER_DRAW < 1:
            self._draw()

    def won(self) -> None:
        self._won = True
        self._turn(False)

    def lost(self) -> None:
        self._won = False
        self._draw()

    def _draw(self) -> None:
        peers = self._replicas.count if self._peers is None else self._peers
        self._turn(self._chance() * min(peers, self._replicas.count) >= CHOSEN_REPLICAS)

    def _turn(self, dozes: bool) -> None:
        if dozes != self.dozes:
            self.dozes = dozes
            self._doze(dozes)
