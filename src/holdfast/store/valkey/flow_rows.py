"""Between the rows of flows (`layout.py`) and the words of flows (`holdfast.flow.model`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.flow.model import (
    CloseWhat,
    Errand,
    ErrandKind,
    FlowId,
    FlowInfo,
    FlowState,
    GateInfo,
    Growth,
    Losers,
    Mending,
    NewEdge,
    NewFlow,
    NewGate,
    NewNode,
    NodeInfo,
    NodeInput,
    Reopening,
)
from holdfast.job.ids import JobId
from holdfast.job.state import ENDED
from holdfast.store.valkey.inserting import job_row
from holdfast.store.valkey.layout import (
    FlowRow,
    GrowthRow,
    MendingRow,
    NewFlowRow,
    NewGateRow,
    NewNodeRow,
    NodeRow,
    NodeState,
    ReopeningRow,
)
from holdfast.store.valkey.moments import finite, to_datetime, to_optional_datetime
from holdfast.store.valkey.replies import scored
from holdfast.store.valkey.rows import STATES, known, nested, pack, to_record
from holdfast.store.valkey.spread import SPREADS

ARRIVALS = 0x10000
"""How many arrival numbers one base has."""

Indexes = Iterator[int]
Gates = Mapping[JobId, Sequence[NewGate]]

to_flow_row = msgspec.msgpack.Decoder(FlowRow).decode
to_node_row = msgspec.msgpack.Decoder(NodeRow).decode


# What the scripts are given


def new_flow_row(flow: NewFlow, indexes: Indexes) -> NewFlowRow:
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
    return NewFlowRow(flow.id, row, flow.graph, _new_nodes(flow.id, flow.nodes, indexes))


def growth_row(growth: Growth, indexes: Indexes) -> GrowthRow:
    return GrowthRow(
        growth.flow,
        growth.by,
        growth.fence,
        _new_nodes(growth.flow, growth.nodes, indexes),
        _gates(growth.gates),
        False if growth.graph is None else growth.graph,
    )


def reopening_row(plan: Reopening) -> ReopeningRow:
    return ReopeningRow(
        plan.flow,
        plan.epoch,
        list(plan.ready),
        _gates(plan.blocked),
        _gates(plan.counted_anew),
    )


def mending_row(plan: Mending) -> MendingRow:
    return MendingRow(plan.flow, plan.epoch, _gates(plan.gates))


def _new_nodes(flow: FlowId, nodes: Iterable[NewNode], indexes: Indexes) -> list[NewNodeRow]:
    """`indexes` order the arrival of the nodes within their call."""
    return [_new_node(flow, node, next(indexes) % ARRIVALS) for node in nodes]


def _new_node(flow: FlowId, node: NewNode, index: int) -> NewNodeRow:
    row = NodeRow(flow, node.name, node.inputs, index % SPREADS)
    return NewNodeRow(
        job=job_row(node.job, index),
        name=node.name,
        row=nested(pack(row)),
        is_sink=node.is_sink,
        delay=_seconds(node.delay),
        gates=[_new_gate(gate) for gate in node.gates],
    )


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


# What they answer


def flow_info(flow: str, row: FlowRow) -> FlowInfo:
    parent = known(row.parent)
    return FlowInfo(
        id=FlowId(flow),
        name=row.name,
        state=FlowState(row.state),
        total=row.total,
        open=row.open,
        failed=row.failed,
        epoch=row.epoch,
        created_at=to_datetime(row.created_at),
        unique_key=known(row.key),
        tags=row.tags,
        parent=None if parent is None else JobId(parent),
        reason=known(row.reason),
        finished_at=to_optional_datetime(row.finished_at),
        expires_at=to_optional_datetime(row.expires_at),
    )


def node_input(node: NodeRow, flow: FlowRow) -> NodeInput:
    return NodeInput(FlowId(node.flow), flow.name, FlowState(flow.state), node.name, node.inputs)


def node_info(member: bytes, blob: bytes, edges: Sequence[Any]) -> NodeInfo:
    """`member` is the name of a node with its id, `edges` are those of its open gates."""
    name, job_id = split_name(member)
    row = to_record(blob)
    if not isinstance(row.node, NodeState):
        raise ValueError(f"the record of {job_id} does not say that it is a node")
    state = STATES[row.state]
    return NodeInfo(
        name=name,
        job_id=job_id,
        state=state,
        is_sink=row.node.is_sink,
        task=row.task,
        queue=row.queue,
        attempts=row.attempts,
        reason=known(row.reason),
        gates=tuple(_gate_infos(row.node, edges)),
        finished_at=to_optional_datetime(row.at) if state in ENDED else None,
    )


def _gate_infos(node: NodeState, edges: Sequence[Any]) -> Iterator[GateInfo]:
    for gate, undecided in zip(node.gates, edges, strict=True):
        yield GateInfo(
            gate.n,
            gate.need,
            gate.total,
            gate.won,
            gate.lost,
            Losers(gate.losers),
            tuple(
                sorted(
                    (NewEdge(JobId(u), int(wants)) for u, wants in scored(undecided)), key=_upstream
                )
            ),
        )


def _upstream(edge: NewEdge) -> str:
    return edge.upstream


def split_name(member: bytes) -> tuple[str, JobId]:
    """As `lua/parts/node_names.lua` puts both together."""
    name, _, job_id = member.decode().rpartition("\0")
    return name, JobId(job_id)


def behind_name(name: str | None) -> str:
    """Where the names behind this one begin, as ZRANGEBYLEX takes it. An id has no `g`."""
    return "-" if name is None else f"({name}\0g"


# Errands


def errand(text: str) -> Errand:
    """As `lua/parts/flows.lua` writes it: the text is the errand, and its id."""
    _, at, kind, flow, job, what = text.split(":")
    return Errand(
        text,
        FlowId(flow),
        ErrandKind(kind),
        JobId(job) if job else None,
        CloseWhat(what) if what else None,
        to_datetime(int(at)),
    )
