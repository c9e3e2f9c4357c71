"""Every commit of a flow is a crash point: a program dies before it, after it, or loses the answer.
Another program finishes the work, and nothing is lost, early or done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec
import pytest

from holdfast.flow import growing
from holdfast.flow.elements import element_ids
from holdfast.flow.growing import Join, JoinCondition, MapPlan, growths
from holdfast.flow.ids import undo_flow_id
from holdfast.flow.model import CloseWhat, FlowState, NodeInput
from holdfast.job.ends import End
from holdfast.job.policy import encode_policy
from holdfast.job.record import Claimed
from holdfast.job.state import ENDED, JobState
from holdfast.job.step import StepRecord
from holdfast.job.undo import Undo as UndoneBy
from holdfast.job.undo import encode_undo
from tests.conformance.builders import FAILED, QUEUE, RETURNED, STEADY, TASK, Scene
from tests.conformance.test_flows_extend import grown
from tests.support.cascades import cut_off_at
from tests.support.crash_points import Program, Story, again_if_lost, sweep
from tests.support.flows import Trip, Waits, any_of, ended, failed, new_flow
from tests.support.formula import FlowModel

S = JobState


def by_formula(graph: dict[str, Waits], ends: dict[str, JobState]) -> FlowModel:
    """What a flow comes to whose nodes end like this."""
    model = FlowModel(dict(graph))
    while ready := [name for name, state in model.states.items() if state is S.READY]:
        for name in ready:
            model.end(name, ends.get(name, S.SUCCEEDED))
    return model


class Release(Story):
    """Nodes end and release others, skip others, and end the flow."""

    graph: ClassVar[dict[str, Waits]] = {
        "a": [],
        "b": ["a"],
        "c": ["a"],
        "d": ["b", "c"],
        "e": any_of("b", "d"),
        "f": failed("c"),
        "g": ended("d", "f"),
        "h": ["d"],
    }
    ends: ClassVar[Mapping[str, End]] = {"c": FAILED}

    async def prepare(self, scene: Scene) -> Trip:
        return await Trip.begin(scene, self.graph)

    async def judge(self, trip: Trip, ran: Sequence[str]) -> None:
        model = by_formula(self.graph, {"c": S.FAILED})
        states = {name: node.state for name, node in (await trip.nodes()).items()}
        assert states == model.states
        assert (await trip.info()).state is model.flow is FlowState.FAILED
        skipped = {name for name, state in states.items() if state is S.SKIPPED}
        assert not skipped & set(ran)


class Start(Release):
    """The flow itself is written by the program that may die; its caller then writes it again."""

    ends: ClassVar[Mapping[str, End]] = {}

    async def prepare(self, scene: Scene) -> Trip:
        flow = new_flow(self.graph, unique_key="order:1")
        return Trip(scene, flow, {node.name: node.job.id for node in flow.nodes})

    async def play(self, program: Program, trip: Trip) -> None:
        await self.start(program, trip)
        await program.drain()

    async def take_over(self, program: Program, trip: Trip) -> None:
        await self.start(program, trip)

    async def start(self, program: Program, trip: Trip) -> None:
        await again_if_lost(lambda: program.store.flows.start([trip.flow]))

    async def judge(self, trip: Trip, ran: Sequence[str]) -> None:
        info = await trip.info()
        assert (info.total, info.state) == (len(self.graph), FlowState.SUCCEEDED)
        model = by_formula(self.graph, {})
        assert {name: node.state for name, node in (await trip.nodes()).items()} == model.states


class Extend(Story):
    """A node adds two nodes, and another node waits for them."""

    async def prepare(self, scene: Scene) -> Trip:
        trip = await Trip.begin(scene, {"a": [], "x": [], "z": ["a"]})
        by = await scene.live(trip.ids["a"])
        self.growth = grown(trip, by, {"b": ["x"], "c": ["b"]}, z=["c"])
        return trip

    async def run(self, program: Program, job: Claimed, told: NodeInput) -> End:
        if told.name == "a":
            await program.extend(msgspec.structs.replace(self.growth, fence=job.fence))
        return RETURNED

    async def judge(self, trip: Trip, ran: Sequence[str]) -> None:
        assert await trip.states() == dict.fromkeys("abcxz", "succeeded")
        assert ((info := await trip.info()).total, info.state) == (5, FlowState.SUCCEEDED)
        assert len(await trip.scene.store.flows.graph(trip.id)) == 2, "it grew once"
        assert ran.index("z") > ran.index("c"), "z waited for what was added"


class Map(Story):
    """A map adds its elements in bites, each with gates of those that wait for all of them, and
    then the gate of a share."""

    COUNT = 5

    async def prepare(self, scene: Scene) -> Trip:
        behind: dict[str, Waits] = {"join": ["map"], "end": ended("map"), "share": ["map"]}
        trip = await Trip.begin(scene, {"map": [], **behind})
        end, share = trip.ids["end"], trip.ids["share"]
        joins = (
            *(Join(trip.ids["join"]), Join(end, JoinCondition.END)),
            *(Join(share, share=0.5), Join(share, JoinCondition.END)),
        )
        policy = encode_policy(STEADY)
        self.plan = MapPlan("map", TASK, QUEUE, policy, "{}", "item", joins=joins)
        elements = element_ids(trip.ids["map"], range(self.COUNT))
        trip.ids |= {f"map[{index}]": job for index, job in enumerate(elements)}
        return trip

    async def run(self, program: Program, job: Claimed, told: NodeInput) -> End:
        if told.name == "map":
            items = ["1"] * self.COUNT
            for growth in growths(self.plan, items, told.flow, job.id, job.fence):
                await program.extend(growth)
        return RETURNED

    async def judge(self, trip: Trip, ran: Sequence[str]) -> None:
        assert await trip.states() == dict.fromkeys(trip.ids, "succeeded")
        assert (await trip.info()).total == self.COUNT + 4
        assert sorted(ran[-3:]) == ["end", "join", "share"]
        graph = await trip.scene.store.flows.graph(trip.id)
        assert len(graph) == 1 + 3 + 1, "each growth was written once"


class LosersGo(Story):
    """Who comes first lets the others go: one waits, one is behind another, one is needed."""

    graph: ClassVar[dict[str, Waits]] = {
        "quick": [],
        "far": ["quick"],
        "slow": ["far"],
        "needed": ["far"],
        "first": any_of("quick", "slow", "needed", cancel=True),
        "other": ["needed"],
    }

    async def prepare(self, scene: Scene) -> Trip:
        return await Trip.begin(scene, self.graph)

    async def judge(self, trip: Trip, ran: Sequence[str]) -> None:
        states = await trip.states()
        assert states.pop("slow") in ("succeeded", "cancelled")
        assert set(states.values()) == {"succeeded"}, "F7: an open gate needs it"
        assert (await trip.info()).state is FlowState.SUCCEEDED


class Close(Story):
    """A flow is cancelled in the middle."""

    graph: ClassVar[dict[str, Waits]] = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}

    async def prepare(self, scene: Scene) -> Trip:
        return await Trip.begin(scene, self.graph)

    async def play(self, program: Program, trip: Trip) -> None:
        await program.work()
        await self.take_over(program, trip)
        await program.drain()

    async def take_over(self, program: Program, trip: Trip) -> None:
        await again_if_lost(lambda: program.store.flows.close([trip.id], CloseWhat.ALL))

    async def judge(self, trip: Trip, ran: Sequence[str]) -> None:
        assert (await trip.info()).state is FlowState.CANCELLED
        assert "d" not in ran, "F6: nothing begins after the cancel"
        assert {node.state for node in (await trip.nodes()).values()} <= ENDED


class Retry(Story):
    """A node fails for good, the operator retries the flow, and then it succeeds."""

    graph: ClassVar[dict[str, Waits]] = {
        "a": [],
        "b": ["a"],
        "c": ["b"],
        "d": ["a"],
        "e": ["c", "d"],
    }

    async def prepare(self, scene: Scene) -> Trip:
        self.fixed = False
        return await Trip.begin(scene, self.graph)

    async def run(self, program: Program, job: Claimed, told: NodeInput) -> End:
        return FAILED if told.name == "b" and not self.fixed else RETURNED

    async def play(self, program: Program, trip: Trip) -> None:
        await program.drain()
        await self.take_over(program, trip)
        await program.drain()

    async def take_over(self, program: Program, trip: Trip) -> None:
        await program.drain()
        self.fixed = True
        await program.retry(trip)

    async def judge(self, trip: Trip, ran: Sequence[str]) -> None:
        assert await trip.states() == dict.fromkeys("abcde", "succeeded")
        assert (await trip.info()).state is FlowState.SUCCEEDED
        kept = {name: node.attempts for name, node in (await trip.nodes()).items()}
        assert kept["b"] <= 2, "its attempts began anew"


class Cascade(Story):
    """A failure skips more nodes than one transaction skips."""

    graph: ClassVar[dict[str, Waits]] = {
        "n0": [],
        **{f"n{number}": [f"n{number - 1}"] for number in range(1, 8)},
    }
    ends: ClassVar[Mapping[str, End]] = {"n0": FAILED}

    async def prepare(self, scene: Scene) -> Trip:
        return await Trip.begin(scene, self.graph)

    async def judge(self, trip: Trip, ran: Sequence[str]) -> None:
        assert Counter((await trip.states()).values()) == {"failed": 1, "skipped": 7}
        assert (await trip.info()).state is FlowState.FAILED


class Pause(Release):
    """Somebody pauses the flow and lets it go on."""

    async def play(self, program: Program, trip: Trip) -> None:
        await again_if_lost(lambda: program.store.flows.pause([trip.id]))
        await program.drain()
        await self.take_over(program, trip)
        await program.drain()

    async def take_over(self, program: Program, trip: Trip) -> None:
        await again_if_lost(lambda: program.store.flows.resume([trip.id]))


@pytest.fixture
def small_bites() -> Iterator[None]:
    with cut_off_at(3), pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "ELEMENTS_AT_ONCE", 2)
        yield


class Undo(Story):
    """A job has ended badly, and what it has done is undone."""

    async def prepare(self, scene: Scene) -> Trip:
        trip = await Trip.begin(scene, {"job": []})
        [node] = await scene.claim(1)
        undo = encode_undo(UndoneBy(TASK, "what", QUEUE, encode_policy(STEADY)))
        done = [
            StepRecord(node.id, node.fence, name, n, result=f'"{name}"', undo=undo)
            for n, name in enumerate("abc")
        ]
        assert all(await scene.store.steps.record(done))
        assert (await scene.finish(await scene.live(node.id), FAILED)).accepted
        return trip

    async def judge(self, trip: Trip, ran: Sequence[str]) -> None:
        store = trip.scene.store
        flow = undo_flow_id(trip.ids["job"])
        [info] = await store.flows.get([flow])
        assert (info.total, info.state) == (3, FlowState.SUCCEEDED)
        assert list(dict.fromkeys(ran)) == ["c", "b", "a"], "F13: in reverse, each of them"
        jobs = await store.jobs.get([node.job_id for node in await store.flows.nodes(flow, 10)])
        assert {str(job.args["what"]) for job in jobs} == {"a", "b", "c"}
        assert all(job.attempts - job.crashes == 1 for job in jobs), "once each"


@pytest.mark.parametrize(
    "story",
    [Release, Start, LosersGo, Close, Retry, Cascade, Pause, Undo],
    ids=lambda one: one.__name__,
)
async def test_a_flow_survives_a_death_at_each_of_its_writes(
    scene: Scene, small_bites: None, story: type[Story]
) -> None:
    refused = await sweep(scene, story())
    assert refused.finishes, "no zombie tried to end a node"


@pytest.mark.parametrize("story", [Extend, Map], ids=lambda one: one.__name__)
async def test_a_flow_that_grows_survives_a_death_at_each_of_its_writes(
    scene: Scene, small_bites: None, story: type[Story]
) -> None:
    refused = await sweep(scene, story())
    assert refused.finishes, "no zombie tried to end a node"
    assert refused.extends, "no zombie tried to add to its flow"
