"""A map: a node returns a list of 10,000, each element is a node of its own, and one node takes all
their results. Measured whole, from the first handler until no job is live, beside a drain of as
many jobs of no flow.

Meanwhile a chain of another flow hops from node to node, in another queue of the same worker: how
long its hops take while the map is being made and run.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.draining import SLOTS, Load, drained, numbered
from bench.measure import HOLDFAST, Contender, Sample, Workload, percentiles
from bench.places import Place, store_url
from bench.program import node
from bench.scale import Scale
from bench.shapes import chain, mapped
from bench.targets import PLAIN_DRAIN
from bench.worker_process import worker_processes
from bench.workloads.hop import SHOW, between

MOST_HOPS = 20_000


def map_and_join(place: Place, scale: Scale) -> Sequence[Workload]:
    elements = scale.elements
    contenders = (
        Contender(PLAIN_DRAIN, lambda: drained(place, numbered(elements))),
        Contender(HOLDFAST, lambda: drained(place, a_map(elements))),
    )
    beside = Contender(HOLDFAST, lambda: hopped_beside(place, elements))
    return [
        Workload("map", place.name, contenders),
        Workload("hop beside a map", place.name, (beside,), "p99", SHOW),
    ]


def a_map(elements: int) -> Load:
    marked = elements + 2  # the list and the join
    return Load("node", marked, marked, lambda program: mapped(program, elements).start(), 1)


async def hopped_beside(place: Place, elements: int) -> Sample:
    """Hops of the chain until the map's last node has begun."""
    async with store_url(place) as url:
        program = node(url, lambda number: None)
        async with program.app:
            room = elements + 2 + MOST_HOPS
            with worker_processes(url, slots=2 * SLOTS, calls=room, role="node") as worker:
                first = elements + 2
                link = await chain(program, first, MOST_HOPS // 10, beside=True).start()
                await worker.have_marked(1)
                await mapped(program, elements).start()
                await worker.until(
                    lambda: _has_joined(worker.marks(), elements), "the map ended", 120
                )
                marks = worker.marks()
                await link.cancel()
    over = next(moment for number, moment in marks if number == elements + 1)
    begun = next(moment for number, moment in marks if number == elements)
    hops = [(n, at) for n, at in marks if n >= first and begun <= at <= over]
    return percentiles(between(hops))


def _has_joined(marks: Sequence[tuple[int, float]], elements: int) -> bool:
    return any(number == elements + 1 for number, _ in marks[-50:])
