"""A worker may die before, during and after every write of a step; what was acknowledged stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast.context import AttemptLost, Context
from holdfast.job.ends import Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import wait_until
from tests.support.working import Shop


async def take_away(store: Store, job_id: JobId) -> None:
    """The worker of this job is dead: the job is ready for another, under a newer fence."""
    [live] = await store.jobs.live([job_id])
    [verdict] = await store.jobs.finish([decide(live, Reclaimed("its worker died"))])
    assert verdict.accepted


def flaky_steps(store: Store, line: Line) -> FlakyStore:
    """A store whose verbs on steps go over this line, and all others over a good one. Other nouns
    have verbs of the same names."""
    flaky = FlakyStore(store, Line())
    flaky.steps = FlakyStore(store, line).steps
    return flaky


async def names_of(store: Store, job_id: JobId) -> list[str]:
    return [step.name for step in (await store.steps.load([job_id])).get(job_id, [])]


async def test_a_function_whose_record_was_not_sent_is_called_again(live_store: Store) -> None:
    calls: list[str] = []
    line = Line()

    async def pays(ctx: Context) -> str:
        return await ctx.step("pay", noting(calls, "pay"))

    shop = Shop(flaky_steps(live_store, line), pays)
    job_id = await shop.enqueue(pays)
    line.refuse = {"record"}
    async with shop.worker({"default": 1}) as dead:  # no slot of it is free for the job again
        await wait_until(lambda: "record" in line.calls, 10, "the function has returned")
        await take_away(live_store, job_id)
        await Shop(live_store, pays).drain()
        line.refuse = set()  # the zombie comes back, and its record is refused
        await dead.drain()
    job = await shop.get(job_id)
    assert (job.result, calls) == ("paid by pay 2", ["pay", "pay"])
    [step] = (await live_store.steps.load([job_id]))[job_id]
    assert step.result == "paid by pay 2"


async def test_a_record_whose_answer_was_lost_is_sent_again_and_stands_once(
    live_store: Store,
) -> None:
    calls: list[str] = []
    line = Line()

    async def pays(ctx: Context) -> str:
        return await ctx.step("pay", noting(calls, "pay"))

    shop = Shop(flaky_steps(live_store, line), pays)
    job_id = await shop.enqueue(pays)
    line.lose = {"record"}
    await shop.drain()
    assert ((await shop.get(job_id)).result, calls) == ("paid by pay 1", ["pay"])
    assert line.calls.count("record") == 2
    assert await names_of(live_store, job_id) == ["pay"]


async def test_a_step_that_was_acknowledged_is_never_called_again(live_store: Store) -> None:
    """F8, and the zombie is refused at its next step."""
    calls: list[str] = []
    refused: list[str] = []
    recorded, go_on = asyncio.Event(), asyncio.Event()

    async def pays(ctx: Context) -> str:
        paid = await ctx.step("pay", noting(calls, "pay"))
        recorded.set()
        await go_on.wait()
        try:
            await ctx.step("ship", noting(calls, "ship"))
        except AttemptLost:
            refused.append("ship")
            raise
        return paid

    shop = Shop(live_store, pays)
    job_id = await shop.enqueue(pays)
    async with shop.worker() as worker:
        await asyncio.wait_for(recorded.wait(), 10)
        await take_away(live_store, job_id)
        go_on.set()
        await worker.drain()
        await wait_until(lambda: bool(refused), 10, "the zombie is told")
    job = await shop.get(job_id)
    assert (job.state, job.result) == (JobState.SUCCEEDED, "paid by pay 1")
    assert calls.count("pay") == 1
    assert await names_of(live_store, job_id) == ["pay", "ship"]


@pytest.mark.parametrize("lost", [False, True], ids=["answered", "answer lost"])
async def test_a_lazy_step_is_written_once_with_the_end(live_store: Store, lost: bool) -> None:
    calls: list[str] = []
    line = Line()

    async def adds_up(ctx: Context) -> str:
        return await ctx.step.using(lazy=True)("total", noting(calls, "total"))

    shop = Shop(FlakyStore(live_store, line), adds_up)
    job_id = await shop.enqueue(adds_up)
    if lost:
        line.lose = {"finish"}
    await shop.drain()
    assert ((await shop.get(job_id)).state, calls) == (JobState.SUCCEEDED, ["total"])
    assert await names_of(live_store, job_id) == ["total"]


async def test_a_lazy_step_of_a_dead_worker_is_called_again(live_store: Store) -> None:
    """Its end is refused, and so is what came with it."""
    calls: list[str] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def adds_up(ctx: Context) -> str:
        total = await ctx.step.using(lazy=True)("total", noting(calls, "total"))
        if not begun.is_set():
            begun.set()
            await go_on.wait()
        return total

    shop = Shop(live_store, adds_up)
    job_id = await shop.enqueue(adds_up)
    async with shop.worker() as worker:
        await asyncio.wait_for(begun.wait(), 10)
        await take_away(live_store, job_id)
        await shop.until(job_id, lambda job: job.ended)
        go_on.set()
        await worker.drain()
    assert ((await shop.get(job_id)).result, len(calls)) == ("paid by total 2", 2)
    [step] = (await live_store.steps.load([job_id]))[job_id]
    assert step.result == "paid by total 2"


async def test_a_sleep_whose_answer_was_lost_is_slept_once(live_store: Store) -> None:
    line = Line()

    async def naps(ctx: Context) -> str:
        await ctx.sleep("nap", hours=1)
        return "awake"

    shop = Shop(FlakyStore(live_store, line), naps)
    job_id = await shop.enqueue(naps)
    line.lose = {"finish"}
    await shop.drain()
    job = await shop.get(job_id)
    [step] = (await live_store.steps.load([job_id]))[job_id]
    assert job.state is JobState.SUSPENDED
    assert step.until is not None
    assert job.due_at is not None
    assert 0 <= (job.due_at - step.until).total_seconds() < 1
    await live_store.jobs.resume([job_id])
    await shop.drain()
    assert (await shop.get(job_id)).result == "awake"


async def test_an_outage_is_waited_out_by_a_handler_with_steps(live_store: Store) -> None:
    calls: list[str] = []
    line = Line()

    async def pays(ctx: Context) -> str:
        return await ctx.step("pay", noting(calls, "pay"))

    shop = Shop(flaky_steps(live_store, line), pays)
    job_id = await shop.enqueue(pays)
    line.refuse = {"record"}
    async with shop.worker() as worker:
        await wait_until(lambda: line.calls.count("record") > 1, 10, "it was tried again")
        line.refuse = set()
        await worker.drain()
    assert ((await shop.get(job_id)).result, calls) == ("paid by pay 1", ["pay"])


def noting(calls: list[str], name: str) -> Callable[[], str]:
    def function() -> str:
        calls.append(name)
        return f"paid by {name} {calls.count(name)}"

    return function
