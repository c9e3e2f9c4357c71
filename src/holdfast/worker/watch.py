"""Whether a worker of a large fleet hears of single jobs, or dozes and leaves them to others.

A message that all read costs a large fleet more than the job does. So of many replicas a few stay
awake, by chance, and the others doze until their next poll. Who got a job stays awake: it may be
the only one that could, because the rest are busy or serve other queues. Who came too late draws
again. A small fleet never dozes, nor do the few that serve a queue.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable

from holdfast.background.replicas import CHOSEN_REPLICAS, Replicas
from holdfast.store.contract.records import WorkerInfo

SHIFT = 5
"""Polls after which one draws again, about."""


class Watch:
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
        """Learn how many serve the queue of ours that is served by the fewest."""
        serving = dict.fromkeys(self._queues, 0)
        for worker in workers:
            for queue in serving.keys() & worker.queues.keys():
                serving[queue] += worker.alive
        self._peers = min(serving.values(), default=0)

    def polled(self) -> None:
        if not self.is_crowd:
            self._turn(False)
        elif not self._won and self._chance() * SHIFT < 1:
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
