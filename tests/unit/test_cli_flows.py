"""`holdfast flows …` as people and programs read it, at widths that terminals have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.flow.drawing import draw
from holdfast.flow.graph import Graph, encode_graph
from holdfast.flow.model import FlowId, NodeInfo
from holdfast.job.ends import Fail, Raised
from holdfast.job.state import JobState
from tests.conformance.builders import Scene
from tests.support.flows import Trip, Waits, any_of, new_flow
from tests.unit.cli import Desk, desk_in

EVIL = "\x1b[2J\x07\x9b31m\u202eevil"
DOUBLE_DIAMOND: dict[str, Waits] = {
    "start": [],
    **{f"left{n}": ["start"] for n in range(1, 5)},
    "middle": [f"left{n}" for n in range(1, 5)],
    **{f"right{n}": ["middle"] for n in range(1, 4)},
    "end": any_of("right1", "right2", "right3"),
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


async def begin(scene: Scene, graph: dict[str, Waits], **options: Any) -> Trip:
    flow = new_flow(graph, **options)
    flow = msgspec.structs.replace(flow, graph=encode_graph(flow.nodes))
    await scene.store.flows.start([flow])
    return Trip(scene, flow, {node.name: node.job.id for node in flow.nodes})


def started(desk: Desk, graph: dict[str, Waits], failing: str = "") -> FlowId:
    async def seed(scene: Scene) -> FlowId:
        trip = await begin(scene, graph)
        if failing:
            await trip.end(failing, end=Raised(Fail.__name__, f"bad {EVIL}", final=True))
        return trip.id

    return desk.seed(seed)


@pytest.mark.parametrize("width", [80, 120])
def test_every_command_fits_the_terminal(desk: Desk, width: int) -> None:
    flow = started(desk, DOUBLE_DIAMOND, "start")
    for words in (["list"], ["show", flow], ["explain", flow], ["graph", flow]):
        answer = desk.on_store("flows", *words, width=width)
        assert answer.code == 0, answer.err
        lines = answer.out.splitlines()
        assert max(map(len, lines)) <= width, "\n".join(lines)
        assert flow in answer.out or words[0] in ("explain", "graph")


def test_no_text_of_a_user_reaches_the_terminal_as_a_command(desk: Desk) -> None:
    flow = started(desk, {"a": [], "b": ["a"]}, "a")
    node = desk.json("flows", "show", flow)["nodes"][0]["job_id"]
    commands = [
        *(["flows", verb, flow] for verb in ("show", "explain", "graph")),
        *(["jobs", verb, node] for verb in ("show", "explain", "life")),
        ["jobs", "list"],
        ["flows", "retry", flow, EVIL],
        ["flows", "list", "--state", EVIL],
    ]
    for words in commands:
        for as_json in (False, True):
            answer = desk.on_store(*words, *(["--json"] if as_json else []))
            said = answer.out + answer.err
            assert said
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said), words
    assert "evil" in desk.on_store("jobs", "show", node).out


def test_what_was_hidden_from_the_terminal_is_whole_in_the_document(desk: Desk) -> None:
    flow = started(desk, {"a": []}, "a")
    [node] = desk.json("flows", "show", flow)["nodes"]
    assert node["reason"] == f"bad {EVIL}"


def test_the_id_of_a_node_is_told_from_the_id_of_a_flow(desk: Desk) -> None:
    flow = started(desk, {"a": []})
    [node] = desk.json("flows", "show", flow)["nodes"]
    answer = desk.on_store("flows", "graph", node["job_id"])
    assert (answer.code, "this is the id of a job" in answer.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "nonsense"], "there is no flow 'nonsense': the id of a flow is a UUID"),
        (["explain", "0198f0c2-0000-7000-8000-000000000000"], "it was never started here"),
        (["list", "--state", "broken"], "state must be one of running, paused, cancelling"),
    ],
)
def test_an_error_says_what_to_do(desk: Desk, words: list[str], said: str) -> None:
    started(desk, {"a": []})
    answer = desk.on_store("flows", *words)
    assert answer.code != 0
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_a_verb_that_the_state_does_not_allow_says_which_state_it_needs(desk: Desk) -> None:
    flow = started(desk, {"a": [], "b": ["a"]}, "a")
    for verb, said in (
        ("pause", "is failed: only a running flow can be paused"),
        ("resume", "is failed: only a paused flow can be resumed"),
        ("cancel", "is failed: only a flow that has not ended can be cancelled"),
    ):
        answer = desk.on_store("flows", verb, flow)
        assert (answer.code, said in answer.err) == (1, True), answer.err
    unknown = desk.on_store("flows", "retry", flow, "nobody")
    assert f"has no node 'nobody': see flows show {flow}" in unknown.err


def test_who_paused_a_flow_is_shown(desk: Desk) -> None:
    flow = started(desk, {"a": [], "b": ["a"]})
    assert desk.on_store("flows", "pause", flow).code == 0
    shown = desk.on_store("flows", "explain", flow).out
    assert "trip is paused (paused by " in shown
    assert f"resume the flow: holdfast flows resume {flow}" in shown
    [act] = desk.json("audit", "list", "--target", flow)["acts"]
    assert (act["verb"], act["outcome"]) == ("flows.pause", "done")


def test_a_filter_that_finds_nothing_says_so(desk: Desk) -> None:
    started(desk, {"a": []})
    assert desk.on_store("flows", "list", "--name", "other").out.strip() == "no flows match"


# Drawings -----------------------------------------------------------------------------------------


def lines_of(graph: dict[str, Waits], form: Any = "text") -> list[str]:
    flow = new_flow(graph)
    nodes = [
        NodeInfo(
            name=node.name,
            job_id=node.job.id,
            state=JobState.BLOCKED if node.gates else JobState.READY,
            is_sink=node.is_sink,
            task="greet",
            queue="default",
        )
        for node in flow.nodes
    ]
    return draw(Graph([encode_graph(flow.nodes)]), nodes, form)


def test_the_double_diamond_as_text() -> None:
    assert lines_of(DOUBLE_DIAMOND) == [
        "○ start (ready)",
        *(f"  · left{n} (blocked)  ← start" for n in range(1, 5)),
        "    · middle (blocked)  ← left1, left2, left3, left4",
        *(f"      · right{n} (blocked)  ← middle" for n in range(1, 4)),
        "        · end (blocked)  ← right1 (1 of 3), right2 (1 of 3), right3 (1 of 3)",
    ]


def test_the_double_diamond_as_mermaid_and_dot() -> None:
    mermaid = lines_of(DOUBLE_DIAMOND, "mermaid")
    assert mermaid[:2] == ["flowchart TD", '  n0["start (ready)"]']
    assert '  n6 -->|"1 of 3"| n9' in mermaid
    assert len(mermaid) == 1 + 10 + 14
    dot = lines_of(DOUBLE_DIAMOND, "dot")
    assert (dot[0], dot[-1]) == ("digraph flow {", "}")
    assert '  "right1" -> "end" [label="1 of 3"];' in dot
    assert len(dot) == 3 + 10 + 14 + 1


def test_nodes_that_are_alike_are_drawn_as_one() -> None:
    graph: dict[str, Waits] = {"first": [], **{f"n#{n}": ["first"] for n in range(20)}}
    graph |= {f"m#{n}": ["first"] for n in range(7)}
    assert lines_of(graph | {"last": [f"n#{n}" for n in range(20)]}) == [
        "○ first (ready)",
        *(f"  · m#{n} (blocked)  ← first" for n in range(7)),
        "  · n#0… (20 blocked)  ← first",
        "    · last (blocked)  ← n#0…",
    ]


def test_an_arrow_of_many_names_few() -> None:
    names = [f"n{n:02}" for n in range(30)]
    last = lines_of({**{name: [] for name in names}, "last": names})[-1]
    assert last == "  · last (blocked)  ← n00, n01, n02, n03, n04, n05 and 24 more"
