"""Flows with a real worker: what is written down is what runs, in order, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.app import App
from holdfast.context import Context
from holdfast.declaring.nodes import any_of, ended, failed, quorum
from holdfast.errors import (
    BadArguments,
    BadFlow,
    BadOption,
    FlowCancelled,
    FlowCycle,
    FlowFailed,
    FlowTimeout,
    Refused,
    UnknownFlow,
)
from holdfast.flow import growing
from holdfast.flow.model import FlowState
from holdfast.job.ends import Fail
from holdfast.job.ids import JobId
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from tests.support.backends import Backend
from tests.support.waiting import wait_until

WITHIN = 20


@pytest.fixture
async def app(backend: Backend) -> AsyncIterator[App]:
    app = App(await backend.empty())

    async def numbers(count: int) -> list[int]:
        return list(range(count))

    async def double(number: int, plus: int = 0) -> int:
        return 2 * number + plus

    async def add_up(numbers: list[int | None], label: str = "sum") -> str:
        return f"{label} {sum(number or 0 for number in numbers)}"

    async def no() -> int:
        raise Fail("no")

    async def odd_only(number: int) -> int:
        if number % 2 == 0:
            raise Fail("even")
        return number

    async def slow(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def say(text: str) -> str:
        return text

    for function in (numbers, double, add_up, no, odd_only, slow, say):
        app.task(name=function.__name__, retry=Retry.never())(function)
    async with app:
        yield app


@asynccontextmanager
async def working(app: App) -> AsyncIterator[None]:
    async with app.worker({"default": 20}):
        yield


async def test_results_go_from_node_to_node(app: App) -> None:
    flow = app.flow("chain")
    some = flow.add(app.tasks["numbers"], 4)
    total = flow.add(app.tasks["add_up"], some.output, label="of four")
    flow.add(app.tasks["say"], total.output)
    run = await flow.start()
    async with working(app):
        assert await run.result(WITHIN) == "of four 6"
    assert (await run.get()).state is FlowState.SUCCEEDED


async def test_a_map_makes_a_node_for_each_element_and_joins_see_them_in_order(app: App) -> None:
    flow = app.flow("map")
    some = flow.add(app.tasks["numbers"], 1_200)
    doubled = flow.map(app.tasks["double"], some.output, plus=1)
    flow.add(app.tasks["add_up"], doubled.outputs)
    run = await flow.start()
    async with working(app):
        assert await run.result(WITHIN) == f"sum {sum(2 * n + 1 for n in range(1_200))}"
    info = await run.get()
    assert (info.total, info.open) == (1_203, 0)


async def test_a_map_of_nothing_is_joined_at_once(app: App) -> None:
    flow = app.flow("empty")
    flow.add(app.tasks["add_up"], flow.map(app.tasks["double"], []).outputs)
    run = await flow.start()
    async with working(app):
        assert await run.result(WITHIN) == "sum 0"


async def test_a_map_makes_all_its_elements_though_its_join_is_lost_with_the_first(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "ELEMENTS_AT_ONCE", 2)
    flow = app.flow("broken")
    odd = flow.map(app.tasks["odd_only"], range(7))
    flow.add(app.tasks["add_up"], odd.outputs).named("join")
    run = await flow.start()
    async with working(app):
        with pytest.raises(FlowFailed):
            await run.result(WITHIN)
    states = {node.name: node.state for node in await run.nodes()}
    assert states.pop("join") is JobState.SKIPPED
    ends = [states[f"odd_only[{n}]"] for n in range(7)]
    assert ends == [JobState.SUCCEEDED if n % 2 else JobState.FAILED for n in range(7)]


async def test_a_map_that_is_written_in_bites_is_told_as_one_gate(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "ELEMENTS_AT_ONCE", 2)
    may_end = asyncio.Event()

    async def third_waits(number: int) -> None:
        if number == 3:
            await may_end.wait()

    flow = app.flow("bites")
    some = flow.map(app.task(name="third_waits")(third_waits), range(7))
    flow.add(app.tasks["add_up"], some.outputs).named("join")
    run = await flow.start()
    join = next(node.job_id for node in await run.nodes() if node.name == "join")
    async with working(app):

        async def is_last() -> bool:
            info = await run.get()
            return (info.total, info.open) == (9, 2)

        await wait_until(is_last, WITHIN, "one element and the join are left")
        [told] = (await app.client.explain(join)).reasons
        assert told.fact.startswith("waits for all 7 (6 done): 'third_waits[3]' runs")
        may_end.set()
        assert await run.result(WITHIN) == "sum 0"


async def test_a_map_may_tolerate_failures(app: App) -> None:
    flow = app.flow("tolerant")
    odd = flow.map(app.tasks["odd_only"], range(10))
    flow.add(app.tasks["add_up"], odd.outputs).after(odd.at_least(0.5))
    run = await flow.start()
    async with working(app):
        assert await run.result(WITHIN) == "sum 25"


async def test_the_first_of_two_wins_and_the_loser_is_cancelled(app: App) -> None:
    flow = app.flow("race")
    quick = flow.add(app.tasks["slow"], 0.01).named("quick")
    late = flow.add(app.tasks["slow"], 60.0).named("late")
    flow.add(app.tasks["slow"], any_of(quick, late, losers="cancel").output)
    run = await flow.start()
    async with working(app):
        await run.wait(WITHIN)
    states = {node.name: node.state for node in await run.nodes()}
    assert states["late"] is JobState.CANCELLED
    assert states["quick"] is JobState.SUCCEEDED


async def test_a_loser_that_another_gate_needs_goes_on(app: App) -> None:
    flow = app.flow("needed")
    quick = flow.add(app.tasks["slow"], 0.0).named("quick")
    late = flow.add(app.tasks["slow"], 0.3).named("late")
    flow.add(app.tasks["say"], "first").after(any_of(quick, late, losers="cancel"))
    flow.add(app.tasks["say"], "needs it").after(late)
    run = await flow.start()
    async with working(app):
        assert (await run.wait(WITHIN)).state is FlowState.SUCCEEDED
    assert {node.state for node in await run.nodes()} == {JobState.SUCCEEDED}


async def test_a_failure_skips_what_needs_it_and_runs_what_waits_for_it(app: App) -> None:
    flow = app.flow("broken")
    bad = flow.add(app.tasks["no"])
    flow.add(app.tasks["double"], bad.output)
    flow.add(app.tasks["say"], "handled").named("handled").after(failed(bad))
    flow.add(app.tasks["say"], "after all").named("after_all").after(ended(bad))
    run = await flow.start()
    async with working(app):
        with pytest.raises(FlowFailed, match="node 'no' failed: no"):
            await run.result(WITHIN)
    assert {node.name: node.state.value for node in await run.nodes()} == {
        "no": "failed",
        "double": "skipped",
        "handled": "succeeded",
        "after_all": "succeeded",
    }


async def test_a_retry_runs_what_failed_and_what_was_skipped_and_keeps_the_rest(app: App) -> None:
    ok = False

    async def moody() -> int:
        if not ok:
            raise Fail("not now")
        return 1

    moody_task = app.task(name="moody", retry=Retry.never())(moody)
    flow = app.flow("again")
    first = flow.add(app.tasks["numbers"], 3).named("first")
    second = flow.add(moody_task).after(first)
    flow.add(app.tasks["double"], second.output)
    run = await flow.start()
    async with working(app):
        await run.wait(WITHIN)
        planned = await run.retry(dry_run=True)
        assert (planned.again, planned.wait, planned.kept) == (("moody",), ("double",), ("first",))
        assert (await run.get()).state is FlowState.FAILED
        ok = True
        assert await run.retry() == planned
        assert await run.result(WITHIN) == 2
    attempts = {node.name: node.attempts for node in await run.nodes()}
    assert attempts == {"first": 1, "moody": 1, "double": 1}


async def test_a_cancelled_flow_ends_and_begins_nothing_more(app: App) -> None:
    flow = app.flow("cancelled")
    first = flow.add(app.tasks["slow"], 60.0)
    flow.add(app.tasks["say"], "never").after(first)
    run = await flow.start()
    async with working(app):
        await wait_until(lambda: _is_running(run), WITHIN, "the first node runs")
        await run.cancel()
        with pytest.raises(FlowCancelled):
            await run.result(WITHIN)
    assert {node.state for node in await run.nodes()} == {JobState.CANCELLED}
    with pytest.raises(Refused):
        await run.cancel()


async def _is_running(run: object) -> bool:
    nodes = await run.nodes()  # type: ignore[attr-defined]
    return any(node.state is JobState.RUNNING for node in nodes)


async def test_a_paused_flow_waits_until_it_is_resumed(app: App) -> None:
    flow = app.flow("paused")
    flow.add(app.tasks["say"], "b").after(flow.add(app.tasks["say"], "a"))
    run = await flow.start()
    await run.pause()
    async with working(app):
        await wait_until(lambda: _has_succeeded(run, 1), WITHIN, "the first node ends")
        assert (await run.get()).state is FlowState.PAUSED
        await run.resume()
        assert await run.result(WITHIN) == "b"


async def _has_succeeded(run: object, count: int) -> bool:
    nodes = await run.nodes()  # type: ignore[attr-defined]
    return sum(node.state is JobState.SUCCEEDED for node in nodes) == count


async def test_a_result_that_does_not_fit_fails_its_reader_only(app: App) -> None:
    flow = app.flow("misfit")
    text = flow.add(app.tasks["say"], "words")
    flow.add(app.tasks["double"], text.output)
    run = await flow.start()
    [reader] = [node.job_id for node in await run.nodes() if node.name == "double"]
    async with app.worker(unreadable_for=0):
        with pytest.raises(FlowFailed, match="double"):
            await run.result(WITHIN)
    [reason] = (await app.client.explain(reader)).reasons
    assert reason.advice.startswith("deploy a worker whose code takes the arguments of 'double', ")


async def test_a_result_that_does_not_fit_waits_for_a_worker_that_can_read_it(app: App) -> None:
    flow = app.flow("misfit")
    text = flow.add(app.tasks["say"], "words")
    reading = flow.add(app.tasks["double"], text.output).named("reader")
    flow.add(app.tasks["say"], "behind").named("behind").after(reading)
    run = await flow.start()
    ids = {node.name: node.job_id for node in await run.nodes()}
    reader, after = ids["reader"], ids["behind"]
    async with working(app):
        await wait_until(lambda: _is_left(app, reader), WITHIN, "the reader is left")
    [job] = await app.store.jobs.get([reader])
    assert (job.state, job.attempts) == (JobState.SCHEDULED, 0)
    assert (await run.get()).state is FlowState.RUNNING
    [reason, *_] = (await app.client.explain(job.id)).reasons
    assert reason.code == "arguments-misfit"
    [node] = (await app.client.flows.explain(run.id)).frontier
    assert node.why.startswith("is left: no live worker can read its arguments; tried: '")
    assert node.why.endswith("; it fails in 15 min")
    assert "expected int, got str: the function changed" in reason.fact
    assert "it fails in" in reason.fact
    [behind] = (await app.client.explain(after)).reasons
    assert behind.fact.startswith("waits for 'reader', which is left: no live worker can read")
    assert behind.advice == reason.advice


async def _is_left(app: App, job_id: JobId) -> bool:
    [job] = await app.store.jobs.get([job_id])
    return job.state is JobState.SCHEDULED


async def test_a_flow_is_started_once_for_a_key(app: App) -> None:
    first = app.flow("keyed")
    first.add(app.tasks["say"], "x")
    run = await first.start(unique="order:1")
    second = app.flow("keyed")
    second.add(app.tasks["say"], "y")
    other = await second.start(unique="order:1")
    assert (other.id, other.created) == (run.id, False)
    assert (await first.start(unique="order:1")).id == run.id


async def test_what_cannot_be_a_flow_is_refused_before_anything_is_written(app: App) -> None:
    tasks = app.tasks
    with pytest.raises(BadFlow, match="no nodes"):
        await app.flow("empty").start()
    flow = app.flow("circle")
    a, b = flow.add(tasks["say"], "a").named("a"), flow.add(tasks["say"], "b").named("b")
    a.after(b)
    b.after(a)
    with pytest.raises(FlowCycle, match="'a' waits for 'b' waits for 'a'"):
        await flow.start()
    twins = app.flow("twins")
    twins.add(tasks["say"], "a").named("x")
    twins.add(tasks["say"], "b").named("x")
    with pytest.raises(BadFlow, match="two nodes are named 'x'"):
        await twins.start()
    other = app.flow("other")
    other.add(tasks["say"], "c").after(a)
    with pytest.raises(BadFlow, match="no node of the flow"):
        await other.start()
    with pytest.raises(BadArguments, match="text"):
        app.flow("wrong").add(tasks["say"], 5)
    with pytest.raises(BadOption, match="quorum"):
        quorum(3, a, b)
    with pytest.raises(BadFlow, match=r"\.output"):
        flow.add(tasks["say"], a)
    assert await app.client.flows.count() == {}


async def test_a_flow_that_takes_long_is_not_waited_for_forever(app: App) -> None:
    flow = app.flow("long")
    flow.add(app.tasks["say"], "x")
    run = await flow.start()
    with pytest.raises(FlowTimeout):
        await run.result(0.05)
    with pytest.raises(UnknownFlow):
        await app.client.flows.get("no such id")


async def test_a_node_knows_what_it_waits_for(app: App) -> None:
    flow = app.flow("why")
    a, b = flow.add(app.tasks["say"], "a").named("a"), flow.add(app.tasks["say"], "b").named("b")
    flow.add(app.tasks["say"], "c").named("c").after(a, b)
    run = await flow.start()
    by_name = {node.name: node for node in await run.nodes()}
    explained = await app.client.explain(by_name["c"].job_id)
    [reason] = explained.reasons
    assert reason.fact == (
        "waits for all 2: 'a' is ready, next in line in queue 'default': no worker is alive"
        " · 'b' is ready, 1 ahead of it in queue 'default': no worker is alive"
    )
    whole = await run.explain()
    assert [node.name for node in whole.frontier] == ["a", "b"]
    assert whole.longest_path in (("a", "c"), ("b", "c"))


async def test_a_node_sees_its_context(app: App) -> None:
    seen: list[str] = []

    async def look(ctx: Context) -> None:
        seen.append(ctx.job.id)

    task = app.task(name="look")(look)
    flow = app.flow("context")
    flow.add(task)
    run = await flow.start()
    async with working(app):
        await run.wait(WITHIN)
    assert seen == [node.job_id for node in await run.nodes()]
