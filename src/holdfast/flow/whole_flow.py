"""A flow read whole: its record, its graph and its nodes.

Explaining, checking and mending a flow all need the same picture of it. It is read in several
steps, so a flow that moves meanwhile may be seen half before and half after a move.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.flow.drift import circle_of, drift_of, mending_of
from holdfast.flow.errands import pages_of
from holdfast.flow.graph import Graph
from holdfast.flow.model import BITS, FlowInfo, FlowState, Mending, NewGate, NodeInfo
from holdfast.job.ids import JobId
from holdfast.job.state import ENDED
from holdfast.store.contract.store import Store


class WholeFlow(msgspec.Struct, frozen=True):
    """A flow with its graph, and its nodes by the ids of their jobs."""

    flow: FlowInfo
    graph: Graph
    nodes: dict[JobId, NodeInfo]

    @classmethod
    async def read(cls, store: Store, flow: FlowInfo) -> WholeFlow:
        nodes = {node.job_id: node async for some in pages_of(store, flow.id) for node in some}
        return cls(flow, Graph(await store.flows.graph(flow.id)), nodes)

    def lost_at(self, gate: NewGate) -> list[NodeInfo]:
        """The nodes that have ended otherwise than this gate wants."""
        ended = ((edge, self.nodes.get(edge.upstream)) for edge in gate.edges)
        return [
            node
            for edge, node in ended
            if node is not None and node.state in ENDED and not edge.wants & BITS[node.state]
        ]

    def impossible_gates(self, job: JobId) -> Iterator[NewGate]:
        """The gates of this node that can no longer be met."""
        for gate in self.graph.gates_of(job):
            if len(self.lost_at(gate)) > gate.total - gate.need:
                yield gate


class Drift(msgspec.Struct, frozen=True):
    """What is wrong with a flow: with its counts in words, and what makes them right; and a circle
    of nodes that wait for each other, which nothing makes right."""

    flow: FlowInfo
    wrong: list[str]
    circle: list[str]
    mending: Mending


async def find_drift(store: Store, flow: FlowInfo) -> Drift | None:
    """What is wrong with a flow, None if nothing is. A flow is read in several steps, and may move
    between them: a difference counts only if the flow has not moved, and if it is the same when the
    flow is read again."""
    first = await WholeFlow.read(store, flow)
    found = _wrong_with(first)
    if not any(found) or await store.flows.get([flow.id]) != [flow]:
        return None
    again = await WholeFlow.read(store, flow)
    if _wrong_with(again) != found:
        return None
    return Drift(flow, *found, mending_of(flow, again.graph, again.nodes.values()))


def _wrong_with(whole: WholeFlow) -> tuple[list[str], list[str]]:
    flow, nodes = whole.flow, whole.nodes.values()
    goes_on = flow.state in (FlowState.RUNNING, FlowState.PAUSED)  # others cancel what is blocked
    return drift_of(flow, whole.graph, nodes), circle_of(nodes) if goes_on else []
