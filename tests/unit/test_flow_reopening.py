"""What a retry of a flow would do, and what it refuses, as it is planned."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.cli.flows_view import draw_plan
from holdfast.errors import BadFlow
from holdfast.flow.graph import Graph, encode_graph
from holdfast.flow.ids import new_flow_id, new_node_id
from holdfast.flow.model import FlowInfo, FlowState, NewEdge, NewGate, NewNode, NodeInfo
from holdfast.flow.reopening import RetryPlan, plan_retry
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from tests.conformance.builders import new_job

FLOW = new_flow_id()
IDS = {name: new_node_id(FLOW) for name in ("first", "grower", "late", "added", "other", "behind")}
CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def node(name: str, *waits: str) -> NewNode:
    gates = tuple(NewGate(1, (NewEdge(IDS[one]),)) for one in waits)
    return NewNode(name, new_job(id=IDS[name], blocked=bool(gates)), gates)


def added(by: str, *nodes: NewNode, before: dict[str, str] | None = None) -> str:
    gates: dict[JobId, tuple[NewGate, ...]] = {
        IDS[target]: (NewGate(1, (NewEdge(IDS[one]),)),) for target, one in (before or {}).items()
    }
    return encode_graph(nodes, gates, by=IDS[by])


WRITTEN = encode_graph([node("first"), node("grower", "first"), node("late", "first")])


def plan(texts: list[str], *names: str, **states: JobState) -> RetryPlan:
    """A cascade of these nodes, in a flow whose other nodes have succeeded."""
    graph = Graph(texts)
    nodes = [
        NodeInfo(
            name=name,
            job_id=job,
            state=states.get(name, JobState.SUCCEEDED),
            is_sink=False,
            task="t",
            queue="q",
        )
        for job, name in graph.names.items()
    ]
    info = FlowInfo(
        id=FLOW,
        name="f",
        state=FlowState.SUCCEEDED,
        total=len(nodes),
        open=0,
        failed=0,
        epoch=3,
        created_at=CREATED,
    )
    return plan_retry(info, graph, nodes, names, cascade=True)


def test_a_node_that_waited_for_what_goes_waits_for_who_adds_it_anew() -> None:
    texts = [WRITTEN, added("grower", node("added"), before={"late": "added"})]
    found = plan(texts, "grower")
    assert (found.again, found.wait, found.anew) == (("grower",), ("late",), ("added",))
    waits = {edge.upstream for gate in found.reopening.blocked[IDS["late"]] for edge in gate.edges}
    assert waits == {IDS["first"], IDS["grower"]}
    after = Graph([*texts, found.reopening.graph])
    assert set(after.nodes) == {"first", "grower", "late"}
    assert after.gates_of(IDS["late"]) == found.reopening.blocked[IDS["late"]]
    assert (after.times_removed(IDS["grower"]), after.added_by(IDS["grower"])) == (1, None)


def test_a_node_of_another_that_waits_for_what_would_go_is_not_left_behind() -> None:
    texts = [
        encode_graph([node("first"), node("grower"), node("other")]),
        added("grower", node("added")),
        added("other", node("behind", "added")),
    ]
    with pytest.raises(BadFlow, match="node 'behind' waits for 'added', which would be removed"):
        plan(texts, "grower")


@pytest.mark.parametrize(
    ("live", "why"),
    [("added", "would be removed and added anew"), ("late", "goes on from what")],
)
def test_a_live_node_that_needs_what_runs_again_refuses_the_retry(live: str, why: str) -> None:
    texts = [WRITTEN, added("grower", node("added"), before={"late": "added"})]
    with pytest.raises(BadFlow, match=f"node '{live}' is running, and {why}"):
        plan(texts, "grower", **{live: JobState.RUNNING})


def test_the_dry_run_names_what_would_go() -> None:
    found = plan([WRITTEN, added("grower", node("added"))], "grower")
    assert [*draw_plan(found, dry_run=True)] == [
        "would run again: grower",
        "would be removed and added anew: added",
        "kept: 2 nodes that succeeded",
    ]
