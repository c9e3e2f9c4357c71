"""From the words of flows (`holdfast.flow.model`) to the requests of scripts (`flow_layout.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import msgspec

from holdfast.flow.elements import element_ids
from holdfast.flow.model import (
    FlowId,
    FlowState,
    Growth,
    Losers,
    Mending,
    NewElements,
    NewFlow,
    NewGate,
    NewNode,
    Reopening,
)
from holdfast.job.ids import JobId
from holdfast.job.policy import readable_part
from holdfast.job.record import NewJob
from holdfast.job.state import JobState
from holdfast.job.ties import NO_TIES
from holdfast.store.valkey.flow_layout import (
    EDGE_ALONE,
    ElementsRow,
    FlowRow,
    GrowthRow,
    MendingRow,
    NewFlowRow,
    NewGateRow,
    NewNodesRow,
    NodeLineRow,
    NodeRow,
    ReopeningRow,
)
from holdfast.store.valkey.inserting import fresh_record, job_row
from holdfast.store.valkey.layout import width
from holdfast.store.valkey.moments import finite
from holdfast.store.valkey.rows import around_args, body, list_head, nested, pack
from holdfast.store.valkey.spread import SPREADS

ARRIVALS = 0x10000
"""How many arrival numbers one base has."""

EDGE_WIDTH = 3
"""The values of an edge in the row of its upstream: node, serial number of the gate, wants."""

Indexes = Iterator[int]
Gates = Mapping[JobId, Sequence[NewGate]]


class _Line(NamedTuple):
    """What the records of nodes in one line share."""

    queue: str
    task: str
    priority: int
    timeout: float | None
    ties: int
    is_blocked: bool


def new_flow_row(flow: NewFlow, tag: str, indexes: Indexes) -> NewFlowRow:
    """`tag`: what every key of its partition begins with."""
    row = FlowRow(
        name=flow.name,
        state=FlowState.RUNNING.value,
        total=len(flow.nodes),
        open=len(flow.nodes),
        failed=0,
        epoch=1,
        cancel_asked=False,
        key=False if flow.unique_key is None else flow.unique_key,
        tags=flow.tags,
        parent=False if flow.parent is None else flow.parent,
        keep_succeeded=_seconds(flow.keep.get(FlowState.SUCCEEDED)),
        keep_failed=_seconds(flow.keep.get(FlowState.FAILED)),
        keep_cancelled=_seconds(flow.keep.get(FlowState.CANCELLED)),
    )
    nodes = new_nodes_row(flow.id, flow.nodes, tag, indexes)
    return NewFlowRow(flow.id, row, flow.graph, nodes, flow.fence)


def growth_row(growth: Growth, tag: str) -> GrowthRow:
    return GrowthRow(
        growth.flow,
        growth.by,
        growth.fence,
        new_nodes_row(growth.flow, growth.nodes, tag, count()),
        _gates(growth.gates),
        growth.graph,
        False if growth.elements is None else _elements_row(growth, growth.elements),
        False if growth.epoch is None else growth.epoch,
        growth.leaves_out_gone,
    )


def _elements_row(growth: Growth, new: NewElements) -> ElementsRow:
    like = new.like
    timeout = readable_part(like.policy).timeout
    line = _Line(like.queue, like.task, like.priority, timeout, like.ties, is_blocked=False)
    before_args, behind_args = around_args(like)
    size = width(NodeRow) + EDGE_WIDTH * len(new.behind) + 1
    return ElementsRow(
        new.map,
        new.first,
        element_ids(growth.by, new.indexes, new.anew),
        new.args,
        _node_line(line, []),
        nested(before_args),
        nested(behind_args),
        nested(list_head(size) + pack(growth.flow)),
        nested(pack(False) + pack(new.is_sink)),
        [value for pair in new.behind.items() for value in pair],
    )


def new_nodes_row(
    flow: FlowId, nodes: Sequence[NewNode], tag: str, indexes: Indexes
) -> NewNodesRow:
    """All that a script would write for new nodes is packed here, but for times and arrivals.
    `indexes` order the arrival of the nodes within their call."""
    given = NewNodesRow([], [], [], [], [])
    lines: dict[_Line, list[object]] = {}
    outs: dict[JobId, list[str | int]] = {node.job.id: [] for node in nodes}
    for node in nodes:
        _add_gates(node, tag, given, outs)
    for node in nodes:
        index, job_id = next(indexes) % ARRIVALS, node.job.id
        _add_job(node.job, tag, index, given, lines)
        given.names += (node.name, job_id)
        spread, inputs = index % SPREADS, node.inputs or False
        row = (flow, node.name, inputs, node.is_sink, *outs[job_id], spread)
        given.texts += (f"{tag}:n:{job_id}", nested(pack(row)))
        if node.gates:
            state = nested(pack((*_node_state(flow, node), spread)))
            given.texts += (f"{tag}:g:{job_id}", state)
    given.lines.extend(_node_line(line, jobs) for line, jobs in lines.items())
    return given


def _add_gates(
    node: NewNode, tag: str, given: NewNodesRow, outs: dict[JobId, list[str | int]]
) -> None:
    """The edges of a node: those to new nodes go to `outs`, by upstream."""
    job_id, alone = node.job.id, EDGE_ALONE * _has_one_edge(node)
    for serial, gate in enumerate(node.gates):
        waits = ""
        for edge in gate.edges:
            upstream, wants = edge.upstream, edge.wants
            waits += f"{upstream}:{wants};"
            if upstream in outs:
                outs[upstream] += (job_id, serial, wants + alone)
            else:
                given.edges += (upstream, job_id, serial, wants)
        given.texts += (f"{tag}:in:{job_id}:{serial}", waits)


def _has_one_edge(node: NewNode) -> bool:
    """Whether the end of one upstream is all that a node waits for."""
    if len(node.gates) != 1 or node.delay:
        return False
    [gate] = node.gates
    return gate.total == 1 and gate.losers is not Losers.CANCEL


def _add_job(
    job: NewJob, tag: str, index: int, given: NewNodesRow, lines: dict[_Line, list[object]]
) -> None:
    """Most nodes are as plain as a job can be that has ties and may be blocked."""
    if job.buckets or not msgspec.structs.replace(job, ties=NO_TIES, blocked=False).is_plain:
        given.jobs.append(job_row(job, index))
        return
    timeout = readable_part(job.policy).timeout
    shared = _Line(job.queue, job.task, job.priority, timeout, job.ties, job.blocked)
    line = lines.get(shared)
    if line is None:
        line = lines[shared] = []
    line += (job.id, index)
    given.texts += (f"{tag}:b:{job.id}", nested(body(job, index)))


def _node_line(line: _Line, jobs: list[object]) -> NodeLineRow:
    state = JobState.BLOCKED if line.is_blocked else JobState.READY
    pieces = fresh_record(line.queue, line.task, line.priority, line.timeout, line.ties, state)
    return NodeLineRow(line.queue, line.task, line.priority, line.is_blocked, *pieces, jobs)


def _node_state(flow: FlowId, node: NewNode) -> list[object]:
    """A `NodeState`, and behind it a `GateRow` for each gate, as one list."""
    values = [flow, False, _seconds(node.delay), len(node.gates)]
    for n, gate in enumerate(node.gates):
        values += (n, n, gate.need, gate.total, 0, 0, gate.losers.value, False)
    return values


def reopening_row(plan: Reopening) -> ReopeningRow:
    return ReopeningRow(
        plan.flow,
        plan.epoch,
        list(plan.ready),
        _gates(plan.blocked),
        _gates(plan.counted_anew),
        list(plan.removed),
        plan.graph or False,
    )


def mending_row(plan: Mending) -> MendingRow:
    return MendingRow(plan.flow, plan.epoch, _gates(plan.gates))


def _gates(gates: Gates) -> list[tuple[str, list[NewGateRow]]]:
    return [(node, [_new_gate(gate) for gate in some]) for node, some in gates.items()]


def _new_gate(gate: NewGate) -> NewGateRow:
    edges: list[object] = []
    for edge in gate.edges:
        edges += (edge.upstream, edge.wants)
    return NewGateRow(gate.need, gate.losers.value, edges)


def _seconds(value: float | None) -> float | bool:
    seconds = finite(value)
    return False if seconds is None else seconds
