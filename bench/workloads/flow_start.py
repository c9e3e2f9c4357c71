"""Starting flows: 2,000 double diamonds by callers that call at the same time.

They share transactions, as enqueues do. The graphs are built, checked and written within the time.
The floor writes 50 flows in a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench import floors
from bench.measure import FLOOR, HOLDFAST, Contender, Sample, Workload
from bench.places import Place, store_url
from bench.program import noop
from bench.scale import Scale
from bench.shapes import DIAMOND_NODES, diamond, several, started


def flow_start(place: Place, scale: Scale) -> Sequence[Workload]:
    contenders = (
        Contender(FLOOR, lambda: floors.start_flows(place, scale.jobs)),
        Contender(HOLDFAST, lambda: started_at_once(place, scale.jobs)),
    )
    return [Workload("flow start", place.name, contenders, show="{rate:,.0f} flows/s")]


async def started_at_once(place: Place, nodes: int) -> Sample:
    async with store_url(place) as url:
        program = noop(url, lambda number: None)
        async with program.app:
            await diamond(program, 0).start()
            began = time.perf_counter()
            flows = several(program, diamond, nodes, each=DIAMOND_NODES)
            await started(flows)
            return {"rate": len(flows) / (time.perf_counter() - began)}
