"""One file for each workload; `WORKLOADS` names them in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.measure import Workload
from bench.places import Place
from bench.scale import Scale
from bench.workloads.bulk import bulk
from bench.workloads.drain import drain
from bench.workloads.encrypted import encrypted
from bench.workloads.flow_drain import flow_drain
from bench.workloads.flow_start import flow_start
from bench.workloads.growth import growth
from bench.workloads.hop import hop
from bench.workloads.idle import idle
from bench.workloads.large_flow import large_flow
from bench.workloads.limits import limits
from bench.workloads.lone_ends import lone_ends
from bench.workloads.mapped import map_and_join
from bench.workloads.parked import parked
from bench.workloads.pickup import pickup
from bench.workloads.realistic import realistic
from bench.workloads.single import single
from bench.workloads.snapshot import snapshot
from bench.workloads.steps import steps
from bench.workloads.streams import streams
from bench.workloads.suspended import suspended_jobs
from bench.workloads.sustained import sustained
from bench.workloads.taking import taking
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
    "flow drain": flow_drain,
    "flow start": flow_start,
    "hop": hop,
    "map": map_and_join,
    "lone ends": lone_ends,
    "large flow": large_flow,
    "steps": steps,
    "suspended": suspended_jobs,
    "streams": streams,
    "encrypted": encrypted,
    "limits": limits,
    "parked": parked,
    "take": taking,
}
