"""A running node adds to its own flow, with a real worker: `ctx.flow`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.app import App
from holdfast.client.flow_handle import FlowHandle
from holdfast.context import AddedNode, AttemptLost, Context
from holdfast.declaring.building import FlowBuilder
from holdfast.declaring.nodes import any_of
from holdfast.errors import BadFlow
from holdfast.flow.growing import growths
from holdfast.flow.model import FlowId, FlowState
from holdfast.job.ends import Snoozed
from holdfast.job.ids import new_job_id
from holdfast.job.outcome import decide
from holdfast.job.record import Job
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from tests.support.backends import Backend
from tests.support.growing_tasks import GROWING, add_up, report, square
from tests.support.waiting import wait_until

WITHIN = 20


@pytest.fixture
async def app(backend: Backend) -> AsyncIterator[App]:
    app = App(await backend.empty())
    app.include(GROWING)
    async with app:
        yield app


@asynccontextmanager
async def working(app: App) -> AsyncIterator[None]:
    async with app.worker({"default": 20}, processes=1):
        yield


async def run_with(app: App, grow: Callable[..., Any], *, retry: Retry | None = None) -> FlowHandle:
    """A flow of a node that grows it, and a report behind that node."""
    task = app.task(name="grow", retry=retry or Retry.never())(grow)
    flow = app.flow("growing")
    flow.add(report, "done").after(flow.add(task))
    return await flow.start()


async def states(run: FlowHandle) -> dict[str, str]:
    return {node.name: node.state.value for node in await run.nodes()}


def in_a_circle(one: AddedNode[int], two: AddedNode[int]) -> None:
    one.after(two)
    two.after(one)


def assert_before(first: Job, second: Job) -> None:
    assert first.finished_at is not None
    assert second.claimed_at is not None
    assert first.finished_at <= second.claimed_at


@pytest.mark.parametrize("mode", ["loop", "thread", "process"])
async def test_a_handler_adds_nodes_and_a_later_node_waits_for_them(app: App, mode: str) -> None:
    flow = app.flow("growing")
    flow.add(report, "done").after(flow.add(app.tasks[f"grow_{mode}"], [3, 4]))
    run = await flow.start()
    async with working(app):
        assert await run.result(WITHIN) == "done"
    nodes = {node.name: node for node in await run.nodes()}
    assert set(nodes) == {f"grow_{mode}", "square", "square#2", "total", "report"}
    total, last = [await app.client.get(nodes[name].job_id) for name in ("total", "report")]
    assert total.result == 25
    assert_before(total, last)
    assert (await run.get()).state is FlowState.SUCCEEDED


async def test_a_second_attempt_keeps_what_the_first_has_added(app: App) -> None:
    async def grow(ctx: Context) -> None:
        first = ctx.flow.add(square, 2).named("first").before("report")
        if ctx.attempt == 2:
            ctx.flow.add(add_up, [first.output]).named("more").before("report")
        await ctx.flow.extend()
        if ctx.attempt == 1:
            raise RuntimeError("after the growth was written")

    run = await run_with(app, grow, retry=Retry(max_attempts=2, base=0))
    async with working(app):
        assert await run.result(WITHIN) == "done"
    nodes = {node.name: node for node in await run.nodes()}
    assert set(nodes) == {"grow", "first", "more", "report"}
    assert (await app.client.get(nodes["more"].job_id)).result == 4
    graph = await app.client.flows.graph(run.id)
    assert len(graph.gates_of(nodes["report"].job_id)) == 3


async def test_an_attempt_that_was_taken_away_adds_nothing(app: App) -> None:
    heard: list[str] = []

    async def grow(ctx: Context) -> None:
        if ctx.fence % 64 > 1:
            return
        ctx.flow.add(square, 2)
        [live] = await app.store.jobs.live([ctx.job.id])
        await app.store.jobs.finish([decide(live, Snoozed(0.0))])
        try:
            await ctx.flow.extend()
        except AttemptLost as error:
            heard.append(str(error))

    run = await run_with(app, grow)
    async with working(app):
        assert await run.result(WITHIN) == "done"
        await wait_until(lambda: bool(heard), WITHIN, "the first attempt hears that it is lost")
    assert set(await states(run)) == {"grow", "report"}
    assert len(heard) == 1
    assert "was taken away" in heard[0]


@pytest.mark.parametrize("order", ["the end first", "the growth first"])
async def test_a_growth_and_the_end_of_what_it_waits_for_meet_in_both_orders(
    app: App, order: str
) -> None:
    has_grown = asyncio.Event()

    async def upstream() -> int:
        if order == "the growth first":
            await has_grown.wait()
        return 5

    async def grow(ctx: Context) -> None:
        async def ended() -> bool:
            return (await states(run))["upstream"] == "succeeded"

        if order == "the end first":
            await wait_until(ended, WITHIN, "the upstream has ended")
        ctx.flow.add(square, ctx.flow.node("upstream").output).before("report")
        await ctx.flow.extend()
        has_grown.set()

    flow = app.flow("growing")
    flow.add(app.task(name="upstream")(upstream))
    flow.add(report, "done").after(flow.add(app.task(name="grow", retry=Retry.never())(grow)))
    run = await flow.start()
    async with working(app):
        assert (await run.wait(WITHIN)).state is FlowState.SUCCEEDED
    nodes = {node.name: node for node in await run.nodes()}
    assert (await app.client.get(nodes["square"].job_id)).result == 25
    assert nodes["report"].state is JobState.SUCCEEDED


async def test_a_handler_adds_maps_conditions_and_several_growths(app: App) -> None:
    async def grow(ctx: Context) -> None:
        squares = ctx.flow.map(square, [1, 2, 3])
        ctx.flow.add(add_up, squares.outputs).named("total").before("report")
        await ctx.flow.extend()
        one, two = (ctx.flow.add(square, n).named(f"race-{n}") for n in (1, 2))
        ctx.flow.add(report, "won").named("won").after(any_of(one, two)).before("report")
        ctx.flow.map(square, [7]).named("sevens").before("report")
        await ctx.flow.extend()
        await ctx.flow.extend()  # there is nothing to add

    run = await run_with(app, grow)
    async with working(app):
        assert await run.result(WITHIN) == "done"
    nodes = {node.name: node for node in await run.nodes()}
    assert (await app.client.get(nodes["total"].job_id)).result == 14
    assert {node.state for node in nodes.values()} == {JobState.SUCCEEDED}
    last, seven = [await app.client.get(nodes[name].job_id) for name in ("report", "sevens[0]")]
    assert_before(seven, last)


REFUSED: dict[str, tuple[Callable[[Context], object], str]] = {
    "a target that runs": (
        lambda ctx: ctx.flow.add(square, 1).before("other"),
        "'other' does not wait any more",
    ),
    "an unknown target": (
        lambda ctx: ctx.flow.add(square, 1).before("nobody"),
        "has no node 'nobody'",
    ),
    "an unknown upstream": (
        lambda ctx: ctx.flow.add(square, ctx.flow.node("nobody").output),
        "has no node 'nobody'",
    ),
    "a circle": (
        lambda ctx: ctx.flow.add(square, 1).after(ctx.flow.node("report")).before("report"),
        "wait for each other",
    ),
    "new nodes in a circle": (
        lambda ctx: in_a_circle(ctx.flow.add(square, 1), ctx.flow.add(square, 2)),
        "'square' waits for 'square#2' waits for 'square'",
    ),
    "a node that waits for itself": (
        lambda ctx: ctx.flow.add(square, 1).named("own").before("own"),
        "'own' waits for 'own'",
    ),
    "a node that is there": (
        lambda ctx: ctx.flow.node("report").after(ctx.flow.add(square, 1)),
        "is in the flow already",
    ),
    "two of a name": (
        lambda ctx: [ctx.flow.add(square, 1).named("same") for _ in range(2)],
        "two nodes are named 'same'",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_cannot_be_added_is_refused_whole_and_says_why(app: App, what: str) -> None:
    write_down, message = REFUSED[what]
    heard: list[str] = []
    told = asyncio.Event()

    async def grow(ctx: Context) -> None:
        try:
            ctx.flow.add(square, 1).named("beside")
            write_down(ctx)
            await ctx.flow.extend()
        except BadFlow as error:
            heard.append(str(error))
        told.set()

    async def other() -> None:
        await told.wait()

    flow = app.flow("growing")
    flow.add(app.task(name="other")(other))
    flow.add(report, "done").after(flow.add(app.task(name="grow", retry=Retry.never())(grow)))
    run = await flow.start()
    async with working(app):
        assert (await run.wait(WITHIN)).state is FlowState.SUCCEEDED
    assert message in heard[0]
    assert set(await states(run)) == {"grow", "other", "report"}


async def test_of_two_nodes_that_close_a_cycle_at_the_same_time_one_is_refused(app: App) -> None:
    both = asyncio.Barrier(2)
    heard: list[str] = []

    async def grow(ctx: Context, behind: str, before: str) -> None:
        new = ctx.flow.add(square, 1).named(f"behind-{behind}")
        new.after(ctx.flow.node(behind)).before(before)
        await both.wait()
        try:
            await ctx.flow.extend()
        except BadFlow as error:
            heard.append(str(error))

    task = app.task(name="grow", retry=Retry.never())(grow)
    flow = app.flow("growing")
    growing = [flow.add(task, "left", "right"), flow.add(task, "right", "left")]
    for name in ("left", "right"):
        flow.add(report, name).named(name).after(*growing)
    run = await flow.start()
    async with working(app):
        assert (await run.wait(WITHIN)).state is FlowState.SUCCEEDED
    assert len(heard) == 1
    assert "wait for each other" in heard[0]
    assert len(await states(run)) == 5


async def test_nothing_is_added_to_a_flow_that_is_being_cancelled(app: App) -> None:
    heard: list[str] = []

    async def grow(ctx: Context) -> None:
        await run.cancel("waiting")
        ctx.flow.add(square, 1)
        try:
            await ctx.flow.extend()
        except BadFlow as error:
            heard.append(str(error))

    run = await run_with(app, grow)
    async with working(app):
        assert (await run.wait(WITHIN)).state is FlowState.CANCELLED
    assert "is being cancelled" in heard[0]


async def test_a_job_of_no_flow_is_told_how_to_start_one(app: App) -> None:
    heard: list[str] = []

    async def alone(ctx: Context) -> None:
        try:
            ctx.flow.add(square, 1)
        except BadFlow as error:
            heard.append(str(error))

    job = await app.task(name="alone")(alone).enqueue()
    async with working(app):
        await job.result(WITHIN)
    assert "is no node of a flow" in heard[0]
    assert "app.flow(" in heard[0]


def test_elements_of_a_map_have_the_turn_and_the_weight_of_their_task() -> None:
    app = App("sqlite://")

    @app.task(name="send", fair="tenant")
    async def send(n: int, tenant: str) -> None: ...

    builder = FlowBuilder()
    node = builder.map(send.using(weight=3), [1, 2], "acme")
    flow, by = FlowId(new_job_id()), new_job_id()
    [growth] = growths(builder._plans[node], ["1", "2"], flow, by, 1)
    assert growth.elements is not None
    like = growth.elements.like
    assert (like.weight, like.buckets, bool(like.ties & Tie.PERMITS)) == (3, "=acme", True)
