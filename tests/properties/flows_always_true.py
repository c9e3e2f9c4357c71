"""What is always true of flows, one function a line of F1 to F14 that a store alone can show.

Each takes what the store shows of one flow. F6 and F7 are about moments and not about states: the
rules of `flow_machine` assert them where a handler would begin, and where losers are cancelled. F14
is shown when the machine is torn down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.flow.drift import counted
from holdfast.flow.graph import Graph
from holdfast.flow.model import FLOW_ENDED, FlowId, FlowInfo, FlowState, NodeInfo
from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.flows import FlowFilter
from holdfast.store.contract.store import Store
from tests.properties.flow_model import ModelFlow

S = JobState


@dataclass(frozen=True)
class SeenFlow:
    """All that a store shows of one flow at one moment."""

    info: FlowInfo
    graph: Graph
    nodes: dict[str, NodeInfo]

    @classmethod
    async def all_of(cls, store: Store) -> dict[FlowId, SeenFlow]:
        found = (await store.flows.page(FlowFilter(), 1_000)).flows
        return {info.id: await cls.of(store, info) for info in found}

    @classmethod
    async def of(cls, store: Store, info: FlowInfo) -> SeenFlow:
        nodes = await store.flows.nodes(info.id, 1_000)
        graph = Graph(await store.flows.graph(info.id))
        return cls(info, graph, {node.name: node for node in nodes})


def f1_every_gate_equals_a_recount_of_its_edges(seen: SeenFlow) -> None:
    states = {node.job_id: node.state for node in seen.nodes.values()}
    for node in seen.nodes.values():
        expected = sorted(counted(gate, states) for gate in seen.graph.gates_of(node.job_id))
        for gate in node.gates:
            count = (gate.won, gate.lost, gate.total, gate.need)
            assert gate.won + gate.lost + len(gate.edges) == gate.total, f"{node.name}: {gate}"
            assert count in expected, f"{node.name}: {count} is none of {expected}"


def f2_nothing_that_is_decided_still_waits(seen: SeenFlow) -> None:
    for node in seen.nodes.values():
        assert node.gates or node.state is not S.BLOCKED, f"{node.name} waits for nothing"
        assert not node.gates or node.state is S.BLOCKED, f"{node.name} is {node.state}, with gates"
        for gate in node.gates if seen.info.state is FlowState.RUNNING else ():
            assert gate.won < gate.need, f"{node.name}: {gate} is met"
            assert gate.lost <= gate.total - gate.need, f"{node.name}: {gate} is impossible"


def f3_and_f4_every_node_is_where_its_formula_says(seen: SeenFlow, twin: ModelFlow) -> None:
    """Released if and only if the formula is true, skipped if and only if it cannot be any more."""
    shown = {name: _place(node.state) for name, node in seen.nodes.items()}
    expected = {name: _place(state) for name, state in twin.formulas.states.items()}
    assert shown == expected


def _place(state: JobState) -> JobState:
    return state if state in {*ENDED, S.BLOCKED} else S.READY


def f3_a_node_leaves_blocked_once_per_opening(counted: int, released: int) -> None:
    """The books count every release, and so does the model."""
    assert counted == released, f"{counted} releases in the books, {released} in the model"


def f5_a_flow_counts_its_live_nodes_and_ends_as_its_sinks_say(
    seen: SeenFlow, twin: ModelFlow
) -> None:
    live = sum(node.state not in ENDED for node in seen.nodes.values())
    assert seen.info.open == live
    assert (seen.info.state in FLOW_ENDED) == (live == 0)
    assert seen.info.state is twin.formulas.flow
    assert (seen.info.finished_at is not None) == (live == 0)


def f12_what_was_started_is_there_and_whole(
    seen: Mapping[FlowId, SeenFlow], twins: Iterable[ModelFlow]
) -> None:
    started = {twin.id: twin.ids for twin in twins}
    shown = {
        flow: {name: node.job_id for name, node in one.nodes.items()} for flow, one in seen.items()
    }
    assert shown == started
    for flow in seen.values():
        assert flow.info.total == len(flow.nodes)
