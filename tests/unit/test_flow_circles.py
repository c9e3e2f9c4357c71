"""`circle_of` finds blocked nodes that can never begin because they wait for each other."""

from __future__ import annotations

from holdfast.flow.drift import circle_of
from holdfast.flow.model import FAILURE, SUCCESS, GateInfo, Losers, NewEdge, NodeInfo
from holdfast.job.ids import JobId
from holdfast.job.state import JobState

S = JobState


def gate(need: int, *upstreams: str, wants: int = SUCCESS, won: int = 0, lost: int = 0) -> GateInfo:
    edges = tuple(NewEdge(JobId(name), wants) for name in upstreams)
    return GateInfo(0, need, len(edges) + won + lost, won, lost, Losers.LET_RUN, edges)


def node(name: str, *gates: GateInfo, state: JobState = S.BLOCKED) -> NodeInfo:
    job = JobId(name)
    return NodeInfo(
        name=name, job_id=job, state=state, is_sink=False, task="t", queue="q", gates=gates
    )


def test_nodes_in_a_circle_are_named() -> None:
    nodes = [node("a", gate(1, "b")), node("b", gate(1, "c")), node("c", gate(1, "a"))]
    assert circle_of(nodes) == ["a", "b", "c", "a"]
    assert circle_of([node("a", gate(1, "a"))]) == ["a", "a"]


def test_a_circle_is_named_while_others_run() -> None:
    nodes = [node("r", state=S.RUNNING), node("a", gate(2, "b", "r")), node("b", gate(1, "a"))]
    assert circle_of(nodes) == ["a", "b", "a"]


def test_who_waits_behind_a_circle_is_not_part_of_it() -> None:
    nodes = [node("z", gate(1, "b")), node("b", gate(1, "c")), node("c", gate(1, "b"))]
    assert circle_of(nodes) == ["b", "c", "b"]


def test_a_circle_that_another_node_can_open_is_none() -> None:
    runs = node("r", state=S.RUNNING)
    nodes = [runs, node("a", gate(1, "b", "r")), node("b", gate(1, "a"))]
    assert circle_of(nodes) == []
    skipped = [runs, node("a", gate(2, "b", "r")), node("b", gate(1, "a", wants=31))]
    assert circle_of(skipped) == [], "if 'r' fails, 'a' is skipped and 'b' begins"


def test_nodes_that_can_only_be_skipped_are_in_no_circle() -> None:
    never = node("n", gate(1, "r"), gate(1, "r", wants=FAILURE, lost=1))
    gone = gate(1, "x", lost=0)
    nodes = [node("r", state=S.RUNNING), never, node("m", gate(1, "n")), node("x", state=S.FAILED)]
    assert circle_of([*nodes, node("y", gone)]) == []
