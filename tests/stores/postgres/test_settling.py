"""How the server settles what waits for nodes that have ended."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import msgspec
import pytest

from holdfast.clock import ManualClock
from holdfast.flow.inputs import Input, Result, encode_inputs
from holdfast.flow.model import ErrandKind, FlowState
from holdfast.job.ends import Returned
from holdfast.job.outcome import decide
from holdfast.job.record import NodeFacts
from holdfast.store.postgres import settling
from tests.conformance.builders import FAILED, RETURNED, Scene
from tests.stores.postgres.shared import connected, opened
from tests.support.flows import Trip, Waits, any_of, new_flow

TABLES = ("flow", "node", "gate", "errand", "blocked")


@pytest.fixture
async def scene(url: str, clock: ManualClock) -> AsyncIterator[Scene]:
    async with opened(url, clock=clock) as store:
        yield await Scene.on(store, clock)


async def test_a_cascade_beyond_the_limit_goes_on_by_errands(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "CASCADE_LIMIT", 3)
    graph: dict[str, Waits] = {"n0": []}
    graph |= {f"n{n}": [f"n{n - 1}"] for n in range(1, 9)}
    trip = await Trip.begin(scene, graph)
    flows, skipped = scene.store.flows, []
    await trip.end("n0", end=FAILED)
    while errands := await flows.errands(10):
        assert [(one.kind, one.flow) for one in errands] == [(ErrandKind.SETTLE, trip.id)]
        states = list((await trip.states()).values())
        skipped.append(states.count("skipped"))
        assert (await trip.info()).open == states.count("blocked")
        await flows.settle([trip.id])
        await flows.done([one.id for one in errands])
    assert skipped == [3, 6]
    assert set((await trip.states()).values()) == {"failed", "skipped"}
    info = await trip.info()
    assert (info.state, info.open, info.failed) == (FlowState.FAILED, 0, 1)
    assert await scene.store.telemetry.recount() == []


async def test_a_caller_with_an_old_snapshot_cannot_lose_a_join(url: str, scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "z": ["a", "b"]})
    await trip.claim()
    [job] = await scene.store.jobs.live([trip.ids["b"]])
    move = decide(job, RETURNED)
    async with connected(url) as connection:
        mine = connection.transaction(isolation="repeatable_read")
        await mine.start()
        await connection.fetch("select from holdfast.flow")
        await trip.end("a")
        with pytest.raises(asyncpg.SerializationError):
            await scene.store.jobs.within(connection, lambda jobs: jobs.finish([move]))
        await mine.rollback()
    assert await trip.states() == {"a": "succeeded", "b": "running", "z": "blocked"}
    await trip.end("b")
    assert await trip.states() == {"a": "succeeded", "b": "succeeded", "z": "ready"}


@pytest.mark.parametrize("end", [Returned("1"), FAILED], ids=["returned", "failed"])
async def test_no_table_is_read_as_a_whole(url: str, scene: Scene, end: Returned) -> None:
    """Not even where it is so small that the planner would rather do that. The functions forbid
    it by themselves, as `golden/postgres_schema.txt` has it. The statement around them may do it
    where statistics say how small a table is, and is kept from that here."""
    graph: dict[str, Waits] = {"a": [], "b": ["a"], "c": any_of("a", "b", cancel=True), "d": ["c"]}
    trips = [await Trip.begin(scene, graph) for _ in range(20)]
    await trips[0].claim()
    jobs = await scene.store.jobs.live([trip.ids["a"] for trip in trips])
    async with connected(url) as connection, connection.transaction():
        await connection.execute("set local enable_seqscan = off")
        moves = [decide(job, end) for job in jobs]
        await scene.store.jobs.within(connection, lambda within: within.finish(moves))
        found = await connection.fetch(
            "select relname, seq_scan from pg_stat_xact_user_tables"
            " where schemaname = 'holdfast' and relname = any ($1) and seq_scan > 0",
            TABLES,
        )
    assert [tuple(row) for row in found] == []
    assert {await trip.state("d") for trip in trips} <= {"blocked", "skipped"}


async def test_a_claim_brings_the_result_of_an_only_upstream(scene: Scene) -> None:
    flow = new_flow({"a": [], "b": ["a"], "c": ["a"], "d": ["a"]})
    ids = {node.name: node.job.id for node in flow.nodes}
    alone = encode_inputs([Input(("x", 0), Result(ids["a"]))])
    twice = encode_inputs([Input((name,), Result(ids["a"])) for name in ("x", "y")])
    inputs = {"b": alone, "c": alone, "d": twice}
    nodes = [msgspec.structs.replace(one, inputs=inputs.get(one.name)) for one in flow.nodes]
    await scene.store.flows.start([msgspec.structs.replace(flow, nodes=tuple(nodes))])
    await scene.store.jobs.finish([decide(await scene.claim_one(), Returned("7"))])
    brought = {job.id: job.node for job in await scene.claim(limit=3)}
    assert brought == {
        ids["b"]: NodeFacts(alone, closing=False, results={ids["a"]: "7"}),
        ids["c"]: NodeFacts(alone, closing=False, results={ids["a"]: "7"}),
        ids["d"]: NodeFacts(twice, closing=False),
    }


async def test_a_look_at_claimed_nodes_reads_no_table_as_a_whole(url: str, scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.end("a")
    async with connected(url) as connection, connection.transaction():
        await connection.fetch("select from holdfast.facts_of($1)", [trip.ids["b"]])
        found = await connection.fetch(
            "select relname, seq_scan from pg_stat_xact_user_tables"
            " where relname in ('node', 'flow', 'outcome') and schemaname = 'holdfast'"
        )
    assert {name: 0 for name, _ in found} == dict(map(tuple, found))
    assert len(found) == 3
