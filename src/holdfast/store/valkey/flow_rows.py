"""From the rows of flows (`flow_layout.py`) to the words of flows (`holdfast.flow.model`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.flow.model import (
    FlowId,
    FlowInfo,
    FlowState,
    GateInfo,
    Losers,
    NewEdge,
    NodeInfo,
    NodeInput,
)
from holdfast.job.ids import JobId
from holdfast.job.state import ENDED, JobState
from holdfast.store.valkey.flow_layout import FlowRow, GateRow, NodeRow, NodeState
from holdfast.store.valkey.layout import width
from holdfast.store.valkey.moments import to_datetime, to_optional_datetime
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.rows import STATES, known, to_record

to_flow_row = msgspec.msgpack.Decoder(FlowRow).decode
to_values = msgspec.msgpack.Decoder(list[Any]).decode
to_node_row = msgspec.msgpack.Decoder(NodeRow).decode


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
    inputs = known(node.inputs)
    return NodeInput(FlowId(node.flow), flow.name, FlowState(flow.state), node.name, inputs)


def node_info(
    member: bytes, blob: bytes, packed: bytes, packed_row: bytes, edges: Sequence[Any]
) -> NodeInfo:
    """`member` is the name of a node with its id, `edges` are those of its open gates if it is
    blocked."""
    name, job_id = split_name(member)
    row = to_record(blob)
    state = STATES[row.state]
    return NodeInfo(
        name=name,
        job_id=job_id,
        state=state,
        is_sink=to_node_row(packed_row).is_sink,
        task=row.task,
        queue=row.queue,
        attempts=row.attempts,
        reason=known(row.reason),
        gates=tuple(_gate_infos(packed, edges)) if state is JobState.BLOCKED else (),
        finished_at=to_optional_datetime(row.at) if state in ENDED else None,
    )


def gates_in(packed: bytes) -> list[GateRow]:
    """The gates in the row of a node."""
    values = to_values(packed)[width(NodeState) : -1]
    places = range(0, len(values), width(GateRow))
    return [GateRow(*values[at : at + width(GateRow)]) for at in places]


def _gate_infos(packed: bytes, edges: Sequence[Any]) -> Iterator[GateInfo]:
    for gate, undecided in zip(gates_in(packed), edges, strict=True):
        left = sorted((upstream, int(wants)) for upstream, wants in paired(undecided))
        yield GateInfo(
            gate.n,
            gate.need,
            gate.total,
            gate.won,
            gate.lost,
            Losers(gate.losers),
            tuple(NewEdge(JobId(upstream), wants) for upstream, wants in left),
        )


def split_name(member: bytes) -> tuple[str, JobId]:
    """As `lua/parts/node_names.lua` puts both together."""
    name, _, job_id = member.decode().rpartition("\0")
    return name, JobId(job_id)


def behind_name(name: str | None) -> str:
    """Where the names behind this one begin, as ZRANGEBYLEX takes it. An id has no `g`."""
    return "-" if name is None else f"({name}\0g"
