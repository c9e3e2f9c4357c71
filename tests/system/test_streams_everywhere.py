"""Streams on every store: in coroutines, threads and child processes, and where something dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client.client import Client
from holdfast.context import AttemptLost, Context
from holdfast.job.ends import Reclaimed
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.job.stream import FollowFrom, Frame, KeptFrames
from holdfast.store.contract.store import Store
from tests.support import process_handlers as handlers
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import wait_until
from tests.support.working import Shop


async def on_the_loop(ctx: Context) -> str:
    """As `streams_tokens`, with a coroutine."""
    async with ctx.stream("tokens") as out:
        for token in "abc":
            await out.write(token)
        if ctx.attempt == 1:
            raise ValueError("again")
        await out.write({"n": 4})
    return out.text


FUNCTIONS: dict[str, tuple[tuple[Callable[..., Any], ...], dict[str, Any]]] = {
    "loop": ((on_the_loop,), {}),
    "thread": ((handlers.streams_tokens,), {}),
    "process": ((), {"streams_tokens": handlers.streams_tokens}),
}


async def followed(store: Store, job: JobId, name: str = "tokens", **how: Any) -> list[Frame]:
    client = Client(store)
    try:
        return [frame async for frame in client.streams.follow(job, name, **how)]
    finally:
        await client.aclose()


def told(frames: list[Frame]) -> list[tuple[Any, bool]]:
    return [(frame.data, frame.restarted) for frame in frames]


async def rows_of(store: Store, job: JobId, name: str = "tokens") -> list[KeptFrames]:
    [found] = await store.streams.read([FollowFrom(job, name)], 1_000)
    return found.frames


@pytest.mark.parametrize("mode", FUNCTIONS)
async def test_a_follower_elsewhere_sees_both_tries_and_never_mixes_them(
    live_store: Store, mode: str
) -> None:
    plain, processes = FUNCTIONS[mode]
    shop = Shop(live_store, *plain, **processes)
    job_id = await shop.enqueue(next(iter(shop.registry)))
    elsewhere = live_store.sibling()
    await elsewhere.open()
    try:
        following = asyncio.create_task(followed(elsewhere, job_id))
        async with shop.worker(processes=1) as worker:
            await worker.drain()
            await live_store.jobs.promote_due(10)
            await worker.drain()
        frames = await following
    finally:
        await elsewhere.close()
    job = await shop.get(job_id)
    assert (job.state, job.result, job.attempts) == (JobState.SUCCEEDED, "abc", 2)
    second = [("a", True), ("b", False), ("c", False), ({"n": 4}, False)]
    seen = told(frames)
    assert seen[-4:] in (second, [("a", False), *second[1:]])
    first = [("a", False), ("b", False), ("c", False)]  # what was written before it was replaced
    assert seen[:-4] == first[: len(seen) - 4]
    assert bool(seen[:-4]) is frames[-4].restarted
    assert [one.data for one in await followed(live_store, job_id)] == ["a", "b", "c", {"n": 4}]


async def many(ctx: Context) -> None:
    async with ctx.stream("tokens") as out:
        for n in range(500):
            await out.write(n)


async def test_a_cursor_resumes_without_a_gap_and_without_repeats(live_store: Store) -> None:
    shop = Shop(live_store, many)
    job_id = await shop.enqueue(many)
    await shop.drain()
    frames = await followed(live_store, job_id)
    assert [one.data for one in frames] == list(range(500))
    for at in (0, 17, 250, 498, 499):
        rest = await followed(live_store, job_id, after=frames[at].cursor)
        assert [one.data for one in rest] == list(range(at + 1, 500))
        assert not any(one.restarted for one in rest)


async def test_frames_are_in_the_store_before_the_end_of_their_attempt(live_store: Store) -> None:
    async def leaves_it_open(ctx: Context) -> None:
        await ctx.stream("tokens").write("last words")

    async def fails(ctx: Context) -> None:
        await ctx.stream("tokens").write("last words")
        raise ValueError("no")

    shop = Shop(live_store, leaves_it_open, fails)
    for function in (leaves_it_open, fails):
        job_id = await shop.enqueue(function)
        async with shop.worker() as worker:
            await worker.drain()
        [kept] = await rows_of(live_store, job_id)
        assert (kept.data, kept.closes) == ('["last words"]', False)


@pytest.mark.parametrize("verb", ["append", "finish"])
async def test_a_lost_reply_doubles_no_frame(live_store: Store, verb: str) -> None:
    """The write came through, its answer did not: the same rows are sent again."""
    line = Line()
    shop = Shop(FlakyStore(live_store, line), many)
    job_id = await shop.enqueue(many)
    line.lose.add(verb)
    await shop.drain()
    assert not line.lose, "it was lost"
    assert [one.data for one in await followed(live_store, job_id)] == list(range(500))


@pytest.mark.parametrize("when", ["before", "after"])
async def test_frames_beside_a_reclaim_are_written_or_refused_whole(
    live_store: Store, when: str
) -> None:
    """Stream flush against reclaim, both orders: the attempt is taken away right before its frames
    are written, or right before its end is. The next attempt's frames stand alone."""
    line = Line()
    shop = Shop(FlakyStore(live_store, line), words)
    job_id = await shop.enqueue(words)

    async def die() -> None:
        [live] = await live_store.jobs.live([job_id])
        await live_store.jobs.finish([decide(live, Reclaimed("killed"))])

    line.first["append" if when == "before" else "finish"] = die
    await shop.drain()
    await shop.drain()
    job = await shop.get(job_id)
    assert job.state is JobState.SUCCEEDED
    rows = await rows_of(live_store, job_id)
    assert {row.fence for row in rows} == {job.fence}, "F11: of one fence"
    assert [one.data for one in await followed(live_store, job_id)] == ["a", "b"]


async def words(ctx: Context) -> None:
    async with ctx.stream("tokens") as out:
        await out.write("a")
        await out.write("b")


async def test_a_zombie_hears_that_its_frames_are_refused(live_store: Store) -> None:
    heard: list[BaseException] = []

    async def writes_on(ctx: Context) -> None:
        out = ctx.stream("tokens")
        await out.write("first")
        await out.close()
        if heard:
            return
        [live] = await live_store.jobs.live([ctx.job.id])
        await live_store.jobs.finish([decide(live, Reclaimed("killed"))])
        try:
            async with ctx.stream("late") as late:
                await late.write("late")
        except AttemptLost as error:
            heard.append(error)
            raise

    shop = Shop(live_store, writes_on)
    job_id = await shop.enqueue(writes_on)
    await shop.drain()
    await shop.drain()
    assert len(heard) == 1
    assert (await shop.get(job_id)).state is JobState.SUCCEEDED
    assert await rows_of(live_store, job_id, "late") == []


async def test_a_writer_that_outruns_the_store_waits_and_a_follower_that_sleeps_does_not_matter(
    live_store: Store,
) -> None:
    """Nobody reads, and the store answers nothing for a while: the handler is held at its bound."""
    line = Line()
    written = 0

    async def floods(ctx: Context) -> None:
        nonlocal written
        out = ctx.stream("tokens")
        for _ in range(60):
            await out.write("x" * 10_000)
            written += 1

    shop = Shop(FlakyStore(live_store, line), floods)
    job_id = await shop.enqueue(floods)
    line.hold.add("append")
    async with shop.worker() as worker:
        await wait_until(lambda: bool(line.held), 10, "a flush is under way")
        settled = -1
        while settled != written:
            settled = written
            for _ in range(20):
                await asyncio.sleep(0)
        assert written < 60, "the handler waits"
        line.release()
        await worker.drain()
    assert written == 60
    assert len(await followed(live_store, job_id)) == 60


async def test_a_job_without_streams_sends_nothing_about_them(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> Any:
        raise AssertionError("the store was asked for streams")

    monkeypatch.setattr(live_store.streams, "of", never)
    monkeypatch.setattr(live_store.streams, "append", never)

    async def steps(ctx: Context) -> int:
        await ctx.step("one", int, 1)
        if ctx.attempt == 1:
            raise ValueError("again")
        return await ctx.step("two", int, 2)

    shop = Shop(live_store, steps)
    job_id = await shop.enqueue(steps)
    async with shop.worker() as worker:
        await worker.drain()
        await live_store.jobs.promote_due(10)
        await worker.drain()
    assert (await shop.get(job_id)).result == 2


async def test_a_worker_that_leaves_does_not_wait_for_frames_that_cannot_be_written(
    live_store: Store,
) -> None:
    """The handler has returned, and the store takes no frames: the job goes back unspent, because
    its end may not be there without them."""
    line = Line()
    shop = Shop(FlakyStore(live_store, line), words)
    job_id = await shop.enqueue(words)
    line.refuse = {"append"}
    async with shop.worker(grace=0.1, patience=0.2):
        await wait_until(lambda: "append" in line.calls, 10, "the handler has written")
    job = await shop.get(job_id)
    assert (job.state, job.attempts) == (JobState.READY, 0)
    line.refuse = set()
    await shop.drain()
    assert [one.data for one in await followed(live_store, job_id)] == ["a", "b"]


async def test_a_stop_that_comes_while_frames_are_written_changes_nothing(
    live_store: Store,
) -> None:
    line = Line()

    async def quick(ctx: Context) -> str:
        await ctx.stream("tokens").write("a")
        return "done"

    shop = Shop(FlakyStore(live_store, line), quick)
    job_id = await shop.enqueue(quick)
    line.hold.add("append")
    async with shop.worker() as worker:
        await wait_until(lambda: bool(line.held), 10, "a flush is under way")
        await Client(live_store).cancel(job_id)
        line.release()
        await worker.drain()
    job = await shop.get(job_id)
    assert (job.state, job.result) == (JobState.SUCCEEDED, "done")
