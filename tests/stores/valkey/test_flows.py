"""Flows on Valkey: one partition each, bounded scripts, a server without memory, two finishers."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest

from holdfast.clock import ManualClock
from holdfast.errors import BadOption, StoreError
from holdfast.flow.ids import new_flow_id, new_node_id
from holdfast.flow.inputs import Input, Result, encode_inputs
from holdfast.flow.model import CloseWhat, ErrandKind, FlowState, NewFlow, Reopening
from holdfast.job.ends import End, Returned
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.record import NodeFacts
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.store.contract.flows import FlowFilter
from holdfast.store.valkey import flow_requests, flows
from holdfast.store.valkey.claiming import INLINE_BODIES
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.inserting import job_row
from holdfast.store.valkey.layout import Record
from holdfast.store.valkey.moments import to_micros
from holdfast.store.valkey.rows import to_record
from holdfast.store.valkey.store import ValkeyStore
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import FAILED, RETURNED, Scene
from tests.stores.valkey.test_memory import limited
from tests.support.backends import opened
from tests.support.cascades import cut_off_at
from tests.support.flows import Trip, Waits, any_of, failed, new_flow

DIAMOND: dict[str, Waits] = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


def connections_of(scene: Scene) -> Connections:
    assert isinstance(scene.store, ValkeyStore)
    return scene.store._connections


# Partitions


@pytest.mark.parametrize("partitions", [8])
async def test_flows_of_all_partitions_are_listed_counted_and_owed_as_one(scene: Scene) -> None:
    trips = [await Trip.begin(scene, DIAMOND, name=f"n{n}") for n in range(24)]
    places = {connections_of(scene).partition_of(trip.id) for trip in trips}
    assert len(places) > 3
    newest = [trip.id for trip in reversed(trips)]
    first = await scene.store.flows.page(FlowFilter(), 10)
    rest = await scene.store.flows.page(FlowFilter(), 20, first.next_cursor)
    assert [flow.id for flow in (*first.flows, *rest.flows)] == newest
    assert await scene.store.flows.count() == {FlowState.RUNNING: 24}
    for trip in trips:
        await trip.close(CloseWhat.BLOCKED)
    owed = await scene.store.flows.errands(10)
    owed += await scene.store.flows.errands(100, owed[-1].id)
    assert [errand.flow for errand in owed] == [trip.id for trip in trips]
    await scene.store.flows.done([errand.id for errand in owed])
    assert await scene.store.flows.errands(100) == []


@pytest.mark.parametrize("partitions", [8])
async def test_flows_of_many_partitions_start_and_end_in_one_call(scene: Scene) -> None:
    flows = [new_flow(DIAMOND) for _ in range(40)]
    started = await scene.store.flows.start(flows)
    assert [(one.id, one.how) for one in started] == [(flow.id, "created") for flow in flows]
    for _ in range(3):
        jobs = await scene.claim(1_000)
        await scene.store.jobs.finish([decide(job, RETURNED) for job in jobs])
    assert await scene.store.flows.count() == {FlowState.SUCCEEDED: 40}
    assert await scene.store.telemetry.recount() == []


@pytest.mark.parametrize("partitions", [8])
async def test_what_belongs_to_a_flow_must_lie_where_it_does(scene: Scene) -> None:
    flow_id = new_flow_id("order:1")
    keyed = new_flow({"a": []}, id=flow_id[:-1] + _another(flow_id[-1]), unique_key="order:1")
    with pytest.raises(BadOption, match=r"new_flow_id\(beside=key\)"):
        await scene.store.flows.start([keyed])
    flow = new_flow({"a": []})
    [node] = flow.nodes
    moved = msgspec.structs.replace(node.job, id=node.job.id[:-1] + _another(node.job.id[-1]))
    astray = msgspec.structs.replace(node, job=moved)
    with pytest.raises(BadOption, match=r"new_node_id\(flow\)"):
        await scene.store.flows.start([msgspec.structs.replace(flow, nodes=(astray,))])
    assert await scene.store.flows.count() == {}


def _another(digit: str) -> str:
    """A digit that lies in another of eight partitions."""
    return f"{(int(digit, 16) + 1) % 16:x}"


# New nodes are packed by Python, or inserted job by job: both leave the same


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def add_job(job: Any, tag: str, index: int, given: Any, lines: object) -> None:
        given.jobs.append(job_row(job, index))

    monkeypatch.setattr(flow_requests, "_add_job", add_job)
    return monkeypatch


async def test_the_short_way_in_leaves_what_the_long_way_leaves(
    server: ThrowawayValkey, clock: ManualClock, long_way: pytest.MonkeyPatch
) -> None:
    graph: dict[str, Waits] = {**DIAMOND, "z": ["a", any_of("b", "c")]}
    first: dict[str, Any] = {"priority": 3, "tags": ("x",)}
    flow = new_flow(graph, node_options={"a": first, "d": {"queue": "größer"}})
    long = await _left(server, clock, flow)
    long_way.undo()
    assert await _left(server, clock, flow) == long
    assert len(long) > 30


async def _left(server: ThrowawayValkey, clock: ManualClock, flow: NewFlow) -> dict[str, str]:
    """Every key of a store that has this flow, but for its mark and the arrival numbers."""
    url = server.new_namespace()
    async with opened(url, clock) as store:
        await store.flows.start([flow])
        assert [one for one in await store.health.check() if one.severity == "problem"] == []
        keys = server.keys(url)
        left = {key.partition("}:")[2]: str(_content(server, key)) for key in keys}
        del left["mark"]
    server.clear(url)
    return {key: re.sub("[0-9a-f]{17}", "<seq>", value) for key, value in left.items()}


def _content(server: ThrowawayValkey, key: str) -> Any:
    match str(server.say("TYPE", key)):
        case "string":
            return server.say("GET", key)
        case "zset":
            return server.say("ZRANGE", key, 0, -1, "WITHSCORES")
        case "hash":
            return server.say("HGETALL", key)
        case kind:
            return server.say("LRANGE", key, 0, -1) if kind == "list" else kind


# Nodes that returned are ended by a script of their own


@pytest.fixture
def called(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scripts that are called, in order."""
    connections, verbs = connections_of(scene), list[str]()
    call = connections.call

    async def noted(verb: str, *given: Any, **options: Any) -> Any:
        verbs.append(verb)
        return await call(verb, *given, **options)

    monkeypatch.setattr(connections, "call", noted)
    return verbs


async def test_a_claim_brings_what_the_worker_needs_of_its_nodes(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "z": ["a"]})
    [one] = await scene.claim(1)
    assert one.node == NodeFacts(None, closing=False)
    await trip.close()
    [other] = await scene.claim(1)
    assert other.node == NodeFacts(None, closing=True)


async def test_a_claim_of_many_jobs_brings_what_is_needed_of_each_node(scene: Scene) -> None:
    plain = [await scene.enqueue() for _ in range(INLINE_BODIES)]
    trip = await Trip.begin(scene, {"a": [], "b": [], "z": ["a"]})
    brought = {job.id: job.node for job in await scene.claim(100)}
    facts = NodeFacts(None, closing=False)
    nodes = dict.fromkeys((trip.ids["a"], trip.ids["b"]), facts)
    assert brought == {**dict.fromkeys(plain), **nodes}


def in_line(nodes: int) -> tuple[NewFlow, list[JobId]]:
    """So many nodes, and behind each one that takes its result."""
    names = [f"a{n}" for n in range(nodes)]
    flow = new_flow({name: [] for name in names} | {f"z{name}": [name] for name in names})
    ids = {node.name: node.job.id for node in flow.nodes}
    takes = {f"z{name}": encode_inputs([Input(("x",), Result(ids[name]))]) for name in names}
    nodes_with_inputs = tuple(
        msgspec.structs.replace(node, inputs=takes.get(node.name)) for node in flow.nodes
    )
    flow = msgspec.structs.replace(flow, nodes=nodes_with_inputs)
    return flow, [ids[f"z{name}"] for name in names]


async def ended_first(scene: Scene, flow: NewFlow) -> None:
    """Start the flow and end the nodes that wait for nobody, each with its id as its result."""
    await scene.store.flows.start([flow])
    claimed = await scene.claim(1_000)
    claimed += await scene.claim(1_000)
    await scene.store.jobs.finish([decide(job, Returned(f'"{job.id}"')) for job in claimed])


@pytest.fixture
def commands(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> AsyncMock:
    """The plain commands, as they are sent."""
    sent = AsyncMock(wraps=connections_of(scene).command)
    monkeypatch.setattr(connections_of(scene), "command", sent)
    return sent


def keys_read(commands: AsyncMock) -> list[str]:
    reads = [call.args[1:] for call in commands.await_args_list if call.args[0] == "MGET"]
    return [key.decode().partition("}:")[2] for keys in reads for key in keys]


async def test_a_claim_of_few_nodes_is_one_round_trip(
    scene: Scene, called: list[str], commands: AsyncMock
) -> None:
    flow, takers = in_line(INLINE_BODIES)
    await ended_first(scene, flow)
    called.clear()
    commands.reset_mock()
    claimed = await scene.claim(100)
    assert called == ["jobs/claim"]
    assert keys_read(commands) == []
    assert [job.id for job in claimed] == takers
    given = [job.node.results for job in claimed if job.node is not None and job.node.results]
    assert [list(one.values()) == [f'"{job}"' for job in one] for one in given] == [True] * 8
    kept = {job.id: job.args_json for job in await scene.store.jobs.get(takers)}
    assert {job.id: job.args for job in claimed} == kept


async def test_bodies_and_rows_of_many_jobs_are_read_by_one_command(
    scene: Scene, called: list[str], commands: AsyncMock
) -> None:
    """So they need not pass through Lua. Results are left to the worker."""
    flow, takers = in_line(INLINE_BODIES)
    await ended_first(scene, flow)
    plain = await scene.enqueue()
    called.clear()
    commands.reset_mock()
    claimed = {job.id: job for job in await scene.claim(100)}
    assert called == ["jobs/claim"]
    bodies = [f"b:{job}" for job in [*takers, plain]]
    assert keys_read(commands) == [*bodies, *(f"n:{job}" for job in takers)]
    inputs = {node.job.id: node.inputs for node in flow.nodes}
    brought = {job: claimed.pop(job).node for job in takers}
    assert brought == {job: NodeFacts(inputs[job], closing=False) for job in takers}
    assert [job.node for job in claimed.values()] == [None]


async def test_a_claim_of_many_jobs_tells_which_flows_are_being_cancelled(scene: Scene) -> None:
    plain = [await scene.enqueue() for _ in range(INLINE_BODIES)]
    names = ("stays", "goes")
    trips = [await Trip.begin(scene, {name: [], f"z{name}": [name]}) for name in names]
    await trips[1].close()
    brought = {job.id: job.node for job in await scene.claim(100)}
    facts = {
        trip.ids[name]: NodeFacts(None, closing=name == "goes")
        for name, trip in zip(names, trips, strict=True)
    }
    assert brought == {**dict.fromkeys(plain), **facts}


async def test_a_claim_that_does_not_find_all_results_leaves_them_to_the_worker(
    scene: Scene,
) -> None:
    """Inputs that another release wrote in another way are read all the same."""
    flow, _ = in_line(1)
    [before, taker] = flow.nodes
    told = f'[[["x"], {{"type": "result", "job": "{before.job.id}"}}]]'
    nodes = (before, msgspec.structs.replace(taker, inputs=told))
    await ended_first(scene, msgspec.structs.replace(flow, nodes=nodes))
    [claimed] = await scene.claim(10)
    assert claimed.node == NodeFacts(told, closing=False, results=None)


async def test_results_of_very_many_upstreams_are_left_to_the_worker(scene: Scene) -> None:
    flow, takers = in_line(1_001)
    nodes = list(flow.nodes)
    wanted = [node.job.id for node in nodes if node.inputs is None]
    all_of_them = encode_inputs([Input(("x", n), Result(job)) for n, job in enumerate(wanted)])
    nodes[-1] = msgspec.structs.replace(nodes[-1], inputs=all_of_them)
    await ended_first(scene, msgspec.structs.replace(flow, nodes=tuple(nodes)))
    await scene.claim(1_000)
    [claimed] = await scene.claim(1_000)
    assert claimed.id == takers[-1]
    assert claimed.node == NodeFacts(all_of_them, closing=False, results=None)


async def test_a_node_whose_row_was_overwritten_does_not_stop_a_claim(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": []})
    connections = connections_of(scene)
    await connections.command("SET", connections.key(0, f"n:{trip.ids['a']}"), "no row")
    claimed = await scene.claim(8)
    assert {job.id for job in claimed if job.node is None} == {trip.ids["a"]}
    assert len(claimed) == 2


async def test_a_batch_is_cut_by_the_kinds_of_its_ends(scene: Scene, called: list[str]) -> None:
    plain = await scene.running()
    trip = await Trip.begin(scene, {"a": [], "b": [], "z": ["a"]})
    await trip.claim()
    jobs = [await scene.live(job) for job in (trip.ids["a"], plain.id, trip.ids["b"])]
    called.clear()
    how: list[End] = [RETURNED, RETURNED, FAILED]
    ends = [decide(job, end) for job, end in zip(jobs, how, strict=True)]
    assert all(verdict.accepted for verdict in await scene.store.jobs.finish(ends))
    assert sorted(called) == ["jobs/finish", "jobs/succeed", "jobs/succeed_nodes"]
    assert await trip.states() == {"a": "succeeded", "b": "failed", "z": "ready"}


async def test_a_node_that_was_tied_further_after_its_claim_is_ended_by_the_long_way(
    scene: Scene, called: list[str]
) -> None:
    watched = int(Tie.NODE | Tie.WATCHED)
    trip = await Trip.begin(scene, {"a": [], "z": ["a"]}, node_options={"a": {"priority": 1}})
    other = new_flow({"b": []})
    tied = msgspec.structs.replace(other.nodes[0].job, ties=watched)
    node = msgspec.structs.replace(other.nodes[0], job=tied)
    await scene.store.flows.start([msgspec.structs.replace(other, nodes=(node,))])
    await trip.claim()
    jobs = [await scene.live(job) for job in (trip.ids["a"], tied.id)]
    called.clear()
    ends = [msgspec.structs.replace(decide(job, RETURNED), ties=int(Tie.NODE)) for job in jobs]
    assert all(verdict.accepted for verdict in await scene.store.jobs.finish(ends))
    assert called == ["jobs/succeed_nodes", "jobs/finish"]
    assert await trip.state("z") is JobState.READY
    assert await scene.store.flows.count() == {FlowState.RUNNING: 1, FlowState.SUCCEEDED: 1}


async def test_the_short_way_out_leaves_what_the_long_way_leaves(
    server: ThrowawayValkey, clock: ManualClock
) -> None:
    """Also of what few ends lead to: a node with a delay, one with limits, and one that is skipped,
    with what waits for it."""
    graph: dict[str, Waits] = {**DIAMOND, "y": any_of("a", "b", cancel=True), "x": ["a"]}
    graph |= {"w": ["a"], "v": failed("a"), "u": ["v"]}
    timed: dict[str, dict[str, Any]] = {
        "a": {"policy": Policy(timeout=9)},
        "b": {"queue": "größer"},
        "w": {"buckets": "tenant:a", "ties": int(Tie.NODE | Tie.PERMITS)},
    }
    flow = new_flow(graph, node_options=timed, delays={"x": 5.0})
    short = await _left_by_ends(server, clock, flow, is_long=False)
    assert short == await _left_by_ends(server, clock, flow, is_long=True)
    assert len(short) > 30


async def test_the_edge_of_a_node_that_waits_for_one_other_leaves_what_a_counted_edge_leaves(
    server: ThrowawayValkey, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = new_flow({**DIAMOND, "x": ["a"]}, delays={"x": 5.0})
    alone = await _left_by_ends(server, clock, flow, is_long=False)
    monkeypatch.setattr(flow_requests, "EDGE_ALONE", 0)
    counted = await _left_by_ends(server, clock, flow, is_long=False)
    assert {name for name in counted if counted[name] != alone[name]} == {
        f"n:{flow.nodes[0].job.id}"
    }
    assert len(alone) > 30


async def test_the_gate_of_a_node_that_waits_for_one_other_is_not_read(scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    connections = connections_of(scene)
    await connections.command("DEL", connections.key(0, f"g:{trip.ids['b']}"))
    await trip.end("a")
    assert await connections.command("ZCARD", connections.key(0, "untimed:blocked")) == 0
    assert [job.id for job in await scene.claim()] == [trip.ids["b"]]


async def _left_by_ends(
    server: ThrowawayValkey, clock: ManualClock, flow: NewFlow, *, is_long: bool
) -> dict[str, object]:
    """Every key when the first node has ended, but for arrivals, fences and ages."""
    url = server.new_namespace()
    async with opened(url, clock) as store:
        scene = await Scene.on(store, clock)
        await store.flows.start([flow])
        [first] = await scene.claim(5)
        end = decide(first, Returned('"x"'))
        # A batch that names a job twice goes to the script that knows every move.
        await store.jobs.finish([end, end] if is_long else [end])
        found: dict[str, object] = {}
        for key in server.keys(url):
            name = key.partition("}:")[2].replace(scene.worker, "<worker>")
            if name.startswith("s:"):
                row = to_record(await scene.store._connections.command("GET", key))  # type: ignore[attr-defined]
                kept = {"fence": row.fence > 0, "seq": "", "worker": row.worker is not False}
                found[name] = msgspec.structs.asdict(msgspec.structs.replace(row, **kept))
            elif name not in ("leases", "mark", "workers"):
                found[name] = re.sub("[0-9a-f]{17}", "<seq>", str(_content(server, key)))
    server.clear(url)
    return found


# Two finishers


async def _record(scene: Scene, job: JobId) -> Record:
    connections = connections_of(scene)
    return to_record(await connections.command("GET", connections.key(0, f"s:{job}")))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"priority": -5, "queue": "größer"},
        {"priority": 70_000, "policy": Policy(timeout=0.5)},
        {"queue": "q" * 300, "deadline_in": 60.0},
    ],
    ids=["plain", "small", "timeout", "long"],
)
@pytest.mark.parametrize("size", [0, 1, 40, 70_000])
async def test_moves_of_nodes_change_the_values_that_they_should(
    scene: Scene, options: dict[str, Any], size: int
) -> None:
    """They are done to the packed record, whatever the sizes of its values."""
    result = "1" * size or None
    flow = new_flow({"a": [], "b": ["a"]}, node_options={"a": options, "b": options})
    await scene.store.flows.start([flow])
    first, second = (node.job.id for node in flow.nodes)
    [claimed] = await scene.claim(1, queue=flow.nodes[0].job.queue)
    ends, waits = await _record(scene, first), await _record(scene, second)
    scene.clock.advance(1)
    await scene.store.jobs.finish([decide(claimed, Returned(result))])
    now = to_micros(await scene.store.now())
    ended, released = await _record(scene, first), await _record(scene, second)
    kept = ended.result if result is None else f"{result}{str(ended.result)[-1]}"
    said = {"state": "succeeded", "at": now, "ready_at": False, "attempts": 1, "result": kept}
    assert ended == msgspec.structs.replace(ends, **said)
    assert released.seq > waits.seq
    said = {"state": "ready", "ready_at": now, "seq": released.seq}
    assert released == msgspec.structs.replace(waits, **said)


@pytest.mark.parametrize("partitions", [1, 8])
async def test_two_finishers_of_one_join_release_it_once(
    scene: Scene, place: str, clock: ManualClock
) -> None:
    trips = [
        await Trip.begin(scene, {"a": [], "b": [], "z": ["a", "b"]}, name=f"n{n}")
        for n in range(30)
    ]
    await trips[0].claim()
    async with opened(place, clock) as other:
        halves = [
            [decide(await scene.live(trip.ids[name]), RETURNED) for trip in trips]
            for name in ("a", "b")
        ]
        await asyncio.gather(
            *(scene.store.jobs.finish(halves[0][n : n + 3]) for n in range(0, 30, 3)),
            *(other.jobs.finish(halves[1][n : n + 2]) for n in range(0, 30, 2)),
        )
    assert [await trip.state("z") for trip in trips] == [JobState.READY] * 30
    released = [one.jobs for one in await scene.store.telemetry.totals() if one.what == "released"]
    assert sum(released) == 30
    assert await scene.store.telemetry.recount() == []


async def test_a_cancel_and_a_release_that_race_leave_one_truth(
    scene: Scene, place: str, clock: ManualClock
) -> None:
    trips = [await Trip.begin(scene, {"a": [], "z": ["a"]}) for _ in range(20)]
    await trips[0].claim()
    async with opened(place, clock) as other:
        ends = [decide(await scene.live(trip.ids["a"]), RETURNED) for trip in trips]
        await asyncio.gather(
            *(scene.store.jobs.finish([end]) for end in ends),
            *(other.flows.close([trip.id], CloseWhat.ALL) for trip in trips),
        )
    for trip in trips:
        assert (await trip.info()).state is FlowState.CANCELLING
        assert await trip.state("z") in (JobState.READY, JobState.BLOCKED)


# A cascade that is cut off


@pytest.fixture
def small_cascades() -> Iterator[None]:
    with cut_off_at(10):
        yield


def chain(length: int) -> dict[str, Waits]:
    names = [f"n{number:02}" for number in range(length)]
    return {names[0]: [], **{name: [before] for before, name in itertools.pairwise(names)}}


async def test_a_long_cascade_goes_in_bites_and_owes_the_rest(
    scene: Scene, small_cascades: None
) -> None:
    trip = await Trip.begin(scene, chain(35))
    await trip.end("n00", end=FAILED)
    left = []
    while owed := await scene.store.flows.errands(10):
        assert [errand.kind for errand in owed] == [ErrandKind.SETTLE]
        left.append((await trip.info()).open)
        await scene.store.flows.settle([trip.id])
        await scene.store.flows.done([owed[0].id])
    assert left == [24, 14, 4]
    info = await trip.info()
    assert (info.state, info.open, info.failed) == (FlowState.FAILED, 0, 1)
    assert await scene.store.telemetry.recount() == []


async def test_a_cascade_goes_on_after_a_pause(scene: Scene, small_cascades: None) -> None:
    trip = await Trip.begin(scene, chain(15))
    await trip.end("n00", end=FAILED)
    await scene.store.flows.pause([trip.id])
    await scene.store.flows.settle([trip.id])
    assert (await trip.info()).open == 4
    assert await scene.store.flows.resume([trip.id]) == [trip.id]
    assert (await trip.info()).state is FlowState.FAILED


async def test_a_node_that_is_reopened_before_its_edges_were_counted_counts_once(
    scene: Scene, small_cascades: None
) -> None:
    trip = await Trip.begin(scene, chain(15))
    await trip.end("n00", end=FAILED)
    assert await trip.state("n10") is JobState.SKIPPED
    last = trip.ids["n10"]
    plan = Reopening(flow=trip.id, epoch=1, ready=(last,))
    assert await scene.store.flows.reopen([plan]) == [trip.id]
    await scene.store.flows.settle([trip.id])
    [gate] = (await trip.nodes())["n11"].gates
    assert (gate.won, gate.lost, [edge.upstream for edge in gate.edges]) == (0, 0, [last])
    await trip.end("n10")
    assert await trip.state("n11") is JobState.READY


# Prune


async def test_a_large_flow_is_removed_in_bites_and_nobody_finds_half_of_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = await Trip.begin(scene, chain(10)), await Trip.begin(scene, {"a": []})
    await large.end("n00", end=FAILED)
    await small.end("a")
    scene.clock.advance(201)
    connections = connections_of(scene)
    await connections.call("flows/prune", 0, {"limit": 2, "room": 1})
    assert [flow.id for flow in (await scene.store.flows.page(FlowFilter(), 9)).flows] == [large.id]
    await connections.call("flows/prune", 0, {"limit": 2, "room": 4})
    assert await scene.store.flows.get([large.id]) == []
    assert await scene.store.flows.count() == {}
    plan = Reopening(flow=large.id, epoch=1, ready=(large.ids["n00"],))
    assert await scene.store.flows.reopen([plan]) == []
    monkeypatch.setattr(flows, "PRUNE_BATCH", 4)
    assert await scene.store.flows.prune(5) == 1
    assert await scene.states(list(large.ids.values())) == [None] * 10
    assert await scene.store.telemetry.recount() == []


# A server without memory


async def test_without_memory_a_start_is_refused_whole(
    server: ThrowawayValkey, scene: Scene
) -> None:
    flow = new_flow(DIAMOND, unique_key="order:1")
    with limited(server, 0), pytest.raises(StoreError, match="out of memory"):
        await scene.store.flows.start([flow])
    assert await scene.store.flows.get([flow.id]) == []
    assert await scene.state(flow.nodes[0].job.id) is None
    [started] = await scene.store.flows.start([flow])
    assert started.how == "created"


async def test_without_memory_flows_go_on_and_are_operated(
    server: ThrowawayValkey, scene: Scene
) -> None:
    trip = await Trip.begin(scene, DIAMOND)
    other = await Trip.begin(scene, DIAMOND)
    with limited(server, 0):
        await trip.end("a")
        assert await scene.store.flows.pause([trip.id]) == [trip.id]
        await trip.end("b", "c")
        assert await scene.store.flows.resume([trip.id]) == [trip.id]
        await trip.end("d")
        assert (await trip.info()).state is FlowState.SUCCEEDED
        await other.close()
        [errand] = await scene.store.flows.errands(10)
        await scene.store.flows.done([errand.id])
        scene.clock.advance(101)
        assert await scene.store.flows.prune(10) == 1


async def test_doctor_finds_nothing_wrong_with_flows(scene: Scene) -> None:
    trip = await Trip.begin(scene, {**DIAMOND, "x": ["d"]})
    await trip.end("a")
    await trip.end("b", end=FAILED)
    found = await scene.store.health.check()
    assert [one for one in found if one.severity == "problem"] == []


async def test_an_id_that_is_taken_stops_a_start(scene: Scene) -> None:
    flow = new_flow({"a": [], "b": ["a"]})
    job = msgspec.structs.replace(flow.nodes[0].job, ties=0, args='{"name":"Eve"}')
    await scene.store.jobs.insert([job])
    with pytest.raises(StoreError, match="belongs to another job"):
        await scene.store.flows.start([flow])
    assert await scene.store.flows.get([flow.id]) == []
    assert new_node_id(flow.id)[-3:] == flow.id[-3:]
