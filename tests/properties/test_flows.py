"""Random graphs on every store, beside a brute-force evaluation of their formulas.

After each step every node must be exactly where its formula says: F1 (won + lost + undecided =
total), F2 (no gate is met or impossible and still there), F3 and F4 (released or skipped if and
only if the formula is true or can no longer be), F5 (the flow counts its live nodes and ends once,
as its sinks say), F7 (no loser that an open gate needs is cancelled), F12 (a start is whole).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.clock import ManualClock
from holdfast.errors import BadFlow
from holdfast.flow.drift import circle_of, drift_of
from holdfast.flow.errands import do_errand
from holdfast.flow.graph import Graph
from holdfast.flow.losers import losers_of, skipped_behind
from holdfast.flow.model import (
    ANY_END,
    FAILURE,
    FLOW_ENDED,
    SUCCESS,
    CloseWhat,
    FlowState,
    Grown,
    Losers,
)
from holdfast.flow.reopening import plan_retry
from holdfast.job.ends import Cancelled, DeadlinePassed, End, Skipped
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import ENDED, JobState
from holdfast.store.contract.store import Store
from tests.conformance.builders import FAILED, RETURNED, Scene
from tests.conformance.test_flows_extend import grown
from tests.support.backends import Backend, opened
from tests.support.flows import Trip, Waits, Wanted, new_flow
from tests.support.formula import FlowModel

S = JobState
ENDS: dict[str, tuple[End, JobState]] = {
    "succeed": (RETURNED, S.SUCCEEDED),
    "fail": (FAILED, S.FAILED),
    "cancel": (Cancelled("not wanted"), S.CANCELLED),
    "expire": (DeadlinePassed(), S.EXPIRED),
    "skip": (Skipped("nothing to do"), S.SKIPPED),
}


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Waits]:
    names = [f"n{number}" for number in range(draw(st.integers(1, 9)))]
    graph: dict[str, Waits] = {}
    for place, name in enumerate(names):
        before = names[:place]
        gates: list[Wanted | str] = []
        for _ in range(draw(st.integers(0, 2)) if before else 0):
            some = draw(st.lists(st.sampled_from(before), min_size=1, max_size=4, unique=True))
            need = draw(st.integers(1, len(some)))
            wants = draw(st.sampled_from([SUCCESS, SUCCESS, FAILURE, ANY_END]))
            losers = draw(st.sampled_from(list(Losers)))
            gates.append(Wanted(need, tuple(some), wants, losers))
        graph[name] = gates
    return graph


STEPS = st.one_of(
    st.tuples(st.sampled_from(sorted(ENDS)), st.integers(0, 8)),
    st.tuples(st.sampled_from(["pause", "resume", "retry", "close", "errands"]), st.just(0)),
    st.tuples(st.just("grow"), st.integers(0, 1_000)),
)


@pytest.fixture
def loop_store(backend: Backend) -> Iterator[tuple[asyncio.Runner, Store, ManualClock]]:
    from datetime import UTC, datetime

    clock = ManualClock(datetime(2028, 2, 28, 23, 59, 59, tzinfo=UTC))
    with asyncio.Runner() as runner:
        url = runner.run(backend.empty())
        context = opened(url, clock)
        store = runner.run(context.__aenter__())
        try:
            yield runner, store, clock
        finally:
            runner.run(context.__aexit__(None, None, None))


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(graph=graphs(), steps=st.lists(STEPS, max_size=14))
def test_every_node_is_where_its_formula_says(
    loop_store: tuple[asyncio.Runner, Store, ManualClock],
    graph: dict[str, Waits],
    steps: list[tuple[str, int]],
) -> None:
    runner, store, clock = loop_store
    runner.run(_walk(store, clock, graph, steps))


async def _walk(
    store: Store, clock: ManualClock, graph: dict[str, Waits], steps: list[tuple[str, int]]
) -> None:
    scene = await Scene.on(store, clock)
    flow = new_flow(graph)
    await store.flows.start([flow])
    trip = Trip(scene, flow, {node.name: node.job.id for node in flow.nodes})
    model = FlowModel(graph)
    await _same(trip, model)
    for word, number in steps:
        await _step(trip, model, word, number)
        await _same(trip, model)
    await store.flows.close([trip.id], CloseWhat.ALL)
    model.cancel_asked = model.flow not in FLOW_ENDED
    await _errands(trip, model, all_end=True)
    assert (await trip.info()).state in FLOW_ENDED, "F14: when faults stop, every flow ends"
    await store.workers.deregister(scene.worker)


async def _step(trip: Trip, model: FlowModel, word: str, number: int) -> None:
    flows = trip.scene.store.flows
    match word:
        case "pause":
            if await flows.pause([trip.id]):
                assert model.flow is FlowState.RUNNING
                model.flow = FlowState.PAUSED
        case "resume":
            if await flows.resume([trip.id]):
                assert model.flow is FlowState.PAUSED
                model.flow = FlowState.RUNNING
                model.settle()
        case "close":
            if await flows.close([trip.id], CloseWhat.WAITING):
                model.flow, model.cancel_asked = FlowState.CANCELLING, True
        case "retry":
            await _retry(trip, model)
        case "errands":
            await _errands(trip, model)
        case "grow":
            await _grow(trip, model, number)
        case _:
            await _end(trip, model, word, number)


async def _end(trip: Trip, model: FlowModel, word: str, number: int) -> None:
    live = sorted(name for name, state in model.states.items() if state not in ENDED)
    if not live:
        return
    name = live[number % len(live)]
    end, state = ENDS[word]
    runs = model.states[name] is not S.BLOCKED
    if state in (S.SUCCEEDED, S.FAILED) and not runs:
        return
    if runs:
        await trip.claim()
    [job] = await trip.scene.store.jobs.live([trip.ids[name]])
    if runs and job.state is not S.RUNNING:
        return
    [verdict] = await trip.scene.store.jobs.finish([decide(job, end)])
    assert verdict.accepted
    model.end(name, state)


async def _grow(trip: Trip, model: FlowModel, number: int) -> None:
    """A running node adds one that waits for up to two others, perhaps before a blocked one. The
    same growth is sent twice."""
    await trip.claim()
    live = await trip.scene.store.jobs.live(list(trip.ids.values()))
    running = sorted((job for job in live if job.state is S.RUNNING), key=lambda job: job.id)
    if not running:
        return
    pick = random.Random(number)
    blocked = sorted(name for name, state in model.states.items() if state is S.BLOCKED)
    before = pick.choice([None, *blocked])
    free = sorted(set(model.graph) - (model.behind(before) if before else set()))
    some = tuple(pick.sample(free, min(len(free), pick.randint(0, 2))))
    wants = pick.choice([SUCCESS, FAILURE, ANY_END])
    gates = [Wanted(pick.randint(1, len(some)), some, wants)] if some else []
    name = f"g{len(model.graph)}"
    further: dict[str, Waits] = {} if before is None else {before: [Wanted(1, (name,))]}
    growth = grown(trip, pick.choice(running), {name: gates}, **further)
    nodes = tuple(msgspec.structs.replace(node, is_sink=before is None) for node in growth.nodes)
    growth = msgspec.structs.replace(growth, nodes=nodes)
    how = await trip.scene.store.flows.extend([growth, growth])
    if model.flow is FlowState.CANCELLING:
        assert how == [Grown.OVER, Grown.OVER]
        del trip.ids[name]
        return
    assert how == [Grown.GROWN, Grown.GROWN]
    model.grow({name: gates}, further)


async def _retry(trip: Trip, model: FlowModel) -> None:
    info, nodes = await trip.info(), list((await trip.nodes()).values())
    graph = Graph(await trip.scene.store.flows.graph(trip.id))
    try:
        plan = plan_retry(info, graph, nodes)
    except BadFlow:  # each could only be skipped again
        lost = [name for name, state in model.states.items() if state in (S.FAILED, S.EXPIRED)]
        assert all(model.hopeless(name) for name in lost)
        return
    if not plan.again:
        return
    if not await trip.scene.store.flows.reopen([plan.reopening]):
        owes_cancels = info.finished_at is None and await trip.scene.store.flows.errands(1)
        assert model.flow is FlowState.CANCELLING or owes_cancels
        return
    model.reopen(set(plan.again), set(plan.wait))


async def _errands(trip: Trip, model: FlowModel, *, all_end: bool = False) -> None:
    """Do what is owed. What it cancelled is read back: F7 says what it may not be."""
    store = trip.scene.store
    while owed := await store.flows.errands(100):
        for errand in owed:
            before = dict(model.states)
            if errand.kind == "losers" and errand.job is not None:
                model.let_go |= await let_go_by(trip, errand.job)
            await do_errand(store, errand)
            states = {name: node.state for name, node in (await trip.nodes()).items()}
            gone = {name for name, state in states.items() if state is S.CANCELLED} - {
                name for name, state in before.items() if state is S.CANCELLED
            }
            if errand.kind == "losers":
                assert not gone & _needed_by_others(model, gone), "F7: an open gate needs it"
            for name in gone:
                model.states[name] = S.CANCELLED
            model.settle()
    if all_end:
        live = [trip.ids[name] for name, state in model.states.items() if state not in ENDED]
        for job in await store.jobs.live(live):
            await store.jobs.finish([decide(job, Cancelled())])


async def let_go_by(trip: Trip, met: JobId) -> set[str]:
    graph = Graph(await trip.scene.store.flows.graph(trip.id))
    states = {node.job_id: node.state for node in (await trip.nodes()).values()}
    losers = losers_of(graph, met, states)
    return {graph.names[job] for job in skipped_behind(graph, losers, states)}


def _needed_by_others(model: FlowModel, gone: set[str]) -> set[str]:
    """What the open gates of nodes that are still blocked wait for."""
    return {
        name
        for other, state in model.states.items()
        if state is S.BLOCKED and other not in gone
        for gate in model.gates(other)
        if model.counted(gate)[0] < gate.need
        for name in gate.names
    }


async def _same(trip: Trip, model: FlowModel) -> None:
    nodes = await trip.nodes()
    shown = {
        name: S.READY if node.state is S.RUNNING else node.state for name, node in nodes.items()
    }
    assert shown == model.states
    info = await trip.info()
    assert info.state is model.flow
    assert info.open == model.live
    for node in nodes.values():
        for gate in node.gates:
            assert gate.won + gate.lost + len(gate.edges) == gate.total
    assert info.state not in FLOW_ENDED or info.failed == sum(map(model.is_bad, model.sinks))
    graph = Graph(await trip.scene.store.flows.graph(trip.id))
    assert drift_of(info, graph, list(nodes.values())) == []
    assert circle_of(list(nodes.values())) == []
    assert await trip.scene.store.telemetry.recount() in ([], None)
