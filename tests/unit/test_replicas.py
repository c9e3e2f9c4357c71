"""Replicas share sweeps and wakeups by chance."""

from __future__ import annotations

import pytest

from holdfast.background.replicas import CHOSEN_REPLICAS, Replicas


def test_a_lone_replica_keeps_its_pace() -> None:
    assert Replicas().stretched(1.5) == 1.5
    assert all(Replicas().chosen() for _ in range(100))


@pytest.mark.parametrize(("count", "sweeps"), [(4, 2), (100, 10), (400, 20)])
def test_a_fleet_sweeps_as_often_as_the_root_of_its_size(count: int, sweeps: float) -> None:
    assert count / Replicas(count).stretched(1.0) == pytest.approx(sweeps)


def test_a_few_of_many_are_chosen() -> None:
    replicas = Replicas(200)
    chosen = sum(replicas.chosen() for _ in range(200 * 200))
    expected = CHOSEN_REPLICAS * 200
    assert 0.8 * expected < chosen < 1.2 * expected
