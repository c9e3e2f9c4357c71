"""What a flow says of its nodes holds for those that are added while it runs too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.app import App
from holdfast.client.flow_handle import FlowHandle
from holdfast.context import Context
from holdfast.declaring.nodes import any_of
from holdfast.errors import BadOption
from holdfast.flow.model import FlowState
from holdfast.job.record import Job
from holdfast.job.retry import Retry
from tests.support.backends import Backend

WITHIN = 20
LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)


@pytest.fixture
async def app(backend: Backend) -> AsyncIterator[App]:
    app = App(await backend.empty())

    async def note(number: int) -> int:
        return number

    app.task(name="note", tags=["own"])(note)
    app.task(name="soon", deadline=600)(note)
    app.task(name="begin", start_by=300)(note)
    async with app:
        yield app


async def jobs_of(app: App, run: FlowHandle) -> dict[str, Job]:
    return {node.name: await app.client.get(node.job_id) for node in await run.nodes()}


async def ran(app: App, flow: Any) -> dict[str, Job]:
    run = await flow.start()
    async with app.worker():
        assert (await run.wait(WITHIN)).state is FlowState.SUCCEEDED
    return await jobs_of(app, run)


def left(job: Job) -> float:
    """How many seconds a job had when it was made."""
    assert job.deadline_at is not None
    return round((job.deadline_at - job.created_at).total_seconds(), 3)


def assert_together(times: Sequence[datetime | None]) -> None:
    """A store may write a flow and its nodes in more than one moment."""
    known = [one for one in times if one is not None]
    assert len(known) == len(times)
    assert max(known) - min(known) < timedelta(seconds=5)


def grower(app: App, grow: Any) -> Any:
    return app.task(name="grow", retry=Retry.never())(grow)


@pytest.mark.parametrize("deadline", [LATER, 3_600], ids=["instant", "seconds"])
async def test_nodes_that_are_added_later_have_what_the_flow_says_of_all(
    app: App, deadline: datetime | float
) -> None:
    note = app.tasks["note"]

    async def grow(ctx: Context) -> None:
        one = ctx.flow.add(note, 1).named("grown")
        m = ctx.flow.map(note, [1, 2]).named("grown_map")
        ctx.flow.add(note, 3).named("first").after(any_of(m, one))
        await ctx.flow.extend()

    flow = app.flow("all", priority=7, tags=["acme", "own"], deadline=deadline)
    flow.map(note, flow.add(app.task(name="list_up")(list_up)).output).named("m")
    flow.add(grower(app, grow))
    jobs = await ran(app, flow)
    assert sorted(jobs) == [
        *("all(grown_map)", "first", "grow", "grown", "grown_map", "grown_map[0]"),
        *("grown_map[1]", "list_up", "m", "m[0]", "m[1]"),
    ]
    assert {name: job.priority for name, job in jobs.items()} == dict.fromkeys(jobs, 7)
    assert len({jobs[name].deadline_at for name in ("list_up", "m", "m[0]", "m[1]")}) == 1
    assert_together([job.deadline_at for job in jobs.values()])
    tags = dict.fromkeys(jobs, ("own", "acme")) | dict.fromkeys(
        ("list_up", "grow"), ("acme", "own")
    )
    assert {name: job.tags for name, job in jobs.items()} == tags


async def list_up() -> list[int]:
    return [1, 2]


async def test_what_using_names_for_a_node_counts_more_than_the_flow(app: App) -> None:
    note = app.tasks["note"]

    async def grow(ctx: Context) -> None:
        ctx.flow.add(note.using(priority=2, tags=["x"], deadline=60), 1).named("grown")
        ctx.flow.map(note.using(priority=2, deadline=60), [1]).named("grown_map")
        await ctx.flow.extend()

    flow = app.flow("all", priority=7, tags=["acme"], deadline=3_600)
    flow.map(note.using(priority=2, tags=["x"], deadline=60), [1]).named("m")
    flow.add(note.using(deadline=None), 1).named("endless")
    flow.map(note.using(deadline=None), [1]).named("endless_map")
    flow.add(grower(app, grow))
    jobs = await ran(app, flow)
    for name in ("grown", "grown_map[0]", "m[0]"):
        assert (jobs[name].priority, left(jobs[name])) == (2, 60), name
    assert jobs["grown"].tags == jobs["m[0]"].tags == ("x", "acme")
    names = ("m", "grown_map", "endless_map", "grow")
    assert_together([jobs[name].deadline_at for name in names])
    assert jobs["endless"].deadline_at is jobs["endless_map[0]"].deadline_at is None


async def test_a_deadline_of_a_mapped_task_is_that_of_its_elements(app: App) -> None:
    flow = app.flow("own")
    flow.map(app.tasks["soon"], [1]).named("soon")
    flow.map(app.tasks["begin"], [1]).named("begin")
    flow.map(app.tasks["note"].using(deadline=LATER), [1]).named("later")
    jobs = await ran(app, flow)
    makers = [jobs[name].deadline_at for name in ("soon", "begin", "later")]
    assert makers == [None, None, None]
    assert (left(jobs["soon[0]"]), left(jobs["begin[0]"])) == (600, 300)
    assert jobs["later[0]"].deadline_at == LATER


@pytest.mark.parametrize("deadline", [LATER, 3_600], ids=["instant", "seconds"])
async def test_a_node_that_has_no_deadline_adds_nodes_that_have_that_of_the_flow(
    app: App, deadline: datetime | float
) -> None:
    note = app.tasks["note"]

    async def grow(ctx: Context) -> None:
        ctx.flow.add(note, 1).named("grown")
        ctx.flow.map(note, [1]).named("m")
        await ctx.flow.extend()

    flow = app.flow("endless", deadline=deadline)
    flow.add(note, 1)
    flow.add(grower(app, grow).using(deadline=None))
    jobs = await ran(app, flow)
    assert jobs.pop("grow").deadline_at is None
    assert_together([job.deadline_at for job in jobs.values()])


@pytest.mark.parametrize("own", [{}, {"deadline": None}], ids=["of the flow", "none"])
async def test_what_a_retried_node_adds_has_no_deadline_that_has_passed(
    app: App, own: dict[str, Any]
) -> None:
    """The retry took the deadline of the node away, and what it adds leads to nodes alike."""
    note, ends = app.tasks["note"], ["raise"]

    async def grow_on(ctx: Context, number: int) -> None:
        ctx.flow.add(note, number).named(f"further-{number}")
        await ctx.flow.extend()

    further = app.task(name="grow_on")(grow_on)

    async def grow(ctx: Context) -> None:
        if ends.pop() == "raise":
            raise RuntimeError("not now")
        ctx.flow.add(further, 1)
        ctx.flow.map(further, [2]).named("m")
        await ctx.flow.extend()

    flow = app.flow("late", deadline=3_600, priority=3)
    flow.add(grower(app, grow).using(**own))
    run = await flow.start()
    async with app.worker():
        assert (await run.wait(WITHIN)).state is FlowState.FAILED
        ends.append("grow")
        await run.retry()
        assert (await run.wait(WITHIN)).state is FlowState.SUCCEEDED
    jobs = await jobs_of(app, run)
    assert sorted(jobs) == ["further-1", "further-2", "grow", "grow_on", "m", "m[0]"]
    assert {job.deadline_at for job in jobs.values()} == {None}
    assert {job.priority for job in jobs.values()} == {3}


async def test_what_a_flow_says_is_checked_at_once(app: App) -> None:
    for wrong in ({"priority": "high"}, {"deadline": -1}, {"tags": [1]}):
        with pytest.raises(BadOption):
            app.flow("wrong", **wrong)
