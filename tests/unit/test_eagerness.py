"""Of many idle workers a few look for a single job, and a small fleet stays awake."""

from __future__ import annotations

import random

import pytest

from holdfast.reconcile.replicas import FEW, Replicas
from holdfast.worker.eagerness import Eagerness


class Crowd:
    """Idle workers of one queue that all hear of each job; one of those who look gets it."""

    def __init__(self, size: int, seed: int = 1) -> None:
        self.random = random.Random(seed)
        replicas = Replicas(size)
        self.workers = [Eagerness(replicas, self.random.random) for _ in range(size)]

    def hear_of(self, jobs: int = 1) -> int:
        """How many looked."""
        looking = [worker for worker in self.workers if worker.looks(jobs)]
        winners = self.random.sample(looking, min(jobs, len(looking)))
        for worker in looking:
            if worker in winners:
                worker.won()
            else:
                worker.lost()
        return len(looking)


def test_of_200_idle_workers_about_a_dozen_look_for_a_job() -> None:
    crowd = Crowd(200)
    learning = [crowd.hear_of() for _ in range(20)]
    looks = [crowd.hear_of() for _ in range(500)]
    assert learning[0] == 200
    assert sum(looks) / 500 < 16
    assert min(looks) >= 1, "nobody looked"


@pytest.mark.parametrize("size", [1, 2, FEW])
def test_all_of_a_small_fleet_look_every_time(size: int) -> None:
    crowd = Crowd(size)
    assert {crowd.hear_of() for _ in range(200)} == {size}


def test_all_look_when_there_is_enough_for_all() -> None:
    crowd = Crowd(200)
    for _ in range(100):
        crowd.hear_of()
    assert crowd.hear_of(jobs=200) == 200


def test_who_serves_a_queue_alone_in_a_large_fleet_looks_every_time() -> None:
    alone = Eagerness(Replicas(200), lambda: 0.999)
    for _ in range(50):
        assert alone.looks(1)
        alone.won()
    alone.lost()
    assert not alone.looks(1)
    alone.won()  # its poll found the job
    assert alone.looks(1)
