"""Two who change one flow at once: the row of the flow puts one after the other.

The order is forced by locks. `doing` starts a verb and waits until it stands still at a lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.background import cancelling
from holdfast.background.options import ReconcileOptions
from holdfast.clock import ManualClock
from holdfast.events import Events
from holdfast.flow.errands import do_errand
from holdfast.flow.ids import child_flow_id
from holdfast.flow.model import CloseWhat, FlowState, Grown
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.reconcile.errands import ErrandsReconciler
from holdfast.store.contract.records import Verdict, Want
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import FAILED, QUEUE, RETURNED, TASK, Scene
from tests.conformance.test_flows_ending import drawn, retry
from tests.conformance.test_flows_extend import grown
from tests.stores.postgres.shared import connected, hired, opened, until_blocked
from tests.support.flows import Trip, new_flow

DOUBLE_DIAMOND = {
    "a": [],
    **{name: ["a"] for name in "bcde"},
    "f": ["b", "c", "d", "e"],
    **{name: ["f"] for name in "ghi"},
    "j": ["g", "h", "i"],
}


@pytest.fixture
async def scene(url: str, clock: ManualClock) -> AsyncIterator[Scene]:
    async with opened(url, clock=clock) as store:
        yield await Scene.on(store, clock)


@asynccontextmanager
async def doing(url: str, verb: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """The verb stands still at a lock while the block runs, and ends after it."""
    task = asyncio.create_task(verb)
    try:
        await until_blocked(url)
        yield
    finally:
        await task


async def end_within(scene: Scene, connection: object, *ids: JobId) -> list[Verdict]:
    """End nodes in a caller's own transaction."""
    moves = await ends(scene, *ids)
    return await scene.store.jobs.within(connection, lambda jobs: jobs.finish(moves))


async def caller_ends(url: str, scene: Scene, *ids: JobId) -> None:
    async with connected(url) as connection, connection.transaction():
        verdicts = await end_within(scene, connection, *ids)
        assert [verdict.accepted for verdict in verdicts] == [True] * len(ids)


async def ends(scene: Scene, *ids: JobId) -> list[Transition]:
    return [decide(job, RETURNED) for job in await scene.store.jobs.live(list(ids))]


@asynccontextmanager
async def locked_table(url: str, table: str) -> AsyncIterator[None]:
    """Nobody writes to the table while the block runs."""
    async with connected(url) as connection, connection.transaction():
        await connection.execute(f"lock table holdfast.{table} in share mode")
        yield


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_two_who_end_the_upstreams_of_a_join_open_it_once(
    url: str, scene: Scene, order: str
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "z": ["a", "b"]})
    await trip.claim()
    first, second = (trip.ids[name] for name in order)
    async with connected(url) as one:
        mine = one.transaction()
        await mine.start()
        await end_within(scene, one, first)
        async with doing(url, caller_ends(url, scene, second)):
            await mine.commit()
    assert await trip.states() == {"a": "succeeded", "b": "succeeded", "z": "ready"}
    released = [total for total in await scene.store.telemetry.totals() if total.what == "released"]
    assert [total.jobs for total in released] == [1]


async def test_who_waits_for_an_end_that_is_taken_back_counts_only_itself(
    url: str, scene: Scene
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "z": ["a", "b"]})
    await trip.claim()
    async with connected(url) as one:
        mine = one.transaction()
        await mine.start()
        await end_within(scene, one, trip.ids["a"])
        async with doing(url, caller_ends(url, scene, trip.ids["b"])):
            await mine.rollback()
    assert await trip.states() == {"a": "running", "b": "succeeded", "z": "blocked"}
    [gate] = (await trip.nodes())["z"].gates
    assert (gate.won, [edge.upstream for edge in gate.edges]) == (1, [trip.ids["a"]])


async def test_a_growth_counts_an_upstream_that_ends_before_it(url: str, scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "x": []})
    await trip.claim()
    [by] = await scene.store.jobs.live([trip.ids["a"]])
    growth = grown(trip, by, {"b": ["x"]})
    async with connected(url) as one:
        mine = one.transaction()
        await mine.start()
        await end_within(scene, one, trip.ids["x"])
        async with doing(url, extend(scene, growth)):
            await mine.commit()
    assert await trip.states() == {"a": "running", "b": "ready", "x": "succeeded"}


async def test_an_end_counts_at_a_gate_that_was_added_before_it(url: str, scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "x": []})
    await trip.claim()
    [by] = await scene.store.jobs.live([trip.ids["a"]])
    growth = grown(trip, by, {"b": ["x"]})
    async with asyncio.TaskGroup() as tasks, locked_table(url, "node"):
        tasks.create_task(extend(scene, growth))
        await until_blocked(url, 1)
        tasks.create_task(caller_ends(url, scene, trip.ids["x"]))
        await until_blocked(url, 2)
    assert await trip.states() == {"a": "running", "b": "ready", "x": "succeeded"}


async def extend(scene: Scene, growth: Any) -> None:
    assert await scene.store.flows.extend([growth]) == [Grown.GROWN]


async def test_what_was_released_before_a_cancel_is_ready(url: str, scene: Scene) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ["b"]})
    await trip.claim()
    async with connected(url) as one:
        mine = one.transaction()
        await mine.start()
        await end_within(scene, one, trip.ids["a"])
        async with doing(url, trip.close(CloseWhat.ALL)):
            await mine.commit()
    assert await trip.states() == {"a": "succeeded", "b": "ready", "c": "blocked"}
    assert (await trip.info()).state is FlowState.CANCELLING


async def test_nothing_is_released_by_an_end_that_comes_after_a_cancel(
    url: str, scene: Scene
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": ["a"]})
    await trip.claim()
    async with asyncio.TaskGroup() as tasks, locked_table(url, "errand"):
        tasks.create_task(trip.close(CloseWhat.ALL))
        await until_blocked(url, 1)
        tasks.create_task(caller_ends(url, scene, trip.ids["a"]))
        await until_blocked(url, 2)
    assert await trip.states() == {"a": "succeeded", "b": "blocked"}


async def test_batches_over_the_same_flows_never_wait_in_a_circle(url: str, scene: Scene) -> None:
    trips = [await Trip.begin(scene, {"a": [], "b": [], "z": ["a", "b"]}) for _ in range(4)]
    await trips[0].claim()
    async with asyncio.TaskGroup() as tasks, connected(url) as one, one.transaction():
        await one.execute("select from holdfast.flow where id = $1 for update", trips[1].id)
        tasks.create_task(caller_ends(url, scene, *(trip.ids["a"] for trip in trips)))
        tasks.create_task(caller_ends(url, scene, *(trip.ids["b"] for trip in reversed(trips))))
        await until_blocked(url, 2)
    assert [await trip.state("z") for trip in trips] == [JobState.READY] * 4


async def test_a_flow_that_a_caller_has_locked_holds_up_no_other_end(
    url: str, scene: Scene
) -> None:
    trip = await Trip.begin(scene, {"a": [], "b": [], "z": ["a", "b"]})
    other = await Trip.begin(scene, {"a": [], "z": ["a"]})
    plain = await scene.enqueue()
    await trip.claim()
    wanted = (trip.ids["b"], other.ids["a"], plain)
    async with connected(url) as one, one.transaction():
        await end_within(scene, one, trip.ids["a"])
        moves = await ends(scene, *wanted)
        verdicts = {one.id: one for one in await scene.store.jobs.finish(moves)}
        assert [verdicts[job].accepted for job in wanted] == [False, True, True]
        held = verdicts[trip.ids["b"]]
        assert held.state is JobState.RUNNING, "the worker sends it again"
        assert await other.state("z") is JobState.READY
    assert [one.accepted for one in await scene.store.jobs.finish(moves[:1])] == [True]
    assert await trip.state("z") is JobState.READY


@pytest.mark.parametrize("size", [1, 7])
async def test_many_who_end_nodes_at_once_open_every_gate_once(url: str, size: int) -> None:
    flows = 300 if size > 1 else 40
    async with opened(url) as store, opened(url) as second, opened(url) as third:
        started = await store.flows.start([new_flow(DOUBLE_DIAMOND) for _ in range(flows)])
        assert len(started) == flows
        stores = (store, second, third, third)
        async with asyncio.timeout(30):  # a gate that was lost would never open
            ended = await asyncio.gather(*(drain(one, size) for one in stores))
        assert sum(ended) == flows * 10
        assert await store.flows.count() == {FlowState.SUCCEEDED: flows}
        totals = {total.what.value: total.jobs for total in await store.telemetry.totals()}
        assert totals["released"] == flows * 9
        async with connected(url) as connection:
            for table in ("gate", "errand", "blocked"):
                assert not await connection.fetchval(f"select count(*) from holdfast.{table}")


async def drain(store: PostgresStore, size: int) -> int:
    """Claim and end nodes, a few at a time, until all flows are over."""
    worker, ended = await hired(store), 0
    while (await store.flows.count()).get(FlowState.RUNNING):
        claimed = await store.jobs.claim(worker, [Want(QUEUE, 5 * size)], [TASK])
        for first in range(0, len(claimed), size):
            moves = [decide(job, RETURNED) for job in claimed[first : first + size]]
            while moves:
                verdicts = await store.jobs.finish(moves)
                held = [move for move, one in zip(moves, verdicts, strict=True) if not one.accepted]
                ended += len(moves) - len(held)
                moves = held
    return ended


async def test_the_end_of_a_parent_and_the_cancel_of_its_flow_are_one_transaction(
    scene: Scene, url: str
) -> None:
    """Even if the end was decided before the job was tied to the flow."""
    await scene.enqueue()
    parent = await scene.claim_one()
    flow = new_flow({"a": []}, id=child_flow_id(parent.id), parent=parent.id, fence=parent.fence)
    await scene.store.flows.start([flow])
    assert not parent.ties
    assert (await scene.finish(parent, FAILED)).accepted
    async with connected(url) as connection:
        written = await connection.fetch(
            "select errand.xmin::text, outcome.xmin::text from holdfast.errand"
            " join holdfast.outcome using (job_id) where kind = 'orphan'"
        )
    [(owed, ended)] = written
    assert owed == ended


async def test_a_cancel_is_owed_as_long_as_a_transaction_keeps_it_from_a_node(
    url: str, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was forgotten, and the nodes that it had not reached were blocked for ever."""
    monkeypatch.setattr(cancelling, "CANCEL_ROUNDS", 2)
    trip = await Trip.begin(scene, {"a": [], "b": ["a"], "c": ["b"]})
    await trip.claim()
    assert await trip.close(CloseWhat.WAITING) == [trip.id]
    flows = scene.store.flows
    [errand] = await flows.errands(10)
    async with connected(url) as connection:
        async with connection.transaction():
            [verdict] = await end_within(scene, connection, trip.ids["a"])
            assert verdict.accepted
            assert not await do_errand(scene.store, errand)
        assert await flows.errands(10) == [errand]
        assert await do_errand(scene.store, errand)
    assert await flows.errands(10) == []
    assert await trip.states() == {"a": "succeeded", "b": "cancelled", "c": "cancelled"}
    assert (await trip.info()).state is FlowState.CANCELLED


async def test_a_flow_that_is_locked_costs_a_sweep_one_try_behind_all_others(
    url: str, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try waits for the lock. Ten of them in each sweep held the cancels of all others up."""
    told: list[JobId] = []
    finish = scene.store.jobs.finish

    async def telling(moves: Sequence[Transition], *more: Any, **how: Any) -> list[Verdict]:
        told.extend(move.id for move in moves)
        return await finish(moves, *more, **how)

    monkeypatch.setattr(scene.store.jobs, "finish", telling)
    held, *others = [await Trip.begin(scene, {"a": [], "b": ["a"]}) for _ in range(3)]
    assert await held.close(CloseWhat.ALL) == [held.id]
    errands = ErrandsReconciler(scene.store, Events(), ReconcileOptions())
    async with connected(url) as connection, connection.transaction():
        await connection.execute("select from holdfast.flow where id = $1 for update", held.id)
        for trip in others:
            told.clear()
            assert await trip.close(CloseWhat.ALL) == [trip.id]
            swept = await errands.run_once()
            assert (swept.found, swept.mended) == (2, 1)
            assert told.count(held.ids["a"]) == 1
        assert told[-1] in held.ids.values()
    assert (await errands.run_once()).mended == 1
    assert [(await trip.info()).state for trip in (held, *others)] == [FlowState.CANCELLED] * 3


async def test_a_retry_leaves_no_edges_of_gates_that_are_gone(url: str, scene: Scene) -> None:
    """The row of a node got longer with every retry of its flow."""
    trip = await drawn(scene, {"a": [], "b": ["a"], "x": [], "y": ["a", "x"]})
    lengths = set[int]()
    for _ in range(4):
        await trip.end("a", end=FAILED)
        assert await trip.state("b") is JobState.SKIPPED
        await retry(trip)
        assert (await trip.info()).state is FlowState.RUNNING
        async with connected(url) as connection:
            rows = await connection.fetch("select cardinality(behind) from holdfast.node")
        lengths |= {length for (length,) in rows if length is not None}
    assert max(lengths) == 2, "two wait for 'a'"
    await trip.end("a")
    await trip.end("x", "b")
    await trip.end("y")
    assert (await trip.info()).state is FlowState.SUCCEEDED
