"""What a worker process with nothing to do costs, as `make bench` counts it."""

from __future__ import annotations

import asyncio

import pytest

from bench.places import STORES, places
from bench.workloads.idle import at_rest, statements_sent

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

SECONDS = 15.0
WHOLE_CYCLE = 120.0
"""The slowest net sweeps once a minute. A shorter stretch would pass or fail by which nets fall
into it."""


@pytest.mark.parametrize("store", STORES)
def test_an_idle_worker_costs_half_a_percent_of_a_core_and_three_statements_a_second(
    store: str,
) -> None:
    with places([store]) as [place]:
        rest = asyncio.run(at_rest(place, SECONDS))
        sent = asyncio.run(statements_sent(place, WHOLE_CYCLE))
    assert rest["cpu_percent"] <= 0.5
    assert sent["statements"] <= 3
