"""Streams as a handler writes them and as a follower sees them, on a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Self

import pytest

from holdfast import App, Context, Frame, Retry
from holdfast.client import following
from holdfast.errors import BadOption, NotOpen, StepFailed, StoreUnavailable, UnknownJob
from holdfast.handle import JobHandle
from holdfast.job.ids import new_job_id
from holdfast.job.state import JobState
from holdfast.job.stream import LIVE_FRAMES, FollowFrom, KeptFrames
from holdfast.testing import Harness
from holdfast.worker import frame_writer
from tests.support.waiting import wait_until

AGAIN = Retry(max_attempts=5, base=1, jitter=0)


class Bench:
    """An app with one task, whose handler each test writes."""

    def __init__(self, **settings: Any) -> None:
        self.app = App("sqlite://", **settings)
        self.harness = Harness(self.app)

    async def __aenter__(self) -> Self:
        await self.harness.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> None:
        await self.harness.__aexit__(*problem)

    async def run(self, handler: Any, *, rounds: int = 10, **options: Any) -> JobHandle[Any]:
        """Run the handler's job, and let time pass where it waits."""
        task = self.app.task(retry=AGAIN, **options)(handler)
        handle: JobHandle[Any] = await task.enqueue()
        for _ in range(rounds):
            await self.pass_time()
            if (await handle.get()).ended:
                break
        return handle

    async def pass_time(self) -> None:
        self.harness.clock.advance(60)
        await self.harness.drain(raises=False)


async def read(handle: JobHandle[Any], name: str = "tokens", **how: Any) -> list[Frame]:
    return [frame async for frame in handle.stream(name, follow=False, **how)]


def data(frames: list[Frame]) -> list[Any]:
    return [frame.data for frame in frames]


async def rows(app: App, handle: JobHandle[Any], name: str = "tokens") -> list[KeptFrames]:
    [found] = await app.store.streams.read([FollowFrom(handle.id, name)], 10_000)
    return found.frames


@dataclass
class Point:
    x: int
    y: int


async def test_a_frame_is_anything_that_json_can_carry() -> None:
    bench = Bench()
    values = ["zählen 🦊\n", 4.5, None, [1, {"a": []}], {"$enc": 1}, True]

    async def handler(ctx: Context) -> str:
        async with ctx.stream("tokens") as out:
            for value in values:
                await out.write(value)
            await out.write(Point(1, 2))
            await out.write("end")
        return out.text

    async with bench:
        handle = await bench.run(handler)
        assert data(await read(handle)) == [*values, {"x": 1, "y": 2}, "end"]
        assert await handle.result(0) == "zählen 🦊\nend"


@pytest.mark.parametrize("value", [object(), float("nan"), "\ud800"])
async def test_a_frame_that_json_cannot_carry_fails_the_job_for_good(value: Any) -> None:
    bench = Bench()

    async def handler(ctx: Context) -> None:
        await ctx.stream("tokens").write(value)

    async with bench:
        job = await (await bench.run(handler)).get()
        assert (job.state, job.attempts) == (JobState.FAILED, 1)
        assert "stream 'tokens': a frame is no JSON" in job.errors[0].message


async def test_bad_names_and_ways_of_keeping_are_refused_with_what_to_do() -> None:
    bench = Bench()

    async def handler(ctx: Context) -> list[str]:
        heard = []
        for name, keep in (("", "all"), ("x" * 201, "all"), ("ok", "some")):
            try:
                ctx.stream(name, keep)  # type: ignore[arg-type]
            except BadOption as error:
                heard.append(str(error))
        return heard

    async with bench:
        heard = await (await bench.run(handler)).result(0)
    assert "name of a stream" in heard[0]
    assert "1 to 200 characters" in heard[1]
    assert "'all', 'summary' or 'live'" in heard[2]


# Tries


async def test_a_step_that_is_tried_again_writes_its_section_anew() -> None:
    bench, calls = Bench(), 0

    async def handler(ctx: Context) -> None:
        async def draft() -> None:
            nonlocal calls
            calls += 1
            await out.write(f"draft {calls}")
            if calls < 3:
                raise ConnectionError("down")

        async with ctx.stream("tokens") as out:
            await out.write("before")
            again = Retry(max_attempts=3, base=0, jitter=0)
            await ctx.step.using(retry=again)("draft", draft)
            await out.write("after")

    async with bench:
        handle = await bench.run(handler)
        frames = await read(handle)
    assert [(one.data, one.section) for one in frames] == [
        ("before", ""),
        ("draft 3", "draft"),
        ("after", ""),
    ]


async def test_frames_of_a_recorded_step_stay_when_the_rest_is_written_again() -> None:
    bench = Bench()

    async def handler(ctx: Context) -> None:
        async def say(word: str) -> None:
            await out.write(f"{word} by fence {ctx.fence}")
            if word == "second" and ctx.attempt == 1:
                raise ConnectionError("down")

        async with ctx.stream("tokens") as out:
            await out.write(f"body {ctx.attempt}")
            await ctx.step("first", say, "first")
            await ctx.step("second", say, "second")

    async with bench:
        handle = await bench.run(handler)
        fence = (await handle.get()).fence
        frames = await read(handle)
    assert data(frames) == ["first by fence 1", "body 2", f"second by fence {fence}"]


async def test_a_resumed_follower_hears_of_the_newer_try() -> None:
    bench = Bench()

    async def handler(ctx: Context) -> None:
        out = ctx.stream("tokens")
        for word in ("a", "b"):
            await out.write(f"{word}{ctx.attempt}")
        if ctx.attempt == 1:
            raise ValueError("again")

    async with bench:
        handle = await bench.run(handler, rounds=1)
        first = await read(handle)
        assert data(first) == ["a1", "b1"]
        await bench.pass_time()
        for frame in first:
            rest = await read(handle, after=frame.cursor)
            assert [(one.data, one.restarted) for one in rest] == [("a2", True), ("b2", False)]
        assert not any(one.restarted for one in await read(handle))


async def test_a_handler_that_is_called_again_after_a_sleep_writes_its_frames_again() -> None:
    bench = Bench()

    async def handler(ctx: Context) -> None:
        async with ctx.stream("tokens") as out:
            await out.write("hello")
            await ctx.sleep("nap", 30)
            await out.write("again")

    async with bench:
        handle = await bench.run(handler)
        assert data(await read(handle)) == ["hello", "again"]


async def test_sections_of_steps_side_by_side_do_not_disturb_each_other() -> None:
    bench = Bench()

    async def handler(ctx: Context) -> None:
        async def say(word: str) -> None:
            for n in range(3):
                await out.write(f"{word}{n}")
                await asyncio.sleep(0)

        async with ctx.stream("tokens") as out:
            await asyncio.gather(ctx.step("a", say, "a"), ctx.step("b", say, "b"))

    async with bench:
        frames = await read(await bench.run(handler))
    assert sorted(data(frames)) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    for section in "ab":
        assert [one.data for one in frames if one.section == section] == [
            f"{section}{n}" for n in range(3)
        ]


# Closing


async def test_a_closed_stream_is_over_for_its_followers_while_the_job_goes_on() -> None:
    app, go_on = App("sqlite://"), asyncio.Event()

    @app.task
    async def handler(ctx: Context) -> str:
        async with ctx.stream("tokens") as out:
            await out.write("all")
        await go_on.wait()
        return "done"

    async with app, app.worker() as worker:
        handle = await handler.enqueue()
        assert [frame.data async for frame in handle.stream("tokens")] == ["all"]
        assert not (await handle.get()).ended
        go_on.set()
        await worker.drain()


@pytest.mark.parametrize("again", ["write", "open"])
async def test_a_closed_stream_takes_no_more(again: str) -> None:
    bench = Bench()

    async def handler(ctx: Context) -> None:
        async with ctx.stream("tokens") as out:
            await out.write(1)
        await (out if again == "write" else ctx.stream("tokens")).write(2)

    async with bench:
        job = await (await bench.run(handler)).get()
        assert (job.state, job.attempts) == (JobState.FAILED, 1)
        assert "stream 'tokens' was closed" in job.errors[0].message


async def test_one_stream_keeps_in_one_way() -> None:
    bench = Bench()

    async def handler(ctx: Context) -> None:
        await ctx.stream("tokens").write(1)
        await ctx.stream("tokens", keep="live").write(2)

    async with bench:
        job = await (await bench.run(handler)).get()
    assert "keeps 'all', and cannot keep 'live'" in job.errors[0].message


async def test_a_follower_ends_with_a_job_that_never_wrote() -> None:
    app = App("sqlite://")

    @app.task
    async def handler() -> None: ...

    async with app, app.worker() as worker:
        handle = await handler.enqueue()
        following = asyncio.ensure_future(_all(handle.stream("tokens")))
        await worker.drain()
        assert await following == []


async def _all(stream: AsyncIterator[Frame]) -> list[Any]:
    return [frame.data async for frame in stream]


# Bounds


async def test_a_stream_over_its_size_is_refused_with_what_to_do() -> None:
    bench = Bench(max_stream_size=2_000)

    async def handler(ctx: Context) -> None:
        for name in ("one", "two"):
            await ctx.stream(name).write("x" * 1_200)

    async with bench:
        job = await (await bench.run(handler)).get()
        assert (job.state, job.attempts) == (JobState.FAILED, 1)
        message = job.errors[0].message
        assert "stream 'two': with this frame" in message
        assert "max_stream_size is 2000" in message
        assert 'keep="live"' in message


async def test_a_try_that_begins_again_has_all_its_room_again() -> None:
    bench = Bench(max_stream_size=2_000)

    async def handler(ctx: Context) -> None:
        async with ctx.stream("tokens") as out:
            await out.write("x" * 1_200)
            if ctx.attempt < 3:
                raise ValueError("again")

    async with bench:
        assert (await (await bench.run(handler)).get()).state is JobState.SUCCEEDED


async def test_a_frame_over_max_payload_is_refused() -> None:
    bench = Bench(max_payload=1_024)

    async def handler(ctx: Context) -> None:
        await ctx.stream("tokens", keep="live").write("ä" * 600)

    async with bench:
        job = await (await bench.run(handler)).get()
    assert "a frame of 1202 bytes of JSON is over max_payload, 1024" in job.errors[0].message


async def test_a_live_stream_keeps_its_newest_frames_and_says_how_many_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frame_writer, "LONGEST_GAP_SECONDS", 0.0)
    bench = Bench()
    number = 3 * LIVE_FRAMES

    async def handler(ctx: Context) -> None:
        async with ctx.stream("tokens", keep="live") as out:
            for n in range(number):
                await out.write(n)
                if n % 50 == 0:
                    await asyncio.sleep(0)

    async with bench:
        handle = await bench.run(handler)
        frames = await read(handle)
        kept = data(frames)
        assert kept == list(range(number - len(kept), number))
        assert LIVE_FRAMES <= len(kept) < 2 * LIVE_FRAMES
        assert (frames[0].missed, frames[1].missed) == (number - len(kept), 0)
        late = await read(handle, after=f"{(await handle.get()).fence}.9")
        assert late[0].missed == number - len(kept) - 10


async def test_a_summary_is_what_the_frames_come_to() -> None:
    bench = Bench()
    document: dict[str, Any] = {}

    async def handler(ctx: Context) -> None:
        async with ctx.stream("state", keep="summary") as out:
            for n in range(300):
                await out.write({"n": n, "even": None if n % 2 else {"n": n}})

    async with bench:
        handle = await bench.run(handler)
        frames = await read(handle, "state")
        assert frames[0].whole, "a late follower begins with a whole document"
        for frame in frames:
            document = frame.applied_to(document)
        assert document == {"n": 299}
        kept = sum(row.number for row in await rows(bench.app, handle, "state"))
        assert kept <= 65, "earlier frames are gone"


async def test_a_summary_of_a_second_try_begins_anew() -> None:
    bench = Bench()

    async def handler(ctx: Context) -> None:
        out = ctx.stream("state", keep="summary")
        await out.write({f"attempt {ctx.attempt}": True})
        if ctx.attempt == 1:
            raise ValueError("again")

    async with bench:
        [frame] = await read(await bench.run(handler), "state")
    assert frame.data == {"attempt 2": True}


async def test_a_summary_over_max_payload_is_refused() -> None:
    bench = Bench(max_payload=1_024)

    async def handler(ctx: Context) -> None:
        async with ctx.stream("state", keep="summary") as out:
            for n in range(40):
                await out.write({f"name {n}": "x" * 50})

    async with bench:
        job = await (await bench.run(handler)).get()
    assert "its summary of" in job.errors[0].message
    assert job.state is JobState.FAILED


# Following


async def test_an_unknown_job_and_a_bad_cursor_are_refused() -> None:
    app = App("sqlite://")

    @app.task
    async def handler() -> None: ...

    async with app:
        with pytest.raises(UnknownJob):
            await read(handler.job(new_job_id()))
        handle = await handler.enqueue()
        for cursor in ("", "1", "1.", ".1", "1.x", "-1.2", 7):
            with pytest.raises(BadOption, match="the cursor of a frame"):
                await read(handle, after=cursor)


async def test_a_follower_of_a_closed_app_hears_of_that() -> None:
    app = App("sqlite://")

    @app.task
    async def handler() -> None: ...

    async with app:
        handle = await handler.enqueue()
        following = asyncio.ensure_future(_all(handle.stream("tokens")))
        await wait_until(
            lambda: "holdfast-follow" in {one.get_name() for one in asyncio.all_tasks()},
            5,
            "it follows",
        )
    with pytest.raises(NotOpen):
        await following


async def test_a_thousand_followers_share_reads_and_leave_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("sqlite://")
    calls: list[int] = []

    @app.task
    async def handler(ctx: Context) -> None:
        async with ctx.stream("tokens") as out:
            for n in range(5):
                await out.write(n)

    async with app, app.worker() as worker:
        handle = await handler.enqueue()
        whole = app.store.streams.read

        async def counted(wants: Any, limit: int) -> Any:
            calls.append(len(wants))
            return await whole(wants, limit)

        monkeypatch.setattr(app.store.streams, "read", counted)
        followers = [asyncio.ensure_future(_all(handle.stream("tokens"))) for _ in range(1_000)]
        await asyncio.sleep(0)
        await worker.drain()
        assert await asyncio.gather(*followers) == [list(range(5))] * 1_000
        assert max(calls) == 1, "all are at the same position"
        reader = app.client.streams.reader
        assert len(reader._due) + len(reader._idle) == 0


async def test_an_outage_is_waited_out_by_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "POLL_SECONDS", 0.01)
    app, failures = App("sqlite://"), 3

    @app.task
    async def handler(ctx: Context) -> None:
        await ctx.stream("tokens").write("there")

    async with app, app.worker() as worker:
        handle = await handler.enqueue()
        whole = app.store.streams.read

        async def flaky(wants: Any, limit: int) -> Any:
            nonlocal failures
            if failures:
                failures -= 1
                raise StoreUnavailable("gone")
            return await whole(wants, limit)

        monkeypatch.setattr(app.store.streams, "read", flaky)
        following_it = asyncio.ensure_future(_all(handle.stream("tokens")))
        await worker.drain()
        assert await following_it == ["there"]


def test_a_program_without_a_loop_follows_too() -> None:
    app = App("sqlite://")

    @app.task
    def handler(ctx: Context) -> str:
        with ctx.stream_sync("tokens") as out:
            for word in "abc":
                out.write(word)
        return out.text

    async def work() -> JobHandle[str]:
        async with app, app.worker() as worker:
            handle = await handler.enqueue()
            await worker.drain()
            frames = await asyncio.to_thread(lambda: list(handle.stream_sync("tokens")))
            assert data(frames) == ["a", "b", "c"]
            rest = await asyncio.to_thread(
                lambda: list(app.sync.streams.follow(handle.id, "tokens", after=frames[0].cursor))
            )
            assert data(rest) == ["b", "c"]
            [part] = await asyncio.to_thread(app.sync.streams.of, handle.id)
            assert (part.stream, part.number, part.closed) == ("tokens", 3, True)
            return handle

    assert asyncio.run(work()).id


async def test_a_failed_step_leaves_its_frames_to_be_read() -> None:
    bench = Bench()

    async def handler(ctx: Context) -> str:
        async def draft() -> None:
            await out.write("half")
            raise ValueError("no")

        async with ctx.stream("tokens") as out:
            try:
                await ctx.step("draft", draft)
            except StepFailed:
                await out.write("sorry")
        return out.text

    async with bench:
        handle = await bench.run(handler)
        assert data(await read(handle)) == ["half", "sorry"]
