"""The gates of a blocked node in words: what each still wants, and who can open it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from holdfast.flow.model import ANY_END, FAILURE, SUCCESS, GateInfo, NewGate, NodeInfo
from holdfast.flow.whole_flow import WholeFlow
from holdfast.insights.causes import end_text
from holdfast.insights.node_status import NodeStatus
from holdfast.insights.reasons import Reason, Who
from holdfast.job.ids import JobId
from holdfast.job.state import LIVE, SOONEST

NAMED = 5
"""So many of the nodes that a gate waits for are named; the others are counted."""

_WHO = (Who.WORKER, Who.TIME, Who.OPERATOR, Who.DEVELOPER, Who.NOBODY)
_TO = {SUCCESS: "", FAILURE: " to fail", ANY_END: " to end"}
_OTHERWISE = {SUCCESS: "fails", FAILURE: "does not fail"}


def awaited(whole: WholeFlow, gate: GateInfo) -> list[NodeInfo]:
    """The live nodes that this gate waits for, those that end soonest first."""
    found = [whole.nodes.get(edge.upstream) for edge in gate.edges]
    live = [node for node in found if node is not None and node.state in LIVE]
    return sorted(live, key=lambda node: (SOONEST.index(node.state), node.name))


def open_gates(whole: WholeFlow, node: NodeInfo) -> list[GateInfo]:
    """The gates that keep a node blocked. A map writes a gate for some hundred elements at a time:
    all of them are told as one."""
    left = [gate for gate in node.gates if gate.won < gate.need]
    maps = {gate.n: _map_of(whole, gate) for gate in left}
    told = [gate for gate in left if maps[gate.n] is None]
    for of_map in sorted({found for found in maps.values() if found is not None}):
        parts = [gate for gate in left if maps[gate.n] == of_map]
        all_gates = whole.graph.gates_of(node.job_id)
        total = sum(gate.total for gate in all_gates if _map_of(whole, gate) == of_map)
        won = total - sum(gate.total - gate.won for gate in parts)
        edges = tuple(edge for gate in parts for edge in gate.edges)
        lost = sum(gate.lost for gate in parts)
        told.append(GateInfo(parts[0].n, total, total, won, lost, parts[0].losers, edges))
    return told


def _map_of(whole: WholeFlow, gate: GateInfo | NewGate) -> tuple[str, int] | None:
    """The map whose elements this gate needs, and how they have to end. None if it needs other
    nodes, or not all of the elements."""
    if not gate.edges or gate.need < gate.total:
        return None
    edge = gate.edges[0]
    node = whole.graph.nodes.get(whole.graph.names.get(edge.upstream, ""))
    return None if node is None or node.map is None else (node.map, edge.wants)


def gate_reason(
    whole: WholeFlow, node: NodeInfo, gate: GateInfo, statuses: Mapping[JobId, NodeStatus]
) -> Reason:
    """The gate as a reason why the node is blocked."""
    nodes = awaited(whole, gate)
    known = [statuses[one.job_id] for one in nodes if one.job_id in statuses]
    who = min((one.who for one in known), key=_WHO.index, default=Who.WORKER)
    obstacle = next((one.obstacle for one in known if one.obstacle is not None), None)
    fact = gate_text(whole, node, gate, statuses)
    if obstacle is None:
        return Reason("gate", fact, who)
    return Reason("gate", fact, who, obstacle.advice, obstacle.action)


def gate_text(
    whole: WholeFlow, node: NodeInfo, gate: GateInfo, statuses: Mapping[JobId, NodeStatus]
) -> str:
    nodes = awaited(whole, gate)
    wants = {edge.wants for edge in gate.edges}
    wanted = wants.pop() if len(wants) == 1 else None
    to = _TO.get(wanted or SUCCESS, "")
    if gate.total == 1 and nodes:
        return f"waits for {nodes[0].name!r}{to}, which {_how(nodes[0], statuses)}"
    lost = _lost_text(whole, node, gate)
    return f"waits for {_kind(gate)}{to}{lost}: {_names(nodes, statuses)}{_risk(gate, wanted)}"


def _kind(gate: GateInfo) -> str:
    done = f" ({gate.won:,} done)" if gate.won else ""
    if gate.need == gate.total:
        return f"all {gate.total:,}{done}"
    if gate.need == 1:
        return f"any of {gate.total:,}"
    return f"{gate.need:,} of {gate.total:,}{done}"


def _lost_text(whole: WholeFlow, node: NodeInfo, gate: GateInfo) -> str:
    """How those ended that did not do what the gate wants: `, one failed`."""
    if not gate.lost:
        return ""
    waits = {edge.upstream for edge in gate.edges}
    for known in whole.graph.gates_of(node.job_id):
        same = (known.need, known.total) == (gate.need, gate.total)
        if same and waits <= {edge.upstream for edge in known.edges}:
            ends = Counter(end_text(one) for one in whole.lost_at(known))
            return "".join(f", {_number(many)} {end}" for end, many in sorted(ends.items()))
    return f", {_number(gate.lost)} lost"


def _names(nodes: Sequence[NodeInfo], statuses: Mapping[JobId, NodeStatus]) -> str:
    named = " · ".join(f"{one.name!r} {_how(one, statuses)}" for one in nodes[:NAMED])
    return named + and_more(nodes[NAMED:])


def and_more(others: Iterable[NodeInfo]) -> str:
    """The nodes that are not named, by their states: ` and 9,995 more (9,990 ready, 5 running)`."""
    states = Counter(node.state.value for node in others)
    if not states:
        return ""
    shown = ", ".join(f"{many:,} {state}" for state, many in sorted(states.items()))
    return f" and {sum(states.values()):,} more ({shown})"


def _how(node: NodeInfo, statuses: Mapping[JobId, NodeStatus]) -> str:
    known = statuses.get(node.job_id)
    return f"is {node.state}" if known is None else known.text


def _risk(gate: GateInfo, wanted: int | None) -> str:
    """What is lost with the next node that ends otherwise, where nodes may be lost at all."""
    spare = gate.total - gate.need - gate.lost
    otherwise = _OTHERWISE.get(wanted or 0)
    if gate.need == gate.total or spare or otherwise is None:
        return ""
    if len(gate.edges) == 1:
        return f"; if it {otherwise} too, this is skipped"
    return f"; if one of them {otherwise}, this is skipped"


def _number(many: int) -> str:
    return "one" if many == 1 else f"{many:,}"
