"""Calls from a handler: a child job beside its caller, whose slot is free meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from holdfast import App, CallFailed, Context, Flow, Retry
from holdfast.background.options import ReconcileOptions
from holdfast.errors import BadFlow, BadOption
from holdfast.events import Event, Events
from holdfast.flow.errands import do_errand
from holdfast.flow.model import Errand, FlowInfo
from holdfast.handle import JobHandle
from holdfast.insights.reasons import Who
from holdfast.job.record import Job
from holdfast.reconcile.signal_drift import SignalDriftReconciler
from holdfast.testing import Harness, killed_after_every_commit
from tests.support.waiting import wait_until

AGAIN = Retry(max_attempts=3, base=1, jitter=0)


class Bench:
    """An app with one caller, whose handler each test writes, and tasks to call."""

    def __init__(self) -> None:
        self.app = App("sqlite://")
        self.harness = Harness(self.app)
        self.ran: list[int] = []
        self.handle: JobHandle[Any]

        @self.app.task(name="double", retry=Retry.never())
        async def double(number: int) -> int:
            self.ran.append(number)
            if number < 0:
                raise ValueError(f"{number} is too little")
            return 2 * number

        @self.app.task(name="wait")
        async def wait(ctx: Context, number: int) -> int:
            return await ctx.signal(f"go {number}", int)

        @self.app.task(name="fails_or_waits", retry=Retry.never())
        async def fails_or_waits(ctx: Context, number: int) -> int:
            if number < 0:
                raise ValueError(f"{number} is too little")
            return await ctx.signal("go", int)

        self.double = double
        self.wait = wait
        self.fails_or_waits = fails_or_waits

    async def begin(self, handler: Callable[..., Any], **options: Any) -> JobHandle[Any]:
        self.handle = await self.app.task(retry=AGAIN, **options)(handler).enqueue()
        await self.drain()
        return self.handle

    async def drain(self) -> None:
        await self.harness.drain(raises=False)

    async def job(self) -> Job:
        return await self.handle.get()

    async def flows(self) -> list[FlowInfo]:
        return await self.app.client.flows.called_by(self.handle.id)

    async def release(self, number: int, value: int) -> None:
        """Let the waiting child with this number return the value."""
        for job in (await self.app.client.page(task="wait", state="suspended")).jobs:
            if job.args == {"number": number}:
                await self.app.client.signals.send(job.id, f"go {number}", value)
        await self.drain()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    async with bench.harness:
        yield bench


async def test_a_call_gives_the_result_of_a_child_job(bench: Bench) -> None:
    async def caller(ctx: Context) -> int:
        return await ctx.call(bench.double, 21)

    handle = await bench.begin(caller)
    assert await handle.result(5) == 42
    job = await bench.job()
    assert (job.attempts, bench.ran) == (1, [21])


async def test_a_caller_gives_its_slot_back_and_the_same_attempt_goes_on(bench: Bench) -> None:
    async def caller(ctx: Context) -> int:
        return await ctx.call(bench.wait, 1)

    handle = await bench.begin(caller, timeout=5)
    job = await bench.job()
    assert (job.state, job.reason, job.attempts) == ("suspended", "waits for 'call wait'", 0)
    await bench.harness.advance(hours=1)
    assert (await bench.job()).state == "suspended", "its timeout does not count meanwhile"
    await bench.release(1, 7)
    assert await handle.result(5) == 7
    assert (await bench.job()).attempts == 1


async def test_a_deadline_counts_while_a_caller_waits(bench: Bench) -> None:
    async def caller(ctx: Context) -> int:
        return await ctx.call(bench.wait, 1)

    await bench.begin(caller, deadline=60)
    await bench.harness.advance(minutes=2)
    await bench.drain()
    assert (await bench.job()).state == "expired"
    assert [flow.state for flow in await bench.flows()] == ["cancelled"]


async def test_calls_of_one_task_are_told_apart_by_their_order(bench: Bench) -> None:
    async def caller(ctx: Context) -> list[int]:
        pairs = await asyncio.gather(*(ctx.call(bench.double, n) for n in range(3)))
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return [*pairs, await ctx.call(bench.double, 9)]

    handle = await bench.begin(caller)
    await bench.harness.advance(minutes=1)
    await bench.drain()
    assert await handle.result(5) == [0, 2, 4, 18]
    assert sorted(bench.ran) == [0, 1, 2, 9], "each was called once"
    names = [step.name for step in await bench.app.client.steps(handle.id)]
    assert names == ["call double", "call double#2", "call double#3", "call double#4"]


async def test_the_bad_end_of_a_child_is_an_exception_that_names_it(bench: Bench) -> None:
    async def caller(ctx: Context) -> list[str | None]:
        try:
            await ctx.call(bench.double, -1)
        except CallFailed as error:
            child = await bench.app.client.get(error.job_id or "")
            return [child.state, error.task, error.kind, error.message, str(error)]
        return []

    handle = await bench.begin(caller)
    *facts, text = await handle.result(5)
    assert facts == ["failed", "double", "ValueError", "-1 is too little"]
    assert text.startswith("call double failed: job 0")
    assert text.endswith("of task 'double' is failed (ValueError)")


async def test_a_caller_that_does_not_catch_it_fails_for_good(bench: Bench) -> None:
    """The child had all its attempts; another attempt of the caller would hear the same."""

    async def caller(ctx: Context) -> int:
        return await ctx.call(bench.double, -1)

    await bench.begin(caller)
    job = await bench.job()
    assert (job.state, job.attempts, job.errors[0].kind) == ("failed", 1, "CallFailed")
    assert "too little" not in job.errors[0].message, "what the child said is told by the child"


async def test_a_recorded_failure_is_given_to_later_attempts(bench: Bench) -> None:
    async def caller(ctx: Context) -> str:
        try:
            await ctx.call(bench.double, -1)
        except CallFailed as error:
            if ctx.attempt == 1:
                raise RuntimeError("again") from error
            return error.message or ""
        return "no"

    handle = await bench.begin(caller)
    await bench.harness.advance(minutes=1)
    await bench.drain()
    assert await handle.result(5) == "-1 is too little"
    assert bench.ran == [-1]


async def test_a_child_that_is_cancelled_is_a_bad_end(bench: Bench) -> None:
    async def caller(ctx: Context) -> str:
        try:
            return str(await ctx.call(bench.wait, 1))
        except CallFailed as error:
            return error.state

    handle = await bench.begin(caller)
    [flow] = await bench.flows()
    await bench.app.client.flows.cancel(flow.id)
    await bench.drain()
    assert await handle.result(5) == "cancelled"


async def test_many_calls_go_on_when_enough_have_succeeded(bench: Bench) -> None:
    async def caller(ctx: Context) -> list[int | None]:
        return await ctx.call_many(bench.wait, [(n,) for n in range(4)], need=2)

    handle = await bench.begin(caller)
    await bench.release(3, 30)
    assert (await bench.job()).state == "suspended"
    await bench.release(1, 10)
    assert await handle.result(5) == [None, 10, None, 30]
    [flow] = await bench.flows()
    assert flow.state == "running", "the others are let run, also when their caller is done"
    await bench.release(0, 0)
    await bench.release(2, 20)
    [flow] = await bench.flows()
    assert flow.state == "succeeded"


async def test_losers_are_cancelled_where_that_is_asked_for(bench: Bench) -> None:
    async def caller(ctx: Context) -> list[int | None]:
        calls = [{"number": n} for n in range(4)]
        return await ctx.call_many(bench.wait, calls, need=1, losers="cancel")

    handle = await bench.begin(caller)
    await bench.release(2, 20)
    assert await handle.result(5) == [None, None, 20, None]
    await bench.drain()
    [flow] = await bench.flows()
    nodes = await bench.app.client.flows.nodes(flow.id)
    states = [node.state for node in nodes if node.task == "wait"]
    assert sorted(states) == ["cancelled"] * 3 + ["succeeded"]
    assert flow.state == "succeeded"


@pytest.mark.parametrize("losers", ["let_run", "cancel"])
async def test_many_calls_fail_as_soon_as_too_few_can_succeed(bench: Bench, losers: Any) -> None:
    async def caller(ctx: Context) -> str:
        try:
            await ctx.call_many(bench.fails_or_waits, [(-1,), (-2,), (3,)], need=2, losers=losers)
        except CallFailed as error:
            return str(error)
        return "no"

    handle = await bench.begin(caller)
    text = await handle.result(5)
    assert re.search(r"failed: [23] of 3 jobs ended badly, and 2 had to succeed: job 0", text)
    assert text.endswith("is failed (ValueError)")
    await bench.drain()
    [flow] = await bench.flows()
    assert flow.ended is (losers == "cancel")


async def test_what_comes_after_the_decision_does_not_count(bench: Bench) -> None:
    """A later attempt gets what the first one got."""

    async def caller(ctx: Context) -> list[int | None]:
        found = await ctx.call_many(bench.wait, [(n,) for n in range(3)], need=1)
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return found

    handle = await bench.begin(caller)
    await bench.release(1, 10)
    await bench.release(0, 0)
    await bench.harness.advance(minutes=1)
    await bench.drain()
    assert await handle.result(5) == [None, 10, None]


async def test_no_calls_at_all_give_an_empty_list(bench: Bench) -> None:
    async def caller(ctx: Context) -> list[int]:
        return await ctx.call_many(bench.double, [])

    assert await (await bench.begin(caller)).result(5) == []


async def test_a_flow_is_run_as_a_child(bench: Bench) -> None:
    async def caller(ctx: Context) -> int:
        flow = bench.app.flow("twice")
        flow.add(bench.double, flow.add(bench.double, 3).output)
        found: int = await ctx.run_flow(flow)
        return found

    handle = await bench.begin(caller)
    assert await handle.result(5) == 12
    [flow] = await bench.flows()
    assert (flow.name, flow.parent, flow.expires_at) == ("twice", handle.id, None)


async def test_a_flow_that_fails_names_its_node(bench: Bench) -> None:
    async def caller(ctx: Context) -> int:
        flow = bench.app.flow("twice")
        flow.add(bench.double, flow.add(bench.double, -3).output)
        found: int = await ctx.run_flow(flow)
        return found

    await bench.begin(caller)
    message = (await bench.job()).errors[0].message
    assert "flow twice failed: flow 'twice' is failed: job 0" in message


async def test_a_node_of_a_flow_may_call_and_a_child_may_call(bench: Bench) -> None:
    @bench.app.task(name="quadruple")
    async def quadruple(ctx: Context, number: int) -> int:
        return await ctx.call(bench.double, await ctx.call(bench.double, number))

    async def caller(ctx: Context) -> int:
        flow = bench.app.flow("outer")
        flow.add(bench.double, flow.add(quadruple, 1).output)
        found: int = await ctx.run_flow(flow)
        return found

    assert await (await bench.begin(caller)).result(5) == 8


async def test_a_recursion_without_an_end_is_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.flow.depth.MOST_DEPTH", 3)

    @bench.app.task(name="down", retry=Retry.never())
    async def down(ctx: Context, number: int) -> int:
        bench.ran.append(number)
        return await ctx.call(down, number + 1)

    handle = await down.enqueue(0)
    await bench.drain()
    assert (await handle.get()).state == "failed"
    assert set(bench.ran) == {0, 1, 2, 3}
    jobs = [job for job in (await bench.app.client.page(task="down")).jobs if job.id != handle.id]
    [deepest] = [job.errors[0] for job in jobs if job.errors[0].kind == "BadFlow"]
    assert "was called by 3 jobs one from another, and may not call any further" in deepest.message


@pytest.mark.parametrize("way", ["map", "flow task", "growth"])
async def test_a_recursion_on_any_way_is_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr("holdfast.flow.depth.MOST_DEPTH", 3)
    refused: list[str] = []

    async def one_deeper(ctx: Context, number: int) -> None:
        bench.ran.append(number)
        flow = bench.app.flow("deeper")
        match way:
            case "map":
                flow.map(down, [number + 1])
            case "flow task":
                flow.add(whole, number + 1)
            case _:
                flow.add(grow, number + 1)
        try:
            await ctx.run_flow(flow)
        except (BadFlow, CallFailed) as error:
            refused.append(str(error))

    @bench.app.task(name="down", retry=Retry.never())
    async def down(ctx: Context, number: int) -> None:
        await one_deeper(ctx, number)

    @bench.app.flow_task(name="whole", retry=Retry.never())
    async def whole(ctx: Context, number: int) -> Flow:
        flow = bench.app.flow("whole")
        flow.add(down, number)
        return flow

    @bench.app.task(name="grow", retry=Retry.never())
    async def grow(ctx: Context, number: int) -> None:
        ctx.flow.add(down, number)
        await ctx.flow.extend()

    await down.enqueue(0)
    await bench.drain()
    said = "(BadFlow)" if way == "flow task" else "was called by 3 jobs one from another"
    assert said in refused[0]
    assert max(bench.ran) == {"map": 3, "flow task": 1, "growth": 3}[way]


async def test_the_elements_of_a_map_have_the_headers_of_their_task(bench: Bench) -> None:
    seen: list[str] = []

    @bench.app.task(name="marked", headers={"tenant": "acme"})
    async def marked(ctx: Context, number: int) -> None:
        seen.append(ctx.job.headers["tenant"])

    flow = bench.app.flow("maps")
    flow.map(marked, [1, 2])
    await flow.start()
    await bench.drain()
    assert seen == ["acme", "acme"]


async def test_a_call_inside_a_step_is_refused(bench: Bench) -> None:
    async def caller(ctx: Context) -> int:
        async def step() -> int:
            return await ctx.call(bench.double, 1)

        return await ctx.step("a", step)

    await bench.begin(caller)
    assert "step 'a' waits for 'call double'" in (await bench.job()).errors[0].message
    assert bench.ran == []


BAD: dict[str, tuple[Callable[[Bench, Context], Any], str]] = {
    "no task": (lambda bench, ctx: ctx.call(len, 1), "what ctx.call calls must be a task"),  # type: ignore[arg-type]
    "bad arguments": (lambda bench, ctx: ctx.call(bench.double, "x"), "number"),  # type: ignore[arg-type]
    "bad call": (lambda bench, ctx: ctx.call_many(bench.double, [1]), "a tuple or a mapping"),
    "need": (
        lambda bench, ctx: ctx.call_many(bench.double, [(1,)], need=2),
        "need must be at most 1, the number of calls, got 2",
    ),
    "no calls": (
        lambda bench, ctx: ctx.call_many(bench.double, None),  # type: ignore[call-overload]
        "calls must be a tuple or a mapping of arguments for each call, got None",
    ),
    "names": (lambda bench, ctx: ctx.call_many(bench.double, [{1: 1}]), "a tuple or a mapping"),
    "losers": (
        lambda bench, ctx: ctx.call_many(bench.double, [(1,)], losers="kill"),  # type: ignore[call-overload]
        "losers must be 'let_run' or 'cancel'",
    ),
    "no flow": (lambda bench, ctx: ctx.run_flow(3), "needs a flow that app.flow(…) has built"),
    "unique": (
        lambda bench, ctx: ctx.call(bench.double.using(unique="k"), 1),
        "left out for a node of a flow",
    ),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_bad_call_says_what_is_wrong_and_calls_nothing(bench: Bench, what: str) -> None:
    call, said = BAD[what]

    async def caller(ctx: Context) -> None:
        await call(bench, ctx)

    await bench.begin(caller)
    await bench.harness.advance(minutes=5)
    await bench.drain()
    assert said in (await bench.job()).errors[0].message
    assert await bench.flows() == []


async def test_a_requeued_caller_calls_anew(bench: Bench) -> None:
    async def caller(ctx: Context) -> int:
        return await ctx.call(bench.double, -1)

    handle = await bench.begin(caller)
    [before] = await bench.flows()
    await bench.app.client.requeue(handle.id)
    await bench.drain()
    assert bench.ran == [-1, -1]
    assert before.id != (await bench.flows())[-1].id


async def test_a_child_that_an_operator_runs_again_is_waited_for_again(bench: Bench) -> None:
    """The caller was told of an end, and there is none when it looks."""

    async def caller(ctx: Context) -> int:
        return await ctx.call(bench.wait, 1)

    handle = await bench.begin(caller)
    [flow] = await bench.flows()
    await bench.app.client.flows.cancel(flow.id)
    for _ in range(3):
        for errand in await bench.app.store.flows.errands(10):
            await do_errand(bench.app.store, errand)
    assert (await bench.job()).state == "ready", "it was told"
    await bench.app.client.flows.retry(flow.id, "wait")
    await bench.drain()
    assert (await bench.job()).state == "suspended"
    await bench.release(1, 7)
    assert await handle.result(5) == 7


async def test_a_caller_that_nobody_told_is_told_by_the_net(bench: Bench) -> None:
    async def caller(ctx: Context) -> int:
        return await ctx.call(bench.wait, 1)

    handle = await bench.begin(caller)
    flows = bench.app.store.flows
    errands = flows.errands
    flows.errands = _none  # type: ignore[method-assign]
    await bench.release(1, 7)
    [errand] = await errands(10)
    await flows.done([errand.id])
    flows.errands = errands  # type: ignore[method-assign]
    seen: list[Event] = []
    net = SignalDriftReconciler(bench.app.store, Events(seen.append), ReconcileOptions())
    assert (await net.run_once()).found == 0, "an errand may still be on its way"
    bench.harness.clock.advance(10)
    assert (await net.run_once()).mended == 1
    assert "job.caller_untold" in [event.name for event in seen]
    assert (await net.run_once()).found == 0
    await bench.drain()
    assert await handle.result(5) == 7


async def _none(limit: int, after: str | None = None) -> list[Errand]:
    return []


async def test_a_caller_may_be_killed_after_every_commit() -> None:
    bench = Bench()

    @bench.app.task(retry=AGAIN)
    async def caller(ctx: Context) -> list[object]:
        first = await ctx.call(bench.double, 1)
        some = await ctx.call_many(bench.double, [(2,), (3,)])
        return [first, some, await ctx.step("add", lambda: first + sum(some))]

    kills = await killed_after_every_commit(caller)
    assert kills.result == [2, [4, 6], 12]
    assert kills.kills == 5, "two starts, two ends, one step"


async def test_explain_says_how_what_was_called_stands(bench: Bench) -> None:
    async def caller(ctx: Context) -> None:
        flow = bench.app.flow("outer")
        flow.add(bench.wait, 9)
        calls = ctx.call_many(bench.fails_or_waits, [(-1,), (5,), (6,)], need=1)
        await asyncio.gather(ctx.call(bench.wait, 1), calls, ctx.run_flow(flow))

    handle = await bench.begin(caller)
    facts = [one.fact for one in (await bench.app.client.explain(handle.id)).reasons]
    [one, many, whole] = sorted(facts)
    assert one.startswith(
        "it waits for 'call fails_or_waits': 0 of 3 jobs done, 1 failed, 2 may fail"
    )
    assert many.startswith("it waits for 'call wait': job 0")
    assert "is suspended: " in many
    assert whole.startswith("it waits for 'flow outer': flow 0")
    assert whole.endswith(" is running, 0 of 1 nodes are done")


@pytest.mark.parametrize("how", ["call", "call_many", "run_flow"])
async def test_explain_says_that_nobody_serves_what_was_called(how: str) -> None:
    """A task of another program, which is not there."""
    app, other = App("sqlite://"), App("sqlite://")

    @other.task(name="far", queue="elsewhere")
    async def far(number: int) -> int:
        return number

    @app.task(name="caller")
    async def caller(ctx: Context) -> None:
        if how == "call":
            await ctx.call(far, 1)
        elif how == "call_many":
            await ctx.call_many(far, [(1,), (2,)])
        else:
            flow = app.flow("outer")
            flow.add(far, 1)
            await ctx.run_flow(flow)

    async with app.worker():
        handle = await caller.enqueue()
        await wait_until(lambda: is_suspended(handle), 5, "the caller waits")
        [reason] = (await app.client.explain(handle.id)).reasons
    assert "no live worker serves queue 'elsewhere'" in reason.fact
    assert (reason.code, reason.who) == ("awaits-call", Who.OPERATOR)
    assert reason.advice == "start a worker that serves it, or cancel the job"


async def is_suspended(handle: JobHandle[Any]) -> bool:
    return (await handle.get()).state == "suspended"


async def test_users_cannot_send_the_signals_of_calls(bench: Bench) -> None:
    async def caller(ctx: Context) -> int:
        return await ctx.call(bench.wait, 1)

    handle = await bench.begin(caller)
    with pytest.raises(BadOption, match="those are sent by Holdfast"):
        await handle.signal("holdfast.call x")
    waits, _ = await bench.app.client.signals.waits()
    assert [wait.signal for wait in waits] == ["go 1"], "the caller waits for no signal of users"
