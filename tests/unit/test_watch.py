"""Of many idle workers a few hear of a single job, and a small fleet stays awake."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

import pytest

from holdfast.background.replicas import CHOSEN_REPLICAS, Replicas
from holdfast.job.ids import WorkerId
from holdfast.store.contract.workers import WorkerInfo
from holdfast.worker.watch import Watch


def serving(queue: str, count: int, expires_in: float = 10.0) -> list[WorkerInfo]:
    return [
        WorkerInfo(
            WorkerId(f"{queue}-{n}"),
            "a worker",
            "host",
            1,
            {queue: 1},
            (),
            "1",
            expires_in=expires_in,
        )
        for n in range(count)
    ]


def watch_of(
    replicas: int, queues: Collection[str] = ("mail",), chance: Callable[[], float] = random.random
) -> Watch:
    return Watch(Replicas(replicas), queues, lambda _: None, chance)


class Crowd:
    """Idle workers of one queue; one of those that hear of a job gets it."""

    def __init__(self, size: int, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.workers = [watch_of(size, chance=self.random.random) for _ in range(size)]

    def poll(self, times: int = 1) -> None:
        for _ in range(times):
            for worker in self.workers:
                worker.polled()

    def hear_of_a_job(self) -> int:
        """How many heard of it."""
        awake = [worker for worker in self.workers if not worker.dozes]
        if awake:
            winner = self.random.choice(awake)
            for worker in awake:
                if worker is winner:
                    worker.won()
                else:
                    worker.lost()
        return len(awake)


def test_of_200_idle_workers_about_eight_hear_of_a_job() -> None:
    crowd = Crowd(200)
    crowd.poll(30)
    heard = []
    for _ in range(500):
        crowd.poll()
        heard.append(crowd.hear_of_a_job())
    assert sum(heard) / 500 < 12
    assert heard.count(0) < 3, "then the first poll of any of them finds it"


def test_after_a_burst_that_all_worked_on_one_job_sends_them_to_sleep_again() -> None:
    crowd = Crowd(200)
    for worker in crowd.workers:
        worker.won()
    crowd.poll(30)
    assert crowd.hear_of_a_job() == 200
    assert crowd.hear_of_a_job() < 30


@pytest.mark.parametrize("size", [1, 2, CHOSEN_REPLICAS])
def test_all_of_a_small_fleet_hear_every_time(size: int) -> None:
    crowd = Crowd(size)
    for _ in range(200):
        crowd.poll()
        assert crowd.hear_of_a_job() == size


def test_a_fleet_that_became_small_wakes_up() -> None:
    replicas, said = Replicas(200), list[bool]()
    watch = Watch(replicas, ["mail"], said.append, lambda: 0.1)
    watch.polled()
    replicas.recount(3)
    watch.polled()
    assert said == [True, False]


def test_the_few_that_serve_a_queue_never_doze_whatever_else_they_serve() -> None:
    watch = watch_of(200, ["common", "rare"], lambda: 0.1)
    watch.recount([*serving("common", 200), *serving("rare", 3)])
    for _ in range(20):
        watch.polled()
        watch.lost()
    assert not watch.dozes


def test_lapsed_workers_serve_nothing() -> None:
    watch = watch_of(200, chance=lambda: 0.1)
    watch.recount([*serving("mail", 3), *serving("mail", 197, expires_in=-1.0)])
    watch.polled()
    assert not watch.dozes


def test_who_got_a_job_stays_awake_until_it_comes_too_late() -> None:
    said: list[bool] = []
    watch = Watch(Replicas(200), ["mail"], said.append, lambda: 0.1)
    watch.polled()
    watch.won()  # its poll found the job
    for _ in range(20):
        watch.polled()
    assert said == [True, False]
    watch.lost()
    assert said == [True, False, True]
