"""`@app.flow_task()` with a real worker: a job that lives as long as the flow that it started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.app import App
from holdfast.context import Context
from holdfast.declaring.flows import Flow
from holdfast.errors import JobCancelled, JobFailed
from holdfast.flow.ids import child_flow_id
from holdfast.flow.model import Errand, FlowInfo, FlowState
from holdfast.flow.parents import end_parent
from holdfast.handle import JobHandle
from holdfast.insights.explain import explain
from holdfast.job.ends import Fail, HandedBack
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from tests.support.backends import Backend
from tests.support.flow_tasks import PARENTS, double
from tests.support.waiting import wait_until

WITHIN = 20


@pytest.fixture
async def app(backend: Backend) -> AsyncIterator[App]:
    app = App(await backend.empty())
    app.include(PARENTS)
    async with app:
        yield app


@asynccontextmanager
async def working(app: App) -> AsyncIterator[None]:
    async with app.worker({"default": 20}, processes=1):
        yield


@asynccontextmanager
async def idle_errands(app: App) -> AsyncIterator[None]:
    """Nobody does errands meanwhile, as if everybody who would had died."""
    flows = app.store.flows
    errands = flows.errands

    async def none(limit: int, after: str | None = None) -> list[Errand]:
        return []

    flows.errands = none  # type: ignore[method-assign]
    try:
        yield
    finally:
        flows.errands = errands  # type: ignore[method-assign]


def returning(app: App, *steps: Callable[..., Any]) -> Any:
    """A task that returns a flow of these functions, one after the other."""
    tasks = [app.task(name=step.__name__, retry=Retry.never())(step) for step in steps]

    async def parent() -> Flow:
        flow = app.flow("child")
        last = None
        for task in tasks:
            node = flow.add(task)
            last = node if last is None else node.after(last)
        return flow

    return app.flow_task(name="parent", retry=Retry.never())(parent)


async def child(app: App, job: JobHandle[Any]) -> FlowInfo:
    return await app.client.flows.get(child_flow_id(job.id))


async def state_of(app: App, job: JobId) -> JobState:
    return (await app.client.get(job)).state


async def until_suspended(app: App, job: JobHandle[Any]) -> None:
    async def is_suspended() -> bool:
        return await state_of(app, job.id) is JobState.SUSPENDED

    await wait_until(is_suspended, WITHIN, "the job waits for its flow")


@pytest.mark.parametrize("mode", ["loop", "thread", "process"])
async def test_a_job_has_the_result_of_the_flow_that_its_function_returned(
    app: App, mode: str
) -> None:
    job = await app.tasks[mode].enqueue(3)
    async with working(app):
        assert await job.result(WITHIN) == 12
    flow = await child(app, job)
    assert (flow.parent, flow.state, flow.total) == (job.id, FlowState.SUCCEEDED, 2)
    found = await app.client.get(job.id)
    assert (found.attempts, found.crashes) == (1, 0)


def test_a_call_of_the_function_builds_a_flow_and_starts_nothing() -> None:
    assert isinstance(app_less(), Flow)


def app_less() -> Flow:
    app = App("sqlite://")

    @app.flow_task()
    def nightly() -> Flow:
        return app.flow("nightly")

    return nightly()


async def test_the_job_gives_its_slot_back_while_its_flow_runs(app: App) -> None:
    async def step() -> str:
        return "done"

    task = returning(app, step)
    jobs = [await task.enqueue() for _ in range(5)]
    async with app.worker({"default": 1}):
        assert [await job.result(WITHIN) for job in jobs] == ["done"] * 5


async def test_a_job_whose_flow_fails_has_failed_and_names_the_flow(app: App) -> None:
    async def broken() -> None:
        raise Fail("the secret reason")

    job = await returning(app, broken).enqueue()
    async with working(app):
        with pytest.raises(JobFailed) as failure:
            await job.result(WITHIN)
    flow = await child(app, job)
    assert f"flow 'child' ({flow.id}) has failed: node 'broken' is failed" in str(failure.value)
    found = await app.client.get(job.id)
    assert [error.kind for error in found.errors] == ["ChildFlowFailed"]
    assert "secret" not in found.errors[0].message


async def test_a_cancel_of_the_job_cancels_its_flow(app: App) -> None:
    began = asyncio.Event()

    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    async def never() -> None:
        raise AssertionError("its flow was cancelled")

    job = await returning(app, endless, never).enqueue()
    async with working(app):
        await asyncio.wait_for(began.wait(), WITHIN)
        await until_suspended(app, job)
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(WITHIN)
        await wait_until(
            lambda: _is(app, job, FlowState.CANCELLED), WITHIN, "the flow is cancelled"
        )
    nodes = await app.client.flows.nodes(child_flow_id(job.id))
    assert {node.state for node in nodes} == {JobState.CANCELLED}


async def _is(app: App, job: JobHandle[Any], state: FlowState) -> bool:
    return (await child(app, job)).state is state


async def test_a_cancel_of_the_flow_cancels_the_job(app: App) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    job = await returning(app, endless).enqueue()
    async with working(app):
        await until_suspended(app, job)
        await app.client.flows.cancel(child_flow_id(job.id))
        with pytest.raises(JobCancelled):
            await job.result(WITHIN)
    assert "was cancelled" in ((await app.client.get(job.id)).reason or "")


async def test_a_node_may_return_a_flow_and_nodes_behind_it_get_its_result(app: App) -> None:
    flow = app.flow("outer")
    flow.add(double, flow.add(app.tasks["loop"], 5).output)
    run = await flow.start()
    async with working(app):
        assert await run.result(WITHIN) == 40


async def test_an_attempt_that_is_repeated_finds_the_flow_and_calls_nothing_twice(
    app: App,
) -> None:
    """The first attempt starts the flow, and its worker is gone before the job waits for it."""
    calls: list[int] = []

    @app.flow_task(name="once", retry=Retry(max_attempts=3, base=0))
    async def once(ctx: Context) -> Flow:
        calls.append(ctx.fence)
        flow = app.flow("child")
        flow.add(double, 21)
        return flow

    job = await once.enqueue()
    start = app.store.flows.start

    async def lose(flows: Any) -> Any:
        started = await start(flows)
        app.store.flows.start = start  # type: ignore[method-assign]
        [live] = await app.store.jobs.live([job.id])
        await app.store.jobs.finish([decide(live, HandedBack())])  # taken from its worker
        return started

    app.store.flows.start = lose  # type: ignore[method-assign]
    async with working(app):
        assert await job.result(WITHIN) == 42
    assert len(calls) == 1
    assert (await child(app, job)).total == 1


async def test_a_job_whose_flow_has_failed_fails_again_and_succeeds_after_a_retry_of_the_flow(
    app: App,
) -> None:
    allowed: list[bool] = []

    async def sometimes() -> str:
        if not allowed:
            raise Fail("not yet")
        return "at last"

    job = await returning(app, sometimes).enqueue()
    async with working(app):
        for _ in range(2):
            with pytest.raises(JobFailed):
                await job.result(WITHIN)
            await app.client.requeue(job.id)
        allowed.append(True)
        with pytest.raises(JobFailed):
            await job.result(WITHIN)
        await app.client.flows.retry(child_flow_id(job.id))
        await app.client.requeue(job.id)
        assert await job.result(WITHIN) == "at last"


async def test_a_function_that_returns_no_flow_fails_and_says_what_to_do(app: App) -> None:
    async def confused() -> Any:
        return 7

    job = await app.flow_task(name="confused", retry=Retry.never())(confused).enqueue()
    async with working(app):
        with pytest.raises(JobFailed, match="must return a flow"):
            await job.result(WITHIN)


async def test_a_crash_between_the_end_of_the_flow_and_that_of_its_parent_loses_nothing(
    app: App,
) -> None:
    async def step() -> str:
        return "done"

    job = await returning(app, step).enqueue()
    async with idle_errands(app), working(app):
        await until_suspended(app, job)
        await wait_until(lambda: _is(app, job, FlowState.SUCCEEDED), WITHIN, "the flow ends")
        assert await state_of(app, job.id) is JobState.SUSPENDED
    async with working(app):
        assert await job.result(WITHIN) == "done"


@pytest.mark.parametrize("first", ["the flow ends", "the job is cancelled"])
async def test_the_end_of_the_flow_and_a_cancel_of_its_job_meet_in_both_orders(
    app: App, first: str
) -> None:
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def step() -> str:
        has_begun.set()
        await may_end.wait()
        return "done"

    job = await returning(app, step).enqueue()
    async with idle_errands(app), working(app):
        await until_suspended(app, job)
        await asyncio.wait_for(has_begun.wait(), WITHIN)
        if first == "the flow ends":
            may_end.set()
            await wait_until(lambda: _is(app, job, FlowState.SUCCEEDED), WITHIN, "the flow ends")
        await job.cancel()
        may_end.set()
        await wait_until(lambda: _is(app, job, FlowState.SUCCEEDED), WITHIN, "the flow ends")
    assert await state_of(app, job.id) is JobState.CANCELLED
    async with working(app):
        await wait_until(lambda: _settled(app), WITHIN, "all errands are done")
    assert await state_of(app, job.id) is JobState.CANCELLED


async def _settled(app: App) -> bool:
    return not await app.store.flows.errands(10)


async def test_explain_names_the_flow_and_how_far_it_is(app: App) -> None:
    may_end = asyncio.Event()

    async def first() -> None: ...

    async def second() -> None:
        await may_end.wait()

    job = await returning(app, first, second).enqueue()
    async with working(app):
        await until_suspended(app, job)

        async def is_half_done() -> bool:
            return (await child(app, job)).open == 1

        await wait_until(is_half_done, WITHIN, "the first node has ended")
        [reason] = (await explain(app.store, await app.client.get(job.id))).reasons
        flow = child_flow_id(job.id)
        assert reason.code == "waits-for-flow"
        assert reason.fact == f"it waits for flow 'child' ({flow}): running, 1 of 2 nodes are done"
        assert reason.advice.startswith("explain the flow to see what it waits for")
        may_end.set()
        await job.result(WITHIN)


async def test_a_flow_task_runs_from_a_schedule_once_at_a_time(app: App) -> None:
    """The job of the plan lives as long as the flow: so the next plan meets it."""
    may_end = asyncio.Event()

    async def step() -> str:
        await may_end.wait()
        return "done"

    task = returning(app, step)
    await app.client.schedules.create("nightly", task.scheduled("0 3 * * *", overlap="skip"))
    job = await app.client.schedules.trigger("nightly")
    async with working(app):

        async def is_suspended() -> bool:
            return await state_of(app, job) is JobState.SUSPENDED

        await wait_until(is_suspended, WITHIN, "the job waits for its flow")
        unfinished = await app.store.schedules.unfinished("nightly", [""])
        assert [one.id for one in unfinished[""]] == [job]
        may_end.set()
        assert await app.client.result(job, WITHIN) == "done"


async def test_a_parent_whose_errand_was_lost_is_found_and_mended(app: App) -> None:
    async def step() -> str:
        return "done"

    job = await returning(app, step).enqueue()
    async with idle_errands(app), working(app):
        await until_suspended(app, job)
        await wait_until(lambda: _is(app, job, FlowState.SUCCEEDED), WITHIN, "the flow ends")
    await app.store.flows.done([one.id for one in await app.store.flows.errands(10)])
    assert await end_parent(app.store, job.id)
    assert await job.result(WITHIN) == "done"
