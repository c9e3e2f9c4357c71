"""A program that dies at a chosen write, as a user would write one but for its death.

    python -m tests.support.crash_stories whole claim 7 before

plays the story `whole` and dies before the seventh `claim` reaches the store: by `os._exit`, so
nothing of the process runs after it. `after` dies when the write is done, and `lost` goes on
without the answer. Verbs are counted one by one, because a slow store changes the order of writes
that have nothing to do with each other. What a program begins has fixed ids, so one that plays the
same story again begins nothing twice.

Handlers note in the diary what they do: it is the outside log, in which the store has no part.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.app import App
from holdfast.context import Context
from holdfast.declaring.flows import Flow
from holdfast.declaring.nodes import any_of, ended, failed
from holdfast.errors import Refused, StoreUnavailable
from holdfast.job.ids import JobId
from holdfast.job.retry import Retry
from holdfast.job.state import LIVE
from holdfast.limits.model import Budget, Concurrency, Rate
from holdfast.store.contract.store import Store
from tests.support.diary import Diary
from tests.support.flaky import FlakyStore, Line

DIARY = "DIARY"
BEGUN = "begun"
LONGEST = 30.0
SEEN = "seen"  # how often a diary notes a write, with its verb
READS = frozenset(
    {
        *("get", "live", "inputs", "load", "recall", "find", "of", "page", "count", "errands"),
        *("poll", "waiting", "paused", "alarms", "held_up", "opens_in", "fleet", "counts", "times"),
        *("tallies", "totals", "lapsed_leases", "overdue_attempts", "past_deadline", "due"),
        *("next_deadline_in", "own_cursors", "cursors", "read", "outcomes", "life", "ahead"),
        *("nodes", "graph", "children", "buckets", "holders", "waiters", "before", "kept", "waits"),
        *("history", "unfinished", "failed_plans", "series", "traffic", "overlooked", "check"),
    }
)
"""Verbs that write nothing. A new verb counts as a write until it is listed here."""
BY_THE_CLOCK = frozenset(
    {"heartbeat", "lead", "stop_leading", "fold", "roll_up", "correct", "sweep", "prune"}
    | {"prune_measures", "prune_ledger", "trim", "recount", "promote_due", "wake"}
)
"""Writes that come when the clock says so: a story would have other writes each time."""


class Seam(Line):
    """Counts writes; at the `nth` one of a verb the program dies, or its answer is lost."""

    def __init__(self, verb: str, nth: int, side: str, diary: Diary) -> None:
        super().__init__()
        self._verb, self._nth, self._side, self._diary = verb, nth, side, diary
        self._count, self._one_at_once = 0, threading.Lock()

    async def carry(self, verb: str, call: Callable[[], Any]) -> Any:
        if verb in READS or verb in BY_THE_CLOCK:
            return await call()
        with self._one_at_once:  # the heartbeat has a thread of its own
            self._count += verb == self._verb
            chosen = verb == self._verb and self._count == self._nth
        self._diary.note(SEEN, text=verb)
        if not chosen:
            return await call()
        if self._side == "before":
            os._exit(9)
        await call()
        if self._side == "after":
            os._exit(9)
        raise StoreUnavailable("the answer is lost")


class DyingApp(App):
    """An app whose store is reached over the seam."""

    line = Line()

    def _new_store(self) -> Store:
        return FlakyStore(super()._new_store(), self.line)


app = DyingApp()
single = app.limit("single", Concurrency(1))
rate = app.limit("rate", Rate(1_000, per=60))
purse = app.limit("purse", Budget(100_000))
SOON = Retry.constant(max_attempts=1_000, base=0, jitter=0)


def diary() -> Diary:
    return Diary(Path(os.environ[DIARY]))


@asynccontextmanager
async def noted(ctx: Context, text: str) -> AsyncIterator[None]:
    facts = {"job": ctx.job.id, "fence": ctx.fence, "attempt": ctx.attempt, "text": text}
    diary().note("started", **facts)
    await asyncio.sleep(0)
    try:
        yield
    finally:
        diary().note("returned", **facts)


async def step(ctx: Context, name: str, value: Any, *, lazy: bool = False) -> Any:
    """A step whose calls and acknowledged records are in the diary."""
    facts = {"job": ctx.job.id, "fence": ctx.fence, "text": name}

    def function() -> Any:
        diary().note("called", **facts)
        return value

    found = await (ctx.step.using(lazy=True) if lazy else ctx.step)(name, function)
    if not lazy:
        diary().note("recorded", **facts)
    return found


def id_of(number: int) -> JobId:
    """Ends as the ids of jobs that pass limits do, since some do."""
    return JobId(f"019a0000-0000-7000-8000-{number:09x}000")


# Retries ----------------------------------------------------------------------------------------


@app.task(retry=SOON, max_crashes=1_000)
async def stumble(ctx: Context, value: int) -> int:
    """Fails at its first attempt, if that is not lost."""
    async with noted(ctx, "stumble"):
        if ctx.attempt == 1:
            raise ConnectionError("the first attempt fails")
        return value


@app.task(retry=Retry.never(), max_crashes=1_000)
async def fail(ctx: Context) -> None:
    async with noted(ctx, "fail"):
        raise ValueError("as it always does")


@app.task(retry=SOON, max_crashes=1_000)
async def enqueue_more(ctx: Context, count: int) -> list[str]:
    """Enqueues jobs, each once however often it is tried."""
    async with noted(ctx, "enqueue_more"):
        more = [await stumble.using(id=id_of(100 + n)).enqueue(n) for n in range(count)]
        return [job.id for job in more]


# Steps ------------------------------------------------------------------------------------------


@app.task(retry=SOON, max_crashes=1_000)
async def pay(ctx: Context, value: int) -> int:
    """Steps of all kinds; frames are written within one, and the attempt fails between two."""

    async def charge() -> int:
        diary().note("called", job=ctx.job.id, fence=ctx.fence, text="charge")
        for n in range(3):
            await out.write(n)
        return value

    async with ctx.stream("receipt") as out:
        total: int = await ctx.step("charge", charge)
        diary().note("recorded", job=ctx.job.id, fence=ctx.fence, text="charge")
        total += await step(ctx, "lazy", 1, lazy=True)
        if ctx.attempt == 1:
            raise ConnectionError("the first attempt fails")
        total += await step(ctx, "ship", 10)
    return total


@app.task(retry=SOON, max_crashes=1_000)
async def ask(ctx: Context) -> int:
    """Waits for a signal, with a step before it and one behind it."""
    before: int = await step(ctx, "before", 1)
    told: int = await ctx.signal("go", int)
    diary().note("recorded", job=ctx.job.id, fence=ctx.fence, text="go")
    after: int = await step(ctx, "after", 100)
    return before + told + after


@app.task(retry=SOON, max_crashes=1_000)
async def tell(ctx: Context, job: str) -> str:
    """Sends that signal, with a key: once however often it is tried."""
    async with noted(ctx, "tell"):
        try:
            await app.client.signals.send(job, "go", 10, key="once")
        except Refused:  # it has ended, so it was told before
            return "again"
        return "told"


@app.task(retry=SOON, max_crashes=1_000)
async def call(ctx: Context) -> list[int]:
    return [await ctx.call(stumble, 7), *(await ctx.call_many(stumble, [(1,), (2,)]))]


# Limits -----------------------------------------------------------------------------------------


@app.task(limits=[single, rate, purse.by(cost=5)], retry=SOON, max_crashes=1_000)
async def spend(ctx: Context, value: int) -> int:
    """One at once; it spends, takes in mid-run, and fails at its first attempt."""
    async with noted(ctx, "spend"):
        await ctx.spent(purse, 2)
        await ctx.take(rate, 1)
        if ctx.attempt == 1:
            raise ConnectionError("the first attempt fails")
        return value


# Flows ------------------------------------------------------------------------------------------


@app.task(retry=SOON, max_crashes=1_000)
async def numbers(ctx: Context, count: int) -> list[int]:
    async with noted(ctx, "numbers"):
        return list(range(1, count + 1))


@app.task(retry=SOON, max_crashes=1_000)
async def add_up(ctx: Context, *parts: Any) -> int:
    async with noted(ctx, "add_up"):
        return sum(sum(part) if isinstance(part, list) else part for part in parts)


@app.task(retry=SOON, max_crashes=1_000)
async def grow(ctx: Context) -> int:
    """Adds two nodes to its flow, and lets the last one wait for them."""
    async with noted(ctx, "grow"):
        first = ctx.flow.add(stumble, 1_000).named("grown")
        ctx.flow.add(add_up, first.output, 1).named("grown-behind").before("last")
        await ctx.flow.extend()
        return 1


@app.flow_task(retry=SOON, max_crashes=1_000)
async def child(number: int) -> Flow:
    flow = app.flow("child")
    flow.add(add_up, flow.add(stumble, number).output, 1)
    return flow


# What each story begins -------------------------------------------------------------------------


async def begin_retries() -> None:
    await stumble.using(id=id_of(1)).enqueue(5)
    await fail.using(id=id_of(2)).enqueue()
    await enqueue_more.using(id=id_of(3)).enqueue(3)


async def begin_steps() -> None:
    await pay.using(id=id_of(1)).enqueue(10)
    await ask.using(id=id_of(2)).enqueue()
    await tell.using(id=id_of(3)).enqueue(id_of(2))
    await call.using(id=id_of(4)).enqueue()


async def begin_limits() -> None:
    for n in range(1, 5):
        await spend.using(id=id_of(n)).enqueue(n)


async def begin_flows() -> None:
    flow = app.flow("shapes")
    prices = flow.map(stumble, flow.add(numbers, 3).named("numbers").output).named("prices")
    total = flow.add(add_up, prices.outputs).named("total")
    bad = flow.add(fail).named("bad")
    handled = flow.add(numbers, 1).named("handled").after(failed(bad))
    tidied = flow.add(numbers, 1).named("tidied").after(ended(bad, total))
    raced = any_of(flow.add(stumble, 5), flow.add(fail), losers="cancel")
    race = flow.add(add_up, raced.output).named("race")
    grown = flow.add(grow).named("grow").after(total)
    inner = flow.add(child, 41).named("child")
    last = flow.add(add_up, total.output, race.output, inner.output).named("last")
    flow.returns(last.after(handled, tidied, grown))
    await flow.start(unique="shapes")


async def begin_whole() -> None:
    """A flow with retries, steps, a map and limits."""
    flow = app.flow("whole")
    spent = flow.map(spend, flow.add(numbers, 2).named("numbers").output).named("spent")
    paid = flow.add(pay, 10).named("paid").after(spent)
    handled = flow.add(stumble, 1).named("handled").after(failed(flow.add(fail).named("bad")))
    flow.add(add_up, spent.outputs, paid.output, handled.output).named("last")
    await flow.start(unique="whole")


STORIES: Mapping[str, Callable[[], Awaitable[None]]] = {
    "retries": begin_retries,
    "steps": begin_steps,
    "limits": begin_limits,
    "flows": begin_flows,
    "whole": begin_whole,
}


async def play(story: str, verb: str, nth: int, side: str) -> None:
    """`begun` in the diary: nobody has to begin the story again."""
    app.line = Seam(verb, nth, side, diary())
    async with app:
        if side != BEGUN:
            await again_if_lost(STORIES[story])
            diary().note(BEGUN)
        async with app.worker(queues={"default": 2}) as worker, asyncio.timeout(LONGEST):
            while await work_is_left():
                await worker.drain()
                await asyncio.sleep(0.01)


async def work_is_left() -> bool:
    """Jobs, or what nobody waits for: errands."""
    return bool(await app.client.count(states=LIVE) or await app.store.flows.errands(1))


async def again_if_lost(begin: Callable[[], Awaitable[None]]) -> None:
    try:
        await begin()
    except StoreUnavailable:
        await begin()


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
