"""The oracle of random flows says so when a flow has come to what it cannot have come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from tests.support.diary import Entry
from tests.support.flow_log import Act, logs_of
from tests.support.flow_oracle import Final, Judge, Node, every_fence_ended_once
from tests.support.random_flows import Gate, Plan, Spec, Told, plans

PLAN = Plan(
    0,
    {
        "list": Spec("list", "list"),
        "map": Spec("map", "map", (Gate("all", ("list",)),), over="list"),
        "join": Spec("join", "work", (Gate("all", ("map",), is_taken=True),)),
    },
)


@dataclass
class Story:
    """What happened to a flow: a list of two, a map of it, and a join, one after the other."""

    entries: list[Entry] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)
    state: str = "succeeded"
    now: float = 0.0

    @classmethod
    def told(cls) -> Story:
        story = cls(nodes={"map": Node("job map", "succeeded", 2)})
        story.run("list", "list", ["list@1/0", "list@1/1"])
        for n, item in enumerate(["list@1/0", "list@1/1"]):
            story.run(f"map[{n}]", f"map[{item}]", f"{item}!", {"item": item})
        story.run("join", "join", "join@1", {"0": ["list@1/0!", "list@1/1!"]})
        return story

    def run(
        self, name: str, own: str, value: Any, takes: dict[str, Any] | None = None, fence: int = 1
    ) -> None:
        """One attempt that returns this."""
        job = f"job {name}"
        self.note("begun", job, fence, Told(0, own, takes or {}))
        self.note("done", job, fence, Told(0, own, how="return", value=value))
        self.now += 1
        end = Entry(what="finish", pid=1, at=self.now, job=job, fence=fence, to="succeeded")
        self.entries.append(msgspec.structs.replace(end, accepted=True))
        self.nodes[name] = Node(job, "succeeded", value)

    def note(self, what: str, job: str, fence: int, told: Told) -> None:
        self.now += 1
        text = msgspec.json.encode(told).decode()
        self.entries.append(Entry(what=what, pid=1, at=self.now, job=job, fence=fence, text=text))

    def judge(self) -> None:
        every_fence_ended_once(self.entries)
        log = logs_of([PLAN], self.entries, self.acts)[0]
        accepted: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            if entry.what == "finish":
                accepted[entry.job].append(entry)
        Judge(log, Final(self.state, self.nodes), accepted, {}).judge()


def began_early(story: Story) -> None:
    story.entries = [
        msgspec.structs.replace(one, at=0.5)
        if (one.what, one.job) == ("begun", "job join")
        else one
        for one in story.entries
    ]


def was_given_others(story: Story) -> None:
    story.run("join", "join", "join@2", {"0": ["list@1/0!", "list@7/1!"]}, fence=2)
    story.acts.append(Act("retry", 0, 12.1, 12.2))


def ran_again_unasked(story: Story) -> None:
    story.run("join", "join", "join@2", {"0": ["list@1/0!", "list@1/1!"]}, fence=2)


def ended_twice(story: Story) -> None:
    story.entries.append(story.entries[-1])


def has_another_result(story: Story) -> None:
    story.nodes["join"] = replace(story.nodes["join"], result="join@2")


def was_skipped_for_nothing(story: Story) -> None:
    story.nodes["join"] = Node("job join", "skipped")


def was_cancelled_by_nobody(story: Story) -> None:
    story.nodes["map[1]"] = Node("job map[1]", "cancelled")


def is_live(story: Story) -> None:
    story.nodes["join"] = Node("job join", "ready")


def has_too_many_elements(story: Story) -> None:
    story.nodes["map[2]"] = story.nodes["map[1]"]


def has_failed(story: Story) -> None:
    story.state = "failed"


def has_succeeded_though_its_sink_failed(story: Story) -> None:
    told = Told(0, "join", how="fail")
    story.entries[-2] = msgspec.structs.replace(
        story.entries[-2], text=msgspec.json.encode(told).decode()
    )
    story.nodes["join"] = Node("job join", "failed")


LIES: list[tuple[Callable[[Story], None], str]] = [
    (began_early, "began before"),
    (was_given_others, "was given"),
    (ran_again_unasked, "nobody asked"),
    (ended_twice, "more than once under one fence"),
    (has_another_result, "its last attempt was"),
    (was_skipped_for_nothing, "skipped without a cause"),
    (was_cancelled_by_nobody, "nobody cancelled it"),
    (is_live, "the flow is over"),
    (has_too_many_elements, "not 2"),
    (has_failed, r"the flow should be \{'succeeded'\}"),
    (has_succeeded_though_its_sink_failed, r"the flow should be \{'failed'\}"),
]


def test_a_flow_that_went_well_is_believed() -> None:
    Story.told().judge()


@pytest.mark.parametrize(("lie", "found"), LIES, ids=[lie.__name__ for lie, _ in LIES])
def test_a_flow_that_cannot_have_been_is_not(lie: Callable[[Story], None], found: str) -> None:
    story = Story.told()
    lie(story)
    with pytest.raises(AssertionError, match=found):
        story.judge()


def test_random_flows_have_all_kinds_of_nodes_and_conditions() -> None:
    specs = [spec for plan in plans(300, seed=1) for spec in plan.nodes.values()]
    assert {spec.kind for spec in specs} == {"work", "list", "map", "grow", "child"}
    gates = {gate.kind for spec in specs for gate in spec.gates}
    assert gates == {"all", "any", "quorum", "failed", "ended", "share"}
