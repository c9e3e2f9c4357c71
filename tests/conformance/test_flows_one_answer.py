"""A flow ends as its nodes have ended, in whatever order they did."""

from __future__ import annotations

from itertools import permutations

import pytest

from holdfast.flow.errands import do_errand
from holdfast.flow.graph import Graph
from holdfast.flow.growing import (
    ELEMENTS_AT_ONCE,
    Join,
    JoinCondition,
    MapPlan,
    growths,
)
from holdfast.flow.model import CASCADE_LIMIT, FlowState, Grown
from holdfast.flow.reopening import plan_retry
from holdfast.job.ends import Cancelled, DeadlinePassed, End, Skipped
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, encode_policy
from tests.conformance.builders import FAILED, QUEUE, RETURNED, TASK, Scene
from tests.support.flows import Trip, Waits, any_of, ended, failed, quorum

CANCELLED, SKIPPED = Cancelled("not wanted"), Skipped("nothing to do")
Case = tuple[dict[str, Waits], dict[str, End], FlowState, dict[str, str]]

CASES: dict[str, Case] = {
    "a skip and a failure": (
        {"a": [], "s": [], "x": ["a", "s"]},
        {"a": FAILED, "s": SKIPPED},
        FlowState.FAILED,
        {"x": "'a' is failed"},
    ),
    "a skip and a deadline": (
        {"a": [], "s": [], "x": ["a", "s"]},
        {"a": DeadlinePassed(), "s": SKIPPED},
        FlowState.FAILED,
        {"x": "'a' is expired"},
    ),
    "a skip and a cancel": (
        {"a": [], "s": [], "x": ["a", "s"]},
        {"a": CANCELLED, "s": SKIPPED},
        FlowState.CANCELLED,
        {"x": "'a' is cancelled"},
    ),
    "a skip alone": (
        {"a": [], "s": [], "x": ["a", "s"]},
        {"a": RETURNED, "s": SKIPPED},
        FlowState.SUCCEEDED,
        {"x": "'s' is skipped"},
    ),
    "a failure further back": (
        {"a": [], "b": ["a"], "s": [], "x": ["b", "s"], "y": ["x"]},
        {"a": FAILED, "s": SKIPPED},
        FlowState.FAILED,
        {"x": "'b' is skipped", "y": "'x' is skipped"},
    ),
    "a failure at another gate": (
        {"a": [], "s": [], "x": [any_of("a"), any_of("s")]},
        {"a": FAILED, "s": SKIPPED},
        FlowState.FAILED,
        {"x": "'a' is failed"},
    ),
    "a failure that a quorum takes": (
        {"a": [], "b": [], "c": [], "s": [], "x": [quorum(2, "a", "b", "c"), any_of("s")]},
        {"a": RETURNED, "b": RETURNED, "c": FAILED, "s": SKIPPED},
        FlowState.SUCCEEDED,
        {"x": "'s' is skipped"},
    ),
    "a quorum that two skips make impossible": (
        {"a": [], "b": [], "c": [], "x": quorum(2, "a", "b", "c")},
        {"a": SKIPPED, "b": SKIPPED, "c": RETURNED},
        FlowState.SUCCEEDED,
        {},
    ),
    "a quorum that loses a failure too": (
        {"a": [], "b": [], "c": [], "x": quorum(2, "a", "b", "c")},
        {"a": SKIPPED, "b": SKIPPED, "c": FAILED},
        FlowState.FAILED,
        {},
    ),
    "a failure that is handled": (
        {"a": [], "h": failed("a"), "s": [], "x": ["h", "s"], "e": ended("a", "s")},
        {"a": FAILED, "s": SKIPPED, "h": RETURNED, "e": RETURNED},
        FlowState.SUCCEEDED,
        {"x": "'s' is skipped"},
    ),
}


async def finish(scene: Scene, trip: Trip, ends: dict[str, End], order: list[str]) -> None:
    """End these nodes in this order, each as soon as it runs."""
    left = list(order)
    while left:
        await trip.claim()
        states = await trip.states()
        name = next(one for one in left if states[one] == "running")
        left.remove(name)
        [job] = await scene.store.jobs.live([trip.ids[name]])
        [verdict] = await scene.store.jobs.finish([decide(job, ends[name])])
        assert verdict.accepted


@pytest.mark.parametrize("case", CASES)
async def test_every_order_of_ends_gives_the_same_answer(scene: Scene, case: str) -> None:
    graph, ends, state, reasons = CASES[case]
    for order in permutations(sorted(ends)):
        trip = await Trip.begin(scene, graph)
        await finish(scene, trip, ends, list(order))
        info = await trip.info()
        assert (info.state, info.open) == (state, 0), order
        assert (info.failed > 0) == (state is not FlowState.SUCCEEDED), order
        nodes = await trip.nodes()
        assert {name: nodes[name].reason for name in reasons} == reasons, order
        assert (info.expires_at is None) == (state is FlowState.CANCELLED)


async def test_ends_of_one_batch_give_the_same_answer(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "x": ["a", "b"]})
    await trip.claim()
    jobs = {job.id: job for job in await scene.store.jobs.live(list(trip.ids.values()))}
    await scene.store.jobs.finish(
        [
            decide(jobs[trip.ids["a"]], SKIPPED),
            decide(jobs[trip.ids["b"]], FAILED),
        ]
    )
    assert (await trip.info()).state is FlowState.FAILED
    assert (await trip.nodes())["x"].reason == "'b' is failed"


@pytest.mark.parametrize("first", ["a", "s"])
async def test_a_pause_does_not_change_the_answer(scene: Scene, first: str) -> None:
    trip = await Trip.begin(scene, {"a": [], "s": [], "x": ["a", "s"]})
    ends: dict[str, End] = {"a": FAILED, "s": SKIPPED}
    await trip.end(first, end=ends.pop(first))
    await scene.store.flows.pause([trip.id])
    for name, end in ends.items():
        await trip.end(name, end=end)
    await scene.store.flows.resume([trip.id])
    assert (await trip.info()).state is FlowState.FAILED


async def test_a_failure_behind_a_long_cascade_of_skips_counts(scene: Scene) -> None:
    """The cascade is cut off, and goes on as an errand."""
    count = 2 * CASCADE_LIMIT
    graph: dict[str, Waits] = {"s": [], "a": []}
    graph |= {f"n{n:04}": [f"n{n - 1:04}"] if n else ["s", "a"] for n in range(count)}
    trip = await Trip.begin(scene, graph)
    await trip.end("s", end=SKIPPED)
    await do_errands(scene)
    assert (await trip.info()).open == 1
    await trip.end("a", end=FAILED)
    info = await trip.info()
    assert (info.state, info.failed) == (FlowState.FAILED, 1)


async def test_a_loser_is_no_failure_of_what_was_skipped(scene: Scene) -> None:
    """`x` was skipped while `a` ran. Then `b` wins, nobody needs `a` and `z`, and they are
    cancelled."""
    race = any_of("a", "b", cancel=True)
    trip = await Trip.begin(
        scene, {"z": [], "a": ["z"], "b": [], "s": [], "w": race, "x": ["a", "s"]}
    )
    await trip.end("s", end=SKIPPED)
    await trip.end("b")
    await do_errands(scene)
    await trip.end("z", end=Cancelled())
    assert (await trip.states())["a"] == "cancelled"
    await trip.end("w")
    info = await trip.info()
    assert (info.state, info.failed) == (FlowState.SUCCEEDED, 0)
    assert (await trip.nodes())["x"].reason == "'s' is skipped"


async def test_a_node_that_failed_late_runs_again_by_a_retry(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "s": [], "x": ["a", "s"], "y": []})
    await trip.end("s", end=SKIPPED)
    await trip.end("a", end=FAILED)
    for live in (True, False):
        info = await trip.info()
        assert (info.state in (FlowState.RUNNING,), info.failed) == (live, 0 if live else 1)
        graph = Graph(await scene.store.flows.graph(trip.id))
        plan = plan_retry(info, graph, list((await trip.nodes()).values()), ["a", "s"])
        assert await scene.store.flows.reopen([plan.reopening]) == [trip.id]
        assert (await trip.info()).failed == 0
        await trip.end("s", end=SKIPPED)
        if live:
            await trip.end("a", end=FAILED)
            await trip.end("y")
    await trip.end("a")
    info = await trip.info()
    assert (info.state, info.failed) == (FlowState.SUCCEEDED, 0)
    assert (await trip.nodes())["x"].reason == "'s' is skipped"


async def test_a_node_that_is_skipped_again_counts_what_had_ended_before(scene: Scene) -> None:
    """`c` was cancelled in the first life of the flow. `x` is skipped at once in the second, for no
    bad end, and one of its gates has lost `c`."""
    trip = await Trip.begin(
        scene, {"s": [], "c": [], "y": [], "x": ["s", any_of("c", "y")], "z": ["x"]}
    )
    await trip.end("s", end=SKIPPED)
    await trip.end("c", end=CANCELLED)
    await trip.end("y", end=SKIPPED)
    assert (await trip.info()).state is FlowState.CANCELLED
    graph = Graph(await scene.store.flows.graph(trip.id))
    plan = plan_retry(await trip.info(), graph, list((await trip.nodes()).values()), ["y"])
    assert await scene.store.flows.reopen([plan.reopening]) == [trip.id]
    await trip.end("y", end=SKIPPED)
    info = await trip.info()
    assert (info.state, info.failed) == (FlowState.CANCELLED, 1)
    assert (await trip.nodes())["x"].reason == "'c' is cancelled"


async def test_a_flow_that_ended_leaves_no_gate_behind(scene: Scene) -> None:
    """A second life of the flow judges what is skipped in it, and nothing of the first."""
    trip = await Trip.begin(scene, {"a": [], "s": [], "x": ["a", "s"], "b": []})
    await trip.end("s", end=SKIPPED)
    await trip.end("a")
    await trip.end("b", end=FAILED)
    graph = Graph(await scene.store.flows.graph(trip.id))
    plan = plan_retry(await trip.info(), graph, list((await trip.nodes()).values()))
    assert await scene.store.flows.reopen([plan.reopening]) == [trip.id]
    await trip.end("b")
    assert (await trip.info()).state is FlowState.SUCCEEDED
    assert (await trip.states())["x"] == "skipped"


@pytest.mark.parametrize("let_go", [False, True], ids=["missed", "let go"])
async def test_a_node_that_was_let_go_makes_nobody_bad(scene: Scene, let_go: bool) -> None:
    trip = await Trip.begin(scene, {"a": [], "s": [], "x": ["a", "s"], "b": []})
    await trip.end("s", end=SKIPPED)
    await scene.store.flows.let_go(trip.id, [trip.ids["a"]] if let_go else [])
    await trip.end("a", end=CANCELLED)
    await trip.end("b")
    info = await trip.info()
    ends = FlowState.SUCCEEDED if let_go else FlowState.CANCELLED
    assert (info.open, info.failed, info.state) == (0, int(not let_go), ends)


async def do_errands(scene: Scene) -> None:
    while owed := await scene.store.flows.errands(10):
        for errand in owed:
            await do_errand(scene.store, errand)


@pytest.mark.parametrize("early", [0, 1, 2], ids=["no bite", "one bite", "both bites"])
async def test_elements_that_are_made_when_their_join_is_skipped_count_alike(
    scene: Scene, early: int
) -> None:
    """A node `s` skips itself before, between and after the two bites of a map. Two nodes wait for
    all elements, and one for half of them: what failed is too little to keep that from running."""
    joins = ("join", "share", "any")
    graph: dict[str, Waits] = {"map": [], "s": [], **{name: ["map", "s"] for name in joins}}
    trip = await Trip.begin(scene, {**graph, "last": ["join"]})
    await trip.claim()
    by = await scene.live(trip.ids["map"])
    told = (
        Join(trip.ids["join"]),
        Join(trip.ids["share"], share=0.25),
        Join(trip.ids["any"], wait=JoinCondition.END),
    )
    plan = MapPlan("map", TASK, QUEUE, encode_policy(Policy()), "{}", "n", joins=told)
    items = [str(n) for n in range(ELEMENTS_AT_ONCE + 2)]
    made = list(growths(plan, items, trip.id, by.id, by.fence))
    for n, growth in enumerate(made):
        if n == early:
            await trip.end("s", end=SKIPPED)
        assert await scene.store.flows.extend([growth, growth]) == [Grown.GROWN] * 2
    nodes = await trip.nodes()
    last = f"map[{len(items) - 1}]"
    trip.ids |= {name: node.job_id for name, node in nodes.items()}
    await trip.end(last, end=FAILED)
    left = [name for name, state in (await trip.states()).items() if state == "running"]
    await trip.end(*left)
    info, nodes = await trip.info(), await trip.nodes()
    assert (info.state, info.open, info.failed) == (FlowState.FAILED, 0, 1)
    assert nodes["join"].reason == f"'{last}' is failed"
    assert nodes["share"].reason == nodes["any"].reason == "'s' is skipped"
    assert nodes["last"].reason == "'join' is skipped"
