"""What waits for a map waits for its elements, with a real worker.

Elements are held until a test lets them end. The transaction that ends a node also decides about
those behind it, so a node that is blocked after an end stays blocked until the next one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.app import App
from holdfast.client.flow_handle import FlowHandle
from holdfast.context import Context
from holdfast.declaring.nodes import all_of, any_of, ended, failed, quorum
from holdfast.errors import BadFlow
from holdfast.flow.model import FlowState
from holdfast.job.ends import Fail
from holdfast.job.retry import Retry
from tests.support.backends import Backend
from tests.support.waiting import wait_until

WITHIN = 20


class Bench:
    """An app whose task `work` ends when it is let, and fails if it is told to."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.held: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.bad: set[int] = set()
        self.run: FlowHandle

        async def work(number: int) -> int:
            await self.held[number].wait()
            if number in self.bad:
                raise Fail("told to")
            return 10 * number

        async def say(what: Any) -> Any:
            return what

        never = Retry.never()
        self.work = app.task(name="work", retry=never)(work)
        self.say: Any = app.task(name="say", retry=never)(say)

    async def start(self, flow: Any) -> None:
        self.run = await flow.start()

    def let(self, *numbers: int, bad: Iterable[int] = ()) -> None:
        self.bad |= set(bad)
        for number in (*numbers, *bad):
            self.held[number].set()

    async def states(self) -> dict[str, str]:
        return {node.name: node.state.value for node in await self.run.nodes()}

    async def state(self, name: str) -> str | None:
        return (await self.states()).get(name)

    async def until(self, **states: str) -> None:
        """Wait until these nodes are so. A name with a number is that of an element."""
        wanted = {_name(key): state for key, state in states.items()}

        async def are_so() -> bool:
            found = await self.states()
            return all(found.get(name) == state for name, state in wanted.items())

        await wait_until(are_so, WITHIN, f"nodes are {wanted}")

    async def result(self, name: str) -> Any:
        [job] = [node.job_id for node in await self.run.nodes() if node.name == name]
        return (await self.app.client.get(job)).result


def _name(key: str) -> str:
    """`m1` is the second element of the map `m`."""
    return f"{key[:-1]}[{key[-1]}]" if key[-1].isdigit() else key


def add_all(bench: Bench, flow: Any, conditions: dict[str, Any]) -> None:
    """A node behind each condition, by its name."""
    for name, condition in conditions.items():
        flow.add(bench.say, name).named(name).after(condition)


@pytest.fixture
async def bench(backend: Backend) -> AsyncIterator[Bench]:
    app = App(await backend.empty())
    bench = Bench(app)
    async with app:
        yield bench


@asynccontextmanager
async def working(bench: Bench) -> AsyncIterator[None]:
    async with bench.app.worker({"default": 20}):
        yield


async def test_what_waits_for_the_end_of_a_map_waits_for_all_elements(bench: Bench) -> None:
    flow = bench.app.flow("tidy")
    m = flow.map(bench.work, [0, 1, 2]).named("m")
    flow.add(bench.say, "tidy").named("tidy").after(ended(m))
    await bench.start(flow)
    async with working(bench):
        bench.let(0)
        await bench.until(m="succeeded", m0="succeeded")
        assert await bench.state("tidy") == "blocked"
        bench.let(bad=[1])
        await bench.until(m1="failed")
        assert await bench.state("tidy") == "blocked"
        bench.let(2)
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED
    assert await bench.state("tidy") == "succeeded"


async def test_one_element_that_fails_is_a_failure_of_its_map(bench: Bench) -> None:
    flow = bench.app.flow("alarm")
    m = flow.map(bench.work, [0, 1, 2]).named("m")
    x = flow.add(bench.work, 7).named("x")
    flow.add(bench.say, "alarm").named("alarm").after(failed(m))
    flow.add(bench.say, "either").named("either").after(failed(x, m))
    await bench.start(flow)
    async with working(bench):
        bench.let(0)
        await bench.until(m="succeeded", m0="succeeded")
        assert await bench.state("alarm") == await bench.state("either") == "blocked"
        bench.let(bad=[1])
        await bench.until(alarm="succeeded", either="succeeded")
        assert await bench.state("m[2]") == "running"
        bench.let(2, 7)
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED


async def test_a_map_without_a_failed_element_has_not_failed(bench: Bench) -> None:
    flow = bench.app.flow("calm")
    m = flow.map(bench.work, [0, 1]).named("m")
    x = flow.add(bench.work, 7).named("x")
    flow.add(bench.say, "alarm").named("alarm").after(failed(m))
    flow.add(bench.say, "either").named("either").after(failed(x, m))
    await bench.start(flow)
    async with working(bench):
        bench.let(0, 1)
        await bench.until(m1="succeeded", alarm="skipped", either="blocked")
        bench.let(7)
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED
    assert await bench.state("either") == "skipped"


async def test_the_first_of_a_map_and_a_node_is_the_map_when_all_its_elements_have_succeeded(
    bench: Bench,
) -> None:
    flow = bench.app.flow("race")
    m = flow.map(bench.work, [0, 1]).named("m")
    x = flow.add(bench.work, 7).named("x")
    flow.add(bench.say, any_of(m, x).output).named("first")
    await bench.start(flow)
    async with working(bench):
        bench.let(0)
        await bench.until(m="succeeded", m0="succeeded")
        assert await bench.state("first") == "blocked"
        bench.let(1)
        await bench.until(first="succeeded")
        assert await bench.result("first") == [0, 10]
        bench.let(7)
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED


async def test_a_node_that_comes_before_a_map_wins_and_the_elements_are_cancelled(
    bench: Bench,
) -> None:
    flow = bench.app.flow("race")
    m = flow.map(bench.work, range(3)).named("m")
    x = flow.add(bench.work, 7).named("x")
    flow.add(bench.say, any_of(m, x, losers="cancel").output).named("first")
    await bench.start(flow)
    async with working(bench):
        bench.let(0)
        await bench.until(m="succeeded", m0="succeeded", m1="running", m2="running")
        bench.let(7)
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED
    assert await bench.result("first") == 70
    assert await bench.states() == {
        "m": "succeeded",
        "m[0]": "succeeded",
        "m[1]": "cancelled",
        "m[2]": "cancelled",
        "all(m)": "cancelled",
        "x": "succeeded",
        "first": "succeeded",
    }


async def test_a_quorum_counts_a_map_as_one_node(bench: Bench) -> None:
    flow = bench.app.flow("quorum")
    m = flow.map(bench.work, [0, 1]).named("m")
    n = flow.map(bench.work, [2, 3]).named("n")
    x = flow.add(bench.work, 7).named("x")
    two = quorum(2, m, n, x)
    flow.add(bench.say, two.outputs).named("two")
    flow.add(bench.say, "again").named("again").after(two)
    await bench.start(flow)
    async with working(bench):
        bench.let(0, 1, 2, bad=[7])
        await bench.until(m0="succeeded", m1="succeeded", n0="succeeded", x="failed")
        assert await bench.state("two") == await bench.state("again") == "blocked"
        bench.let(3)
        await bench.until(two="succeeded", again="succeeded")
        assert await bench.result("two") == [[0, 10], [20, 30], None]
        await bench.run.wait(WITHIN)


async def test_all_of_a_map_and_a_node_are_all_its_elements_too(bench: Bench) -> None:
    flow = bench.app.flow("all")
    m = flow.map(bench.work, [0, 1]).named("m")
    x = flow.add(bench.work, 7).named("x")
    flow.add(bench.say, all_of(m, x).outputs).named("all")
    flow.add(bench.say, ended(m, x).outputs).named("ended")
    await bench.start(flow)
    async with working(bench):
        bench.let(7, 0)
        await bench.until(m="succeeded", m0="succeeded", x="succeeded")
        assert await bench.state("all") == await bench.state("ended") == "blocked"
        bench.let(bad=[1])
        await bench.until(all="skipped", ended="succeeded")
        assert await bench.result("ended") == [[0, None], 70]
        await bench.run.wait(WITHIN)


async def test_a_share_waits_until_all_elements_have_ended(bench: Bench) -> None:
    flow = bench.app.flow("share")
    m = flow.map(bench.work, range(4)).named("m")
    flow.add(bench.say, m.outputs).named("late").after(m.at_least(0.5))
    flow.add(bench.say, m.outputs).named("early").after(m.at_least(0.5, early=True))
    await bench.start(flow)
    async with working(bench):
        bench.let(0, 1, bad=[3])
        await bench.until(m0="succeeded", m1="succeeded", m3="failed", early="succeeded")
        assert await bench.state("late") == "blocked"
        bench.let(2)
        await bench.until(late="succeeded")
        assert await bench.result("early") == [0, 10, None, None]
        assert await bench.result("late") == [0, 10, 20, None]
        await bench.run.wait(WITHIN)


async def test_a_share_that_is_out_of_reach_skips_while_elements_run(bench: Bench) -> None:
    flow = bench.app.flow("share")
    m = flow.map(bench.work, range(4)).named("m")
    flow.add(bench.say, m.outputs).named("join").after(m.at_least(0.75))
    await bench.start(flow)
    async with working(bench):
        bench.let(bad=[0])
        await bench.until(m="succeeded", m0="failed")
        assert await bench.state("join") == "blocked"
        bench.let(bad=[1])
        await bench.until(m1="failed", m2="running", m3="running", join="skipped")
        bench.let(2, 3)
        assert (await bench.run.wait(WITHIN)).state is FlowState.FAILED


async def test_a_map_of_nothing_has_ended_and_succeeded_and_has_not_failed(bench: Bench) -> None:
    flow = bench.app.flow("empty")
    m = flow.map(bench.work, []).named("m")
    x = flow.add(bench.work, 7).named("x")
    flow.add(bench.say, any_of(m, x).output).named("first")
    conditions: dict[str, Any] = {
        "ended": ended(m),
        "all": all_of(m),
        "share": m.at_least(0.9),
        "early": m.at_least(0.9, early=True),
        "failed": failed(m),
        "either": failed(m, x),
    }
    add_all(bench, flow, conditions)
    await bench.start(flow)
    async with working(bench):
        await bench.until(
            first="succeeded",
            ended="succeeded",
            all="succeeded",
            share="succeeded",
            early="succeeded",
            failed="skipped",
            either="blocked",
        )
        assert await bench.result("first") == []
        bench.let(7)
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED


async def test_a_map_that_cannot_make_its_elements_has_failed(bench: Bench) -> None:
    flow = bench.app.flow("broken")
    m = flow.map(bench.work, flow.add(bench.say, "no list").output).named("m")
    x = flow.add(bench.work, 7).named("x")
    conditions: dict[str, Any] = {
        "ended": ended(m),
        "failed": failed(m),
        "either": failed(m, x),
        "all": all_of(m),
        "first": any_of(m, x),
        "share": m.at_least(0.0),
    }
    add_all(bench, flow, conditions)
    await bench.start(flow)
    async with working(bench):
        await bench.until(
            m="failed",
            ended="succeeded",
            failed="succeeded",
            either="succeeded",
            all="skipped",
            first="blocked",
            share="skipped",
        )
        bench.let(7)
        await bench.until(first="succeeded")
        await bench.run.wait(WITHIN)


async def test_an_element_that_is_cancelled_has_ended_and_has_not_failed(bench: Bench) -> None:
    flow = bench.app.flow("cancelled")
    m = flow.map(bench.work, range(2)).named("m")
    x = flow.add(bench.work, 7).named("x")
    conditions: dict[str, Any] = {
        "ended": ended(m),
        "failed": failed(m),
        "first": any_of(m, x),
        "share": m.at_least(0.5),
    }
    add_all(bench, flow, conditions)
    await bench.start(flow)
    async with working(bench):
        await bench.until(m="succeeded", m0="running", m1="running")
        [first] = [node.job_id for node in await bench.run.nodes() if node.name == "m[0]"]
        await bench.app.client.cancel(first)
        await bench.until(m0="cancelled")
        found = await bench.states()
        names = ("ended", "failed", "first", "share")
        assert {found[name] for name in names} == {"blocked"}
        bench.let(1, 7)
        await bench.run.wait(WITHIN)
    found = await bench.states()
    ends = ["succeeded", "skipped", "succeeded", "succeeded"]
    assert [found[name] for name in names] == ends


async def test_a_map_of_the_results_of_a_map_is_waited_for_as_any_other(bench: Bench) -> None:
    flow = bench.app.flow("twice")
    m = flow.map(bench.say, [1, 2]).named("m")
    n = flow.map(bench.work, m.outputs).named("n")
    flow.add(bench.say, "tidy").named("tidy").after(ended(n))
    flow.add(bench.say, any_of(n, flow.add(bench.work, 7)).output).named("first")
    await bench.start(flow)
    async with working(bench):
        bench.let(1)
        await bench.until(n="succeeded", n0="succeeded")
        assert await bench.state("tidy") == await bench.state("first") == "blocked"
        bench.let(2)
        await bench.until(tidy="succeeded", first="succeeded")
        assert await bench.result("first") == [10, 20]
        bench.let(7)
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED


async def test_a_handler_adds_conditions_on_a_map_once(bench: Bench) -> None:
    async def grow(ctx: Context) -> None:
        m = ctx.flow.map(bench.work, [0, 1]).named("m")
        x = ctx.flow.add(bench.work, 7).named("x")
        ctx.flow.add(bench.say, any_of(m, x).output).named("first")
        ctx.flow.add(bench.say, "tidy").named("tidy").after(ended(m))
        await ctx.flow.extend()
        if ctx.attempt == 1:
            raise RuntimeError("after the growth was written")

    flow = bench.app.flow("growing")
    flow.add(bench.app.task(name="grow", retry=Retry(max_attempts=2, base=0))(grow))
    await bench.start(flow)
    async with working(bench):
        bench.let(0)
        await bench.until(grow="succeeded", m="succeeded", m0="succeeded")
        assert await bench.state("first") == await bench.state("tidy") == "blocked"
        bench.let(1)
        await bench.until(first="succeeded", tidy="succeeded")
        assert await bench.result("first") == [0, 10]
        bench.let(7)
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED
    assert len(await bench.states()) == 8


async def test_a_handler_cannot_wait_for_a_map_that_its_flow_has_already(bench: Bench) -> None:
    heard: list[str] = []

    async def grow(ctx: Context) -> None:
        ctx.flow.add(bench.say, "late").after(ctx.flow.node("m"))
        try:
            await ctx.flow.extend()
        except BadFlow as error:
            heard.append(str(error))

    flow = bench.app.flow("growing")
    flow.map(bench.work, []).named("m")
    flow.add(bench.app.task(name="grow", retry=Retry.never())(grow))
    await bench.start(flow)
    async with working(bench):
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED
    assert "'m' is a map" in heard[0]


async def test_a_share_is_counted_without_the_errors_of_floats(bench: Bench) -> None:
    """0.55 * 100 is a little more than 55."""
    flow = bench.app.flow("share")
    m = flow.map(bench.work, range(100)).named("m")
    flow.add(bench.say, "enough").after(m.at_least(0.55))
    await bench.start(flow)
    async with working(bench):
        bench.let(*range(55), bad=range(55, 100))
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED


async def test_a_map_that_runs_again_decides_anew_what_waits_for_it(bench: Bench) -> None:
    """Also if it makes nothing both times: then what it writes down is the same text."""
    given: list[int] = []

    async def numbers() -> list[int]:
        return given

    flow = bench.app.flow("again")
    source = flow.add(bench.app.task(name="numbers")(numbers))
    m = flow.map(bench.work, source.output).named("m")
    x = flow.add(bench.work, 7).named("x")
    flow.add(bench.say, any_of(m, x).output).named("first")
    add_all(bench, flow, {"ended": ended(m), "failed": failed(m), "share": m.at_least(0.5)})
    await bench.start(flow)
    async with working(bench):
        bench.let(1, bad=[0, 7])
        for elements, failure in (([], "skipped"), ([], "skipped"), ([0, 1], "succeeded")):
            given[:] = elements
            if (await bench.run.get()).ended:
                await bench.run.retry("numbers", cascade=True)
            await bench.run.wait(WITHIN)
            found = await bench.states()
            names = ("ended", "failed", "share")
            assert [found[name] for name in names] == ["succeeded", failure, "succeeded"]
            assert found["first"] == ("skipped" if elements else "succeeded")


@pytest.mark.parametrize(
    ("cancelled", "retried"),
    [("before", "before"), ("before", "after"), ("after", "after")],
    ids=["before the map ran", "cancelled before, retried after it ran", "after the map ran"],
)
async def test_a_join_that_is_retried_waits_for_elements_that_still_run(
    bench: Bench, cancelled: str, retried: str
) -> None:
    may_list = asyncio.Event()

    async def numbers() -> list[int]:
        await may_list.wait()
        return [0, 1]

    flow = bench.app.flow("again")
    source = flow.add(bench.app.task(name="numbers")(numbers))
    m = flow.map(bench.work, source.output).named("m")
    conditions: dict[str, Any] = {"all": m, "share": m.at_least(0.9), "ended": ended(m)}
    for name, condition in conditions.items():
        flow.add(bench.say, m.outputs).named(name).after(condition)
    x = flow.add(bench.work, 7).named("x")
    flow.add(bench.say, any_of(m, x).output).named("first")
    await bench.start(flow)
    names = ("all", "ended", "first", "share")
    async with working(bench):
        for moment in ("before", "after"):
            if moment == "after":
                may_list.set()
                await bench.until(m0="running", m1="running", m="succeeded")
            if moment == cancelled:
                for node in await bench.run.nodes():
                    if node.name in names:
                        await bench.app.client.cancel(node.job_id)
                await bench.until(**dict.fromkeys(names, "cancelled"))
            if moment == retried:
                plan = await bench.run.retry(*names, dry_run=True)
                assert (plan.again, plan.wait) == ((), names)
                assert await bench.run.retry(*names) == plan
        bench.let(0)
        await bench.until(m0="succeeded")
        states = await bench.states()
        assert [states[name] for name in names] == ["blocked"] * 4
        bench.let(1)
        await bench.until(first="succeeded")
        bench.let(7)
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED
    assert [await bench.result(name) for name in names] == [[0, 10]] * 4
    assert await bench.app.store.telemetry.recount() == []


async def test_a_flow_that_returns_a_map_has_the_list_of_its_results(bench: Bench) -> None:
    """Also if the map is its only last node, and after elements were made anew."""
    bench.let(0, 1, 2, 7)
    numbers = [2, 0]

    async def find() -> list[int]:
        return numbers

    find_task: Any = bench.app.task(name="find")(find)
    async with working(bench):
        alone = bench.app.flow("alone")
        alone.map(bench.work, alone.add(find_task).named("find").output).named("m")
        await bench.start(alone)
        assert await bench.run.result(WITHIN) == [20, 0]
        numbers[:] = [1]
        await bench.run.retry("find", cascade=True)
        assert await bench.run.result(WITHIN) == [10]

        named = bench.app.flow("named")
        named.returns(named.map(bench.work, [1, 2]).named("m"))
        named.add(bench.work, 7)
        await bench.start(named)
        assert await bench.run.result(WITHIN) == [10, 20]

        empty = bench.app.flow("empty")
        empty.map(bench.work, [])
        await bench.start(empty)
        assert await bench.run.result(WITHIN) == []


async def test_an_element_that_failed_is_none_in_the_result_of_a_flow(bench: Bench) -> None:
    flow = bench.app.flow("most")
    m = flow.map(bench.work, [0, 1]).named("m")
    flow.add(bench.say, "enough").after(m.at_least(0.5))
    flow.returns(m)
    bench.let(1, bad=[0])
    await bench.start(flow)
    async with working(bench):
        assert await bench.run.result(WITHIN) == [None, 10]


async def test_a_flow_task_whose_flow_returns_a_map_succeeds_with_the_list(bench: Bench) -> None:
    @bench.app.flow_task()
    def double(app_flow: str) -> Any:
        flow = bench.app.flow(app_flow)
        flow.map(bench.work, [1, 2])
        return flow

    bench.let(1, 2)
    async with working(bench):
        job = await double.enqueue("inner")
        assert await job.result(timeout=WITHIN) == [10, 20]
