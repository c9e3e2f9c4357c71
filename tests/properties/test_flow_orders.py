"""Random graphs whose nodes end in several orders: for one set of ends there is one answer.

Nodes that end because of others are part of the answer and not of the set: the same ends skip the
same nodes, end the flow in the same state, and count the same sinks as failed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from holdfast.clock import ManualClock
from holdfast.flow.model import ANY_END, FAILURE, FLOW_ENDED, SUCCESS, FlowState
from holdfast.job.ends import Cancelled, DeadlinePassed, End, Skipped
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from tests.conformance.builders import FAILED, RETURNED, Scene
from tests.support.backends import Backend, opened
from tests.support.flows import Trip, Waits, Wanted
from tests.support.formula import FlowModel

S = JobState
ENDS: dict[JobState, End] = {
    S.SUCCEEDED: RETURNED,
    S.FAILED: FAILED,
    S.EXPIRED: DeadlinePassed(),
    S.CANCELLED: Cancelled("not wanted"),
    S.SKIPPED: Skipped("nothing to do"),
}
SUCCEED_MOSTLY = [*ENDS, S.SUCCEEDED, S.SKIPPED]
ORDERS = 4


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Waits]:
    names = [f"n{number}" for number in range(draw(st.integers(3, 9)))]
    graph: dict[str, Waits] = {}
    for place, name in enumerate(names):
        before = names[:place]
        gates: list[Wanted | str] = []
        for _ in range(draw(st.integers(0, 2)) if place > 1 else 0):
            some = draw(st.lists(st.sampled_from(before), min_size=1, max_size=4, unique=True))
            need = draw(st.sampled_from([len(some), len(some), 1, (len(some) + 1) // 2]))
            wants = draw(st.sampled_from([SUCCESS, SUCCESS, SUCCESS, FAILURE, ANY_END]))
            gates.append(Wanted(need, tuple(some), wants))
        graph[name] = gates
    return graph


@pytest.fixture
def runner_and_scene(backend: Backend) -> Iterator[tuple[asyncio.Runner, Scene]]:
    clock = ManualClock(datetime(2028, 2, 28, 23, 59, 59, tzinfo=UTC))
    with asyncio.Runner() as runner:
        context = opened(runner.run(backend.empty()), clock)
        store: Store = runner.run(context.__aenter__())
        try:
            yield runner, runner.run(Scene.on(store, clock))
        finally:
            runner.run(context.__aexit__(None, None, None))


Answer = tuple[dict[str, str], FlowState, int]


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(
    graph=graphs(),
    ends=st.lists(st.sampled_from(SUCCEED_MOSTLY), min_size=9, max_size=9),
    seed=st.integers(0, 10_000),
)
def test_one_set_of_ends_has_one_answer(
    runner_and_scene: tuple[asyncio.Runner, Scene],
    graph: dict[str, Waits],
    ends: list[JobState],
    seed: int,
) -> None:
    runner, scene = runner_and_scene
    chosen = dict(zip(graph, ends, strict=False))
    pick = random.Random(seed)
    answers = [runner.run(_walk(scene, graph, chosen, pick)) for _ in range(ORDERS)]
    assert all(answer == answers[0] for answer in answers), answers
    model = FlowModel(graph)
    assert answers[0] == _expected(model, chosen)


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(
    graph=graphs(),
    ends=st.lists(st.sampled_from(SUCCEED_MOSTLY), min_size=9, max_size=9),
    seed=st.integers(0, 10_000),
)
def test_a_cancel_of_what_is_blocked_counts_alike_whenever_it_comes(
    runner_and_scene: tuple[asyncio.Runner, Scene],
    graph: dict[str, Waits],
    ends: list[JobState],
    seed: int,
) -> None:
    """A cancel may come too late, when others have decided the node: that is another set of ends.
    Orders that come to the same ends must agree."""
    runner, scene = runner_and_scene
    chosen = dict(zip(graph, ends, strict=False))
    assume(any(graph[name] for name in graph))
    pick = random.Random(seed)
    blocked = pick.choice([name for name in graph if graph[name]])
    by_ends: dict[str, set[tuple[FlowState, int]]] = {}
    for _ in range(ORDERS):
        states, state, failed = runner.run(_walk(scene, graph, chosen, pick, cancel=blocked))
        by_ends.setdefault(repr(sorted(states.items())), set()).add((state, failed))
    assert all(len(answers) == 1 for answers in by_ends.values()), by_ends


async def _walk(
    scene: Scene,
    graph: dict[str, Waits],
    ends: dict[str, JobState],
    pick: random.Random,
    cancel: str | None = None,
) -> Answer:
    """End all nodes, in an order that is drawn: one or two together, and with a pause now and
    then."""
    jobs = scene.store.jobs
    trip = await Trip.begin(scene, graph)
    while (info := await trip.info()).state not in FLOW_ENDED:
        if pick.random() < 0.1:
            await scene.store.flows.pause([trip.id])
        await trip.claim()
        states = await trip.states()
        running = sorted(name for name, state in states.items() if state == "running")
        some = pick.sample(running, min(len(running), pick.choice([1, 1, 2])))
        chosen = [(name, ENDS[ends[name]]) for name in some]
        if cancel is not None and states[cancel] == "blocked" and pick.random() < 0.4:
            chosen = [(cancel, ENDS[S.CANCELLED])]
        live = {job.id: job for job in await jobs.live([trip.ids[name] for name, _ in chosen])}
        await jobs.finish([decide(live[trip.ids[name]], end) for name, end in chosen])
        if pick.random() < 0.5 or not chosen:
            await scene.store.flows.resume([trip.id])
    nodes, states = await trip.nodes(), await trip.states()
    _require_reasons(graph, states, {name: node.reason for name, node in nodes.items()})
    return states, info.state, info.failed


def _require_reasons(
    graph: dict[str, Waits], states: dict[str, str], reasons: dict[str, str | None]
) -> None:
    """Who needs all of some nodes and lost one of them is skipped for a bad end, if there is
    one."""
    model = FlowModel(graph)
    model.states = {name: JobState(state) for name, state in states.items()}
    model.skipped = {name for name, state in model.states.items() if state is S.SKIPPED}
    model.settle()
    for name in model.sinks:
        gates = model.hopeless(name)
        reason = reasons[name] or ""
        if model.states[name] is S.SKIPPED and gates and reason.startswith("'"):
            named = reason.split("'")[1]
            if all(gate.need == len(gate.names) for gate in gates):
                assert model.is_bad(named) == model.is_bad(name), (name, reason)


def _expected(model: FlowModel, ends: dict[str, JobState]) -> Answer:
    while ready := [name for name, state in model.states.items() if state is S.READY]:
        model.end(ready[0], ends[ready[0]])
    failed = sum(map(model.is_bad, model.sinks))
    return {name: state.value for name, state in model.states.items()}, model.flow, failed
