"""One file for each workload; `WORKLOADS` names them in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.measure import Workload
from bench.places import Place
from bench.scale import Scale
from bench.workloads.bulk import bulk
from bench.workloads.drain import drain
from bench.workloads.growth import growth
from bench.workloads.idle import idle
from bench.workloads.pickup import pickup
from bench.workloads.realistic import realistic
from bench.workloads.single import single
from bench.workloads.snapshot import snapshot
from bench.workloads.sustained import sustained
from bench.workloads.two_workers import two_workers

WORKLOADS: Mapping[str, Callable[[Place, Scale], Sequence[Workload]]] = {
    "single": single,
    "bulk": bulk,
    "drain": drain,
    "pickup": pickup,
    "two workers": two_workers,
    "sustained": sustained,
    "growth": growth,
    "realistic": realistic,
    "snapshot": snapshot,
    "idle": idle,
}
