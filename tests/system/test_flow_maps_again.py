"""A map whose attempt dies, and a map that a later attempt writes down again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from holdfast.context import Context
from holdfast.declaring.nodes import any_of, ended
from holdfast.errors import BadFlow
from holdfast.flow.model import FlowState, Grown, Growth
from holdfast.job.retry import Retry
from tests.system.test_flow_maps import WITHIN, Bench, add_all, bench, working

__all__ = ["bench"]


@pytest.mark.parametrize("dies_after", [1, 2])
async def test_a_map_that_dies_when_a_waiter_is_gone_keeps_the_others_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, dies_after: int
) -> None:
    """One of the nodes behind the map was cancelled. The attempt is over after so many writes, and
    the next one finds what is written."""
    flow = bench.app.flow("waiters")
    source = flow.add(bench.work, 5).named("source")
    numbers = flow.add(bench.say, [0, 1]).after(source)
    m = flow.map(bench.work, numbers.output).named("m")
    flow.add(bench.say, m.outputs).named("gone")
    flow.add(bench.say, m.outputs).named("results")
    add_all(bench, flow, {"tidy": ended(m), "half": m.at_least(0.5)})
    extend, writes = bench.app.store.flows.extend, list[Grown]()

    async def dying(growths: Sequence[Growth]) -> list[Grown]:
        grown = await extend(growths)
        writes.extend(grown)
        if len(writes) == dies_after:
            raise RuntimeError("dies behind the write")
        return grown

    monkeypatch.setattr(bench.app.store.flows, "extend", dying)
    await bench.start(flow)
    [gone] = [node.job_id for node in await bench.run.nodes() if node.name == "gone"]
    await bench.app.client.cancel(gone)
    bench.let(5)
    async with working(bench):
        await bench.until(m="succeeded", m0="running", m1="running")
        states = await bench.states()
        assert {states[name] for name in ("results", "tidy", "half")} == {"blocked"}
        bench.let(0, 1)
        await bench.run.wait(WITHIN)
    assert await bench.result("results") == [0, 10]
    assert len(writes) > dies_after


def later_waiter(bench: Bench, flow: Any, m: Any) -> None:
    flow.add(bench.say, m.outputs).named("late")


def later_race(bench: Bench, flow: Any, m: Any) -> None:
    flow.add(bench.say, any_of(m, flow.node("x")).output).named("late")


def later_before(bench: Bench, flow: Any, m: Any) -> None:
    m.before("last")


@pytest.mark.parametrize("later", [later_waiter, later_race, later_before])
async def test_a_map_that_is_written_down_again_takes_no_more_waiters(
    bench: Bench, later: Callable[[Bench, Any, Any], None]
) -> None:
    """It is there, and would not tell its elements of them."""
    heard: list[str] = []

    async def grow(ctx: Context) -> None:
        m = ctx.flow.map(bench.work, [0, 1]).named("m")
        ctx.flow.add(bench.say, "tidy").named("tidy").after(ended(m))
        m.before("first")
        if ctx.attempt == 2:
            later(bench, ctx.flow, m)
        try:
            await ctx.flow.extend()
        except BadFlow as error:
            heard.append(str(error))
        if ctx.attempt == 1:
            raise RuntimeError("after the growth was written")

    flow = bench.app.flow("growing")
    grower = flow.add(bench.app.task(name="grow", retry=Retry(max_attempts=2, base=0))(grow))
    flow.add(bench.work, 7).named("x")
    add_all(bench, flow, {"first": ended(grower), "last": ended(grower)})
    await bench.start(flow)
    async with working(bench):
        bench.let(0, 1, 7)
        assert (await bench.run.wait(WITHIN)).state is FlowState.SUCCEEDED
    [said] = heard
    assert "the flow has the map 'm' already" in said
    assert "late" not in await bench.states()
