"""Growth: what claiming and finishing a job costs as the backlog grows, and beside a history.

Through the store's own contract, so that nothing but the store is measured: batches of 100 are
claimed and finished, and as many are added in between, untimed, so that the backlog keeps its
size. Each size has a store of its own and takes turns with a store of the smallest size: ten
stretches of 1,500 jobs each, of which the best counts. In the largest the whole backlog is then
finished, and the smallest size measured beside that history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.by_hand import Costs, at_work, by_turns
from bench.measure import HOLDFAST, Contender, Sample, Workload
from bench.places import Place
from bench.scale import Scale


def growth(place: Place, scale: Scale) -> Sequence[Workload]:
    contender = Contender(HOLDFAST, lambda: grown(place, scale.waiting))
    costs = " → ".join(f"{{us_{size}:.1f}}" for size in scale.waiting)
    show = f"{costs} µs a job; {{us_history:.1f}} beside history"
    return [Workload("growth", place.name, (contender,), "growth", show, once=True)]


async def grown(place: Place, sizes: Sequence[int]) -> Sample:
    smallest, largest = min(sizes), max(sizes)
    costs: dict[int, Costs] = {}
    beside_history = (math.nan, math.nan)
    with place.apart() as other:
        async with at_work(other) as reference:
            await reference.fill(smallest)
            for size in sizes:
                async with at_work(place) as bench:
                    await bench.fill(size)
                    costs[size] = await by_turns(bench, reference)
                    if size == largest:
                        while await bench.step(500):
                            pass
                        await bench.fill(smallest)
                        beside_history = await by_turns(bench, reference)
    return _sample(costs, beside_history)


def _sample(costs: dict[int, Costs], beside_history: Costs) -> Sample:
    largest = max(costs)
    growth, by_history = _ratio(costs[largest]), _ratio(beside_history)
    sample = {f"us_{size}": 1e6 * cost for size, (cost, _) in costs.items()}
    sample |= {"us_history": 1e6 * beside_history[0], "growth": growth, "by_history": by_history}
    if largest == 1_000_000:
        sample |= {"waiting_1m": growth, "finished_1m": by_history}
    return sample


def _ratio(costs: Costs) -> float:
    return costs[0] / costs[1]
