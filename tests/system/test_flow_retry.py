"""`flows retry` of nodes that have added others to their flow: these are made anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.app import App
from holdfast.client.flow_handle import FlowHandle
from holdfast.context import Context
from holdfast.declaring.flows import Flow
from holdfast.declaring.nodes import ended
from holdfast.errors import BadFlow, FlowFailed
from holdfast.flow import growing
from holdfast.flow.drift import drift_of
from holdfast.flow.model import FlowId, FlowState, Grown
from holdfast.flow.reopening import RetryPlan
from holdfast.job.ends import Fail
from holdfast.job.ids import JobId
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from tests.support.backends import Backend
from tests.support.waiting import wait_until

WITHIN = 20


@dataclass
class World:
    """What handlers find outside of the queue, and what they did."""

    numbers: list[int] = field(default_factory=list)
    fails: set[int] = field(default_factory=set)
    ran: list[int] = field(default_factory=list)
    has_spread: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def app(backend: Backend, world: World) -> AsyncIterator[App]:
    app = App(await backend.empty())
    for function in (*plain_handlers(world), *growers(app, world)):
        app.task(name=function.__name__, retry=Retry.never())(function)
    async with app:
        yield app


Handlers = tuple[Callable[..., Any], ...]


def plain_handlers(world: World) -> Handlers:
    async def find() -> list[int]:
        return world.numbers

    async def double(ctx: Context, number: int) -> int:
        world.ran.append(number)
        if number in world.fails:
            raise Fail("broken")
        return await ctx.step("double", double_it, number)

    async def double_it(number: int) -> int:
        return 2 * number

    async def gather(results: list[int | None]) -> list[int | None]:
        return results

    async def say(text: str) -> str:
        return text

    return find, double, gather, say


def growers(app: App, world: World) -> Handlers:
    async def spread(ctx: Context, numbers: list[int]) -> int:
        """Adds a node for each number, and a map, before the node `report`."""
        for n, number in enumerate(numbers):
            ctx.flow.add(app.tasks["double"], number).named(f"own-{n}").before("report")
        ctx.flow.map(app.tasks["double"], numbers).named("more").before("report")
        await ctx.flow.extend()
        world.has_spread.set()
        return sum(numbers)

    async def hold() -> None:
        """Keeps `report` waiting until its flow has grown."""
        await world.has_spread.wait()

    async def split(ctx: Context, number: int) -> int:
        ctx.flow.add(app.tasks["double"], number).named(f"part-{number}")
        await ctx.flow.extend()
        return number

    return spread, hold, split


@asynccontextmanager
async def working(app: App) -> AsyncIterator[None]:
    async with app.worker({"default": 20}):
        yield


async def drift(app: App, flow: str) -> list[str]:
    flows = app.client.flows
    return drift_of(await flows.get(flow), await flows.graph(flow), await flows.nodes(flow))


async def ids(app: App, flow: str) -> dict[str, JobId]:
    return {node.name: node.job_id for node in await app.client.flows.nodes(flow)}


async def states(app: App, flow: str) -> dict[str, JobState]:
    return {node.name: node.state for node in await app.client.flows.nodes(flow)}


async def mapped(app: App, world: World, *numbers: int) -> str:
    """A flow that finds numbers, doubles each of them, and gathers the results."""
    world.numbers = list(numbers)
    flow = app.flow("mapped")
    flow.add(app.tasks["gather"], flow.map(app.tasks["double"], find_in(app, flow)).outputs)
    return (await flow.start()).id


def find_in(app: App, flow: Flow) -> Any:
    return flow.add(app.tasks["find"]).output


async def result(app: App, flow: str) -> Any:
    return await FlowHandle(lambda: app.client, FlowId(flow)).result(WITHIN)


@pytest.mark.parametrize("later", [[10, 20], [10, 20, 30, 40], [10, 20, 30], []])
async def test_a_map_that_runs_again_makes_new_elements_of_its_new_list(
    app: App, world: World, later: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "ELEMENTS_AT_ONCE", 2)
    flow = await mapped(app, world, 1, 2, 3)
    async with working(app):
        assert await result(app, flow) == [2, 4, 6]
        before = await ids(app, flow)
        world.numbers = later
        for _ in range(2):
            world.ran.clear()
            await app.client.flows.retry(flow, "find", cascade=True)
            assert await result(app, flow) == [2 * number for number in later]
            assert sorted(world.ran) == later
            after = await ids(app, flow)
            assert set(after) == {
                *("find", "double", "gather"),
                *(f"double[{n}]" for n in range(len(later))),
            }
            elements = [name for name in after if "[" in name]
            assert not {after[name] for name in elements} & set(before.values())
            assert await drift(app, flow) == []
            before = after
    info = await app.client.flows.get(flow)
    assert (info.total, info.open, info.failed) == (3 + len(later), 0, 0)
    assert await app.store.telemetry.recount() == []


async def test_the_elements_wait_for_their_map_and_the_dry_run_names_them(
    app: App, world: World
) -> None:
    flow = await mapped(app, world, 1, 2)
    async with working(app):
        await result(app, flow)
    before = await ids(app, flow)
    shown = await app.client.flows.retry(flow, "find", cascade=True, dry_run=True)
    assert (shown.again, shown.wait) == (("find",), ("double", "gather"))
    assert (shown.anew, shown.kept) == (("double[0]", "double[1]"), ())
    assert await ids(app, flow) == before
    plan = await app.client.flows.retry(flow, "find", cascade=True)
    assert plan == shown
    assert await states(app, flow) == {
        "find": JobState.READY,
        "double": JobState.BLOCKED,
        "gather": JobState.BLOCKED,
    }
    info = await app.client.flows.get(flow)
    assert (info.state, info.total, info.open) == (FlowState.RUNNING, 3, 3)
    for element in ("double[0]", "double[1]"):
        assert await app.store.jobs.get([before[element]]) == []
        assert await app.store.steps.load([before[element]]) == {}
    assert await app.store.telemetry.recount() == []


async def test_failed_elements_alone_run_again_and_keep_the_others(app: App, world: World) -> None:
    world.fails = {2}
    flow = await mapped(app, world, 1, 2, 3)
    async with working(app):
        with pytest.raises(FlowFailed):
            await result(app, flow)
        before = await ids(app, flow)
        world.fails.clear()
        world.ran.clear()
        plan = await app.client.flows.retry(flow)
        assert (plan.again, plan.wait, plan.anew) == (("double[1]",), ("gather",), ())
        assert await result(app, flow) == [2, 4, 6]
        assert (world.ran, await ids(app, flow)) == ([2], before)


async def test_an_element_that_failed_is_gone_when_its_map_runs_again(
    app: App, world: World
) -> None:
    world.fails = {2}
    flow = await mapped(app, world, 1, 2, 3)
    async with working(app):
        with pytest.raises(FlowFailed):
            await result(app, flow)
        world.numbers = [4]
        plan = await app.client.flows.retry(flow, "find", "double[1]", cascade=True)
        assert (plan.again, plan.wait) == (("find",), ("double", "gather"))
        assert await result(app, flow) == [8]
    info = await app.client.flows.get(flow)
    assert (info.state, info.total, info.failed) == (FlowState.SUCCEEDED, 4, 0)


async def half_made(app: App, world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """A flow whose map has failed when it had made two of its four elements."""
    monkeypatch.setattr(growing, "ELEMENTS_AT_ONCE", 2)
    flow = await mapped(app, world, 1, 2, 3, 4)
    extend = app.store.flows.extend
    tried: list[None] = []

    async def refuse_second(growths: object) -> list[Grown]:
        tried.append(None)
        if len(tried) == 2:
            raise BadFlow("no more")
        return await extend(growths)  # type: ignore[arg-type]

    app.store.flows.extend = refuse_second  # type: ignore[method-assign]
    async with working(app):
        with pytest.raises(FlowFailed):
            await result(app, flow)
    app.store.flows.extend = extend  # type: ignore[method-assign]
    assert (await states(app, flow))["double"] is JobState.FAILED
    assert sorted(world.ran) == [1, 2]
    world.ran.clear()
    return flow


async def test_a_map_that_failed_half_way_goes_on_where_its_list_is_the_same(
    app: App, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await half_made(app, world, monkeypatch)
    plan = await app.client.flows.retry(flow)
    assert (plan.again, plan.anew) == (("double",), ())
    async with working(app):
        assert await result(app, flow) == [2, 4, 6, 8]
    assert sorted(world.ran) == [3, 4]


async def test_a_map_that_failed_half_way_begins_anew_where_its_list_may_have_changed(
    app: App, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await half_made(app, world, monkeypatch)
    world.numbers = [10, 20, 30]
    plan = await app.client.flows.retry(flow, "find")
    assert (plan.again, plan.anew) == (("find",), ("double[0]", "double[1]"))
    async with working(app):
        assert await result(app, flow) == [20, 40, 60]
    assert sorted(world.ran) == [10, 20, 30]
    assert await drift(app, flow) == []


async def spreading(app: App, world: World, *numbers: int) -> str:
    world.numbers = list(numbers)
    flow = app.flow("spreading")
    found = flow.add(app.tasks["find"])
    flow.add(app.tasks["spread"], found.output)
    flow.add(app.tasks["say"], "done").named("report").after(flow.add(app.tasks["hold"]))
    return (await flow.start()).id


async def test_what_a_node_added_to_its_flow_it_adds_anew(app: App, world: World) -> None:
    flow = await spreading(app, world, 1, 2, 3)
    async with working(app):
        await app.client.flows.wait(flow, WITHIN)
        before = await ids(app, flow)
        world.numbers = [5, 6]
        world.ran.clear()
        plan = await app.client.flows.retry(flow, "find", cascade=True)
        assert plan.anew == (
            *("more", "more[0]", "more[1]", "more[2]"),
            *("own-0", "own-1", "own-2"),
        )
        assert (plan.again, plan.wait) == (("find",), ("report", "spread"))
        assert (await app.client.flows.wait(flow, WITHIN)).state is FlowState.SUCCEEDED
    after = await ids(app, flow)
    assert sorted(world.ran) == [5, 5, 6, 6]
    assert set(after) == {
        *("find", "spread", "hold", "report", "own-0", "own-1"),
        *("more", "more[0]", "more[1]"),
    }
    kept = {"find", "spread", "hold", "report"}
    assert {name for name in after if after[name] == before.get(name)} == kept
    assert await drift(app, flow) == []
    assert await app.store.telemetry.recount() == []


async def test_what_elements_have_added_goes_with_them(app: App, world: World) -> None:
    world.numbers = [1, 2]
    flow = app.flow("deep")
    flow.map(app.tasks["split"], find_in(app, flow))
    run = await flow.start()
    async with working(app):
        await run.wait(WITHIN)
        world.numbers = [2, 3]
        plan = await app.client.flows.retry(run.id, "find", cascade=True)
        assert plan.anew == ("part-1", "part-2", "split[0]", "split[1]")
        assert (await app.client.flows.wait(run.id, WITHIN)).state is FlowState.SUCCEEDED
    names = set(await ids(app, run.id))
    assert names == {"find", "split", "split[0]", "split[1]", "part-2", "part-3"}


async def test_nodes_are_not_removed_before_they_have_ended(app: App, world: World) -> None:
    flow = await mapped(app, world, 1, 2)
    async with working(app):
        await result(app, flow)
    await app.client.flows.retry(flow, "double[0]")
    with pytest.raises(BadFlow, match=r"node 'double\[0\]' is ready, and would be removed"):
        await app.client.flows.retry(flow, "find", cascade=True, dry_run=True)


async def test_a_node_that_has_begun_is_not_left_without_what_it_needs(
    app: App, world: World
) -> None:
    flow = await mapped(app, world, 1, 2)
    async with working(app):
        await result(app, flow)
    await app.client.flows.retry(flow, "gather")
    with pytest.raises(BadFlow, match="node 'gather' is ready, and goes on from what"):
        await app.client.flows.retry(flow, "double", cascade=True)


async def test_of_two_named_nodes_one_waits_for_the_other(app: App, world: World) -> None:
    flow = await mapped(app, world, 1, 2)
    async with working(app):
        assert await result(app, flow) == [2, 4]
        world.numbers = [3]
        plan: RetryPlan = await app.client.flows.retry(flow, "find", "double", "gather")
        assert (plan.again, plan.wait) == (("find",), ("double", "gather"))
        assert await result(app, flow) == [6]


async def test_a_node_that_failed_waits_for_the_failure_that_it_is_there_for(app: App) -> None:
    allowed: list[bool] = []

    async def fail() -> None:
        if not allowed:
            raise Fail("not yet")

    task = app.task(name="fail", retry=Retry.never())(fail)
    flow = app.flow("cleanup")
    first = flow.add(task).named("first")
    flow.add(task).named("second").after(ended(first))
    run = await flow.start()
    async with working(app):
        await run.wait(WITHIN)
        allowed.append(True)
        plan = await app.client.flows.retry(run.id)
        assert (plan.again, plan.wait) == (("first",), ("second",))
        assert (await app.client.flows.wait(run.id, WITHIN)).state is FlowState.SUCCEEDED


async def test_a_node_that_was_skipped_before_its_map_ran_waits_for_the_elements_if_it_runs_again(
    app: App, world: World
) -> None:
    may_find, may_double = asyncio.Event(), asyncio.Event()
    allowed: list[bool] = []

    async def find_late() -> list[int]:
        await may_find.wait()
        return [1, 2, 3]

    async def double_late(number: int) -> int:
        await may_double.wait()
        return 2 * number

    async def sometimes() -> None:
        if not allowed:
            raise Fail("not yet")

    once = app.task(retry=Retry.never())
    flow = app.flow("skipped")
    other = flow.add(once(sometimes))
    doubled = flow.map(once(double_late), flow.add(once(find_late)).output)
    for name, condition in (("all", doubled), ("half", doubled.at_least(0.5))):
        flow.add(app.tasks["gather"], doubled.outputs).named(name).after(other, condition)
    run = await flow.start()

    async def is_skipped() -> bool:
        return (await states(app, run.id))["all"] is JobState.SKIPPED

    async def has_succeeded() -> bool:
        return (await states(app, run.id))["sometimes"] is JobState.SUCCEEDED

    async def is_made() -> bool:
        return (await states(app, run.id))["double_late"] is JobState.SUCCEEDED

    async with working(app):
        await wait_until(is_skipped, WITHIN, "the join is skipped")
        may_find.set()
        await wait_until(is_made, WITHIN, "the map has made its elements")
        allowed.append(True)
        await app.client.flows.retry(run.id)
        await wait_until(has_succeeded, WITHIN, "what failed has succeeded")
        told = await states(app, run.id)
        assert (told["all"], told["half"]) == (JobState.BLOCKED, JobState.BLOCKED)
        may_double.set()
        assert (await run.wait(WITHIN)).state is FlowState.SUCCEEDED
    jobs = await app.store.jobs.get([(await ids(app, run.id))[name] for name in ("all", "half")])
    assert [job.result for job in jobs] == [[2, 4, 6], [2, 4, 6]]
