"""Frames before records: a step that is recorded is not called again, so its frames are there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from holdfast import App
from holdfast.client.client import Client
from holdfast.context import Context
from holdfast.declaring.flow_tasks import running_flow
from holdfast.errors import RowRefused, StreamRefused
from holdfast.flow.ids import child_flow_id
from holdfast.job.ends import Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.steps.streams import Stream
from holdfast.store.contract.store import Store
from tests.support import process_handlers as handlers
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import wait_until
from tests.support.working import Shop

TOKENS = ["a", "b", "c"]


async def draft(out: Stream) -> str:
    for token in TOKENS:
        await out.write(token)
    return out.text


async def on_the_loop(ctx: Context) -> str:
    return await ctx.step("draft", draft, ctx.stream("tokens"))


FUNCTIONS: dict[str, tuple[tuple[Callable[..., Any], ...], dict[str, Any]]] = {
    "loop": ((on_the_loop,), {}),
    "thread": ((handlers.drafts,), {}),
    "process": ((), {"drafts": handlers.drafts}),
}


async def in_a_call(ctx: Context) -> str:
    text = await ctx.step.using(lazy=True)("draft", draft, ctx.stream("tokens"))
    return text + str(await ctx.call(noted.using(queue="elsewhere")))


async def in_another_step(ctx: Context) -> str:
    text = await ctx.step.using(lazy=True)("draft", draft, ctx.stream("tokens"))
    return text + await ctx.step("then", str)


async def in_a_failed_step(ctx: Context) -> str:
    """The failure is recorded with what the handler does next."""
    out = ctx.stream("tokens")

    async def fail() -> None:
        await draft(out)
        raise ValueError("no")

    with suppress(Exception):
        await ctx.step("draft", fail)
    return out.text + await ctx.step("then", str)


async def around_a_step(ctx: Context) -> str:
    """The step inside was left before it could be recorded."""
    out, written = ctx.stream("tokens"), asyncio.Event()

    async def hangs() -> None:
        await draft(out)
        written.set()
        await asyncio.Event().wait()

    async def outer() -> str:
        inner = asyncio.ensure_future(ctx.step("draft", hangs))
        await written.wait()
        inner.cancel()
        with suppress(asyncio.CancelledError):
            await inner
        return out.text

    return await ctx.step("outer", outer)


async def at_the_end(ctx: Context) -> str:
    return await ctx.step.using(lazy=True)("draft", draft, ctx.stream("tokens"))


async def with_a_sleep(ctx: Context) -> str:
    text = await ctx.step.using(lazy=True)("draft", draft, ctx.stream("tokens"))
    if ctx.fence < 3:
        await ctx.sleep("nap", hours=1)
    return text


app = App("sqlite://")


@app.task
async def noted() -> str:
    return ""


WAYS = [in_a_call, in_another_step, in_a_failed_step, around_a_step, at_the_end, with_a_sleep]


async def take_away(store: Store, job_id: JobId) -> None:
    """The worker of this job is dead: the job is ready for another, under a newer fence."""
    [live] = await store.jobs.live([job_id])
    [verdict] = await store.jobs.finish([decide(live, Reclaimed("its worker died"))])
    assert verdict.accepted


async def names_of(store: Store, job_id: JobId) -> list[str]:
    return [step.name for step in (await store.steps.load([job_id])).get(job_id, [])]


async def told(store: Store, job_id: JobId) -> list[Any]:
    """What a follower sees, from the first frame to the last."""
    client = Client(store)
    try:
        following = client.streams.follow(job_id, "tokens", follow=False)
        return [frame.data async for frame in following]
    finally:
        await client.aclose()


async def dies_between(store: Store, shop: Shop, line: Line, job_id: JobId, **how: Any) -> None:
    """The worker takes the job, and dies while the store takes none of its frames. Nothing that it
    has sent by then may keep the next attempt from writing them."""
    line.refuse = {"append"}
    async with shop.worker({"default": 1}, **how) as dead:
        await wait_until(lambda: line.calls.count("append") > 2, 10, "frames are refused")
        assert await names_of(store, job_id) == [], "no record before its frames"
        await take_away(store, job_id)
        assert await names_of(store, job_id) == []
        line.refuse = set()
        await shop.until(job_id, lambda job: job.state in (JobState.SUCCEEDED, JobState.SUSPENDED))
        await dead.drain()


@pytest.mark.parametrize("mode", FUNCTIONS)
async def test_a_worker_that_dies_before_the_frames_of_a_step_has_not_recorded_it(
    live_store: Store, mode: str
) -> None:
    plain, processes = FUNCTIONS[mode]
    line = Line()
    shop = Shop(FlakyStore(live_store, line), *plain, **processes)
    job_id = await shop.enqueue(next(iter(shop.registry)))
    await dies_between(live_store, shop, line, job_id, processes=1)
    job = await shop.get(job_id)
    assert (job.state, job.result) == (JobState.SUCCEEDED, "abc")
    assert await told(live_store, job_id) == TOKENS
    assert await names_of(live_store, job_id) == ["draft"]


@pytest.mark.parametrize("handler", WAYS, ids=[one.__name__ for one in WAYS])
async def test_each_way_to_record_a_step_waits_for_its_frames(
    live_store: Store, handler: Callable[..., Any]
) -> None:
    line = Line()
    shop = Shop(FlakyStore(live_store, line), handler)
    job_id = await shop.enqueue(handler)
    await dies_between(live_store, shop, line, job_id)
    assert await told(live_store, job_id) == TOKENS


async def test_steps_side_by_side_wait_for_their_own_frames_only(live_store: Store) -> None:
    """One step writes without end until others are recorded: a step that has written frames, and
    one that has written none."""
    recorded = asyncio.Event()

    async def side_by_side(ctx: Context) -> None:
        out = ctx.stream("tokens")

        async def chatter() -> None:
            while not recorded.is_set():
                await out.write("chatter")
                await asyncio.sleep(0)

        async def others() -> None:
            await ctx.step("draft", draft, out)
            await ctx.step("quiet", str)
            recorded.set()

        await asyncio.gather(ctx.step("chatter", chatter), others())

    shop = Shop(live_store, side_by_side)
    job_id = await shop.enqueue(side_by_side)
    await asyncio.wait_for(shop.drain(), 20)
    assert (await shop.get(job_id)).state is JobState.SUCCEEDED
    assert {"draft", "quiet", "chatter"} == set(await names_of(live_store, job_id))
    seen = await told(live_store, job_id)
    assert [one for one in seen if one != "chatter"] == TOKENS


async def test_a_step_without_frames_waits_for_no_frames(live_store: Store) -> None:
    """Frames outside of steps are written again by the next attempt, so no record waits for
    them; nor for those of another step that is under way."""
    line = Line()
    recorded = asyncio.Event()

    async def speaks(ctx: Context) -> None:
        out = ctx.stream("tokens")

        async def under_way() -> None:
            await out.write("a")
            await recorded.wait()

        async def quiet() -> None:
            await ctx.step("quiet", str)
            recorded.set()

        await out.write("outside")
        await asyncio.gather(ctx.step("under way", under_way), quiet())

    shop = Shop(FlakyStore(live_store, line), speaks)
    job_id = await shop.enqueue(speaks)
    line.refuse = {"append"}
    async with shop.worker() as worker:
        await asyncio.wait_for(recorded.wait(), 10)
        assert await names_of(live_store, job_id) == ["quiet"]
        line.refuse = set()
        await worker.drain()
    assert await told(live_store, job_id) == ["outside", "a"]


async def test_a_step_whose_frame_the_store_refuses_is_not_recorded(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def append(*_: Any) -> Any:
        raise RowRefused("no room for that")

    monkeypatch.setattr(live_store.streams, "append", append)
    shop = Shop(live_store, on_the_loop, at_the_end)
    for function in (on_the_loop, at_the_end):
        job_id = await shop.enqueue(function)
        await shop.drain()
        job = await shop.get(job_id)
        assert (job.state, job.errors[0].kind) == (JobState.FAILED, StreamRefused.__name__)
        assert await names_of(live_store, job_id) == []


async def test_a_worker_that_leaves_records_no_step_whose_frames_it_could_not_write(
    live_store: Store,
) -> None:
    line = Line()
    shop = Shop(FlakyStore(live_store, line), at_the_end)
    job_id = await shop.enqueue(at_the_end)
    line.refuse = {"append"}
    async with shop.worker(grace=0.1, patience=0.2):
        await wait_until(lambda: "append" in line.calls, 10, "the handler has written")
    assert (await shop.get(job_id)).state is JobState.READY
    assert await names_of(live_store, job_id) == []
    line.refuse = set()
    await shop.drain()
    assert await told(live_store, job_id) == TOKENS
    assert await names_of(live_store, job_id) == ["draft"]


async def test_an_attempt_that_ends_without_its_handler_records_no_step_before_its_frames(
    live_store: Store,
) -> None:
    """A plain function goes on when its time is over: its attempt does not wait for frames."""
    line = Line()
    go_on = threading.Event()

    def holds_on(ctx: Context) -> str:
        text = ctx.step_sync.using(lazy=True)("draft", handlers.draft, ctx.stream_sync("tokens"))
        go_on.wait(20)
        return text

    retry = Retry(max_attempts=3, base=0, jitter=0)
    shop = Shop(FlakyStore(live_store, line), holds_on)
    job_id = await shop.enqueue(holds_on, policy=Policy(timeout=0.2, retry=retry))
    line.refuse = {"append"}
    async with shop.worker({"default": 1}) as worker:
        await shop.until(job_id, lambda job: job.attempts == 1 and job.claimed_at is None)
        assert await names_of(live_store, job_id) == []
        line.refuse = set()
        go_on.set()
        await live_store.jobs.promote_due(10)
        await worker.drain()
    assert (await shop.get(job_id)).state is JobState.SUCCEEDED
    assert await told(live_store, job_id) == TOKENS


async def test_a_flow_is_started_after_the_frames_of_the_function_that_built_it(
    live_store: Store,
) -> None:
    """The function is not called again once its flow is there."""
    line = Line()

    @running_flow
    async def builds(ctx: Context) -> Any:
        await draft(ctx.stream("tokens"))
        flow = app.flow("noting")
        flow.add(noted)
        return flow

    shop = Shop(FlakyStore(live_store, line), builds)
    job_id = await shop.enqueue(builds)
    line.refuse = {"append"}
    async with shop.worker({"default": 1}) as dead:
        await wait_until(lambda: line.calls.count("append") > 2, 10, "frames are refused")
        assert not await live_store.flows.get([child_flow_id(job_id)])
        await take_away(live_store, job_id)
        line.refuse = set()
        await shop.until(job_id, lambda job: job.state is JobState.SUSPENDED)
        await dead.drain()
    assert await told(live_store, job_id) == TOKENS
