"""Streams.read, of and trim: followers get frames in order, without a gap and without repeats."""

from __future__ import annotations

from holdfast.job.ends import HandedBack
from holdfast.job.ids import new_job_id
from holdfast.job.stream import FollowFrom, FrameReader, Keep, StreamPart
from holdfast.store.contract.wakeups import Topic, Wakeup
from tests.conformance.builders import RETURNED, Scene
from tests.conformance.streaming import (
    TOKENS,
    append,
    data_of,
    follow,
    frames_of,
    kept_of,
    seen,
    write,
)
from tests.support.waiting import wait_until


async def test_a_follower_reads_behind_its_position(scene: Scene) -> None:
    claimed = await scene.running()
    await append(scene, *(frames_of(claimed, n, f'["{n}","{n + 1}"]') for n in (0, 2, 4)))
    fence = claimed.fence
    for n, expected in ((-1, [1, 3, 5]), (0, [1, 3, 5]), (1, [3, 5]), (4, [5]), (5, [])):
        found = await follow(scene, FollowFrom(claimed.id, TOKENS, fence, n))
        assert [one.last for one in found.frames] == expected


async def test_a_page_is_no_longer_than_its_limit(scene: Scene) -> None:
    claimed = await scene.running()
    await append(scene, *(frames_of(claimed, n, f"[{n}]") for n in range(7)))
    reading, values = FrameReader(FollowFrom(claimed.id, TOKENS)), []
    while (found := await follow(scene, reading.position, 3)).frames:
        assert len(found.frames) <= 3
        values += [frame.data for kept in found.frames for frame in reading.of(kept)]
    assert values == list(range(7))


async def test_many_followers_are_answered_at_once_and_in_their_order(scene: Scene) -> None:
    one, other = await scene.running(), await scene.running()
    await append(scene, frames_of(one, 0, "[1]"), frames_of(other, 0, "[2]", "log"))
    wants = [
        FollowFrom(other.id, "log"),
        FollowFrom(new_job_id(), "log"),
        FollowFrom(one.id, TOKENS),
        FollowFrom(one.id, TOKENS, one.fence, 0),
        FollowFrom(one.id, TOKENS),
    ]
    found = await scene.store.streams.read(wants, 10)
    assert [[kept.data for kept in one.frames] for one in found] == [
        ["[2]"],
        [],
        ["[1]"],
        [],
        ["[1]"],
    ]
    assert [one.live for one in found] == [True, False, True, True, True]


async def test_a_job_that_has_ended_is_not_live_for_its_followers(scene: Scene) -> None:
    claimed = await scene.running()
    await write(scene, claimed)
    await scene.finish(claimed, HandedBack())
    assert (await follow(scene, FollowFrom(claimed.id, TOKENS))).live
    await scene.finish(await scene.claim_one(), RETURNED)
    found = await follow(scene, FollowFrom(claimed.id, TOKENS))
    assert (len(found.frames), found.live) == (1, False)


async def test_attempts_follow_each_other_and_a_follower_hears_of_the_newer(scene: Scene) -> None:
    claimed = await scene.running()
    reading = FrameReader(FollowFrom(claimed.id, TOKENS))
    await write(scene, claimed, data='["a","b","c"]')
    assert [one.data for one in await seen(scene, reading)] == ["a", "b", "c"]
    await scene.finish(claimed, HandedBack())
    again = await scene.claim_one()
    await write(scene, again, data='["x","y"]', again=True, replaces=0)
    assert [(one.data, one.restarted) for one in await seen(scene, reading)] == [
        ("x", True),
        ("y", False),
    ]
    assert await seen(scene, reading) == []
    fresh = FrameReader(FollowFrom(claimed.id, TOKENS))
    assert [(one.data, one.restarted) for one in await seen(scene, fresh)] == [
        ("x", False),
        ("y", False),
    ]


async def test_streams_are_counted_by_section(scene: Scene) -> None:
    one, other = await scene.running(), await scene.running()
    scene.clock.advance(3)
    await append(
        scene,
        frames_of(one, 0, '["ä","b"]'),
        frames_of(one, 2, '["c"]', closes=True),
        frames_of(one, 4, "[1]", section="s"),
        frames_of(other, 0, "[1]", "log", keep=Keep.LIVE),
    )
    now = scene.clock.now
    found = await scene.store.streams.of([one.id, other.id, new_job_id(), one.id])
    assert found == {
        one.id: [
            StreamPart(stream=TOKENS, section="", keep=Keep.ALL, number=3, size=15, at=now,
                       closed=True),
            StreamPart(stream=TOKENS, section="s", keep=Keep.ALL, number=1, size=3, at=now,
                       closed=False),
        ],
        other.id: [
            StreamPart(stream="log", section="", keep=Keep.LIVE, number=1, size=3, at=now,
                       closed=False),
        ],
    }  # fmt: skip


async def test_trim_removes_old_frames_of_live_streams_alone(scene: Scene) -> None:
    claimed = await scene.running()
    for keep in Keep:
        await write(scene, claimed, data="[1]", stream=keep, keep=keep)
    scene.clock.advance(50)
    await append(scene, frames_of(claimed, 1, "[2]", Keep.LIVE, keep=Keep.LIVE))
    assert await scene.store.streams.trim(60.0, 10) == 0
    scene.clock.advance(20)
    assert await scene.store.streams.trim(60.0, 10) == 1
    assert await scene.store.streams.trim(60.0, 10) == 0
    assert await data_of(scene, claimed.id, Keep.LIVE) == ["[2]"]
    assert await data_of(scene, claimed.id, Keep.ALL) == ["[1]"]
    assert await data_of(scene, claimed.id, Keep.SUMMARY) == ["[1]"]
    scene.clock.advance(60)
    assert await scene.store.streams.trim(60.0, 10) == 1
    await append(scene, frames_of(claimed, 2, "[3]", Keep.LIVE, keep=Keep.LIVE))
    assert await data_of(scene, claimed.id, Keep.LIVE) == ["[3]"]


async def test_trim_goes_on_where_its_limit_ended_it(scene: Scene) -> None:
    claimed = await scene.running()
    rows = [frames_of(claimed, n, "[0]", keep=Keep.LIVE) for n in range(5)]
    await append(scene, *rows, frames_of(await scene.running(), 0, "[0]", keep=Keep.LIVE))
    scene.clock.advance(61)
    assert [await scene.store.streams.trim(60.0, 2) for _ in range(4)] == [2, 2, 2, 0]
    assert await kept_of(scene, claimed.id) == []


async def test_followers_are_woken_and_others_are_not(scene: Scene) -> None:
    claimed = await scene.running()
    heard: list[Wakeup] = []
    usual: list[Wakeup] = []
    quiet = await scene.store.wakeups.subscribe(usual.append)
    stop = await scene.store.wakeups.subscribe(heard.append, {Topic.STREAMS})
    try:

        async def told() -> bool:
            position = len(await kept_of(scene, claimed.id))
            await write(scene, claimed, position, data="[1]")
            return bool(heard)

        await wait_until(told, 10, "the follower hears of frames")
        assert {one.topic for one in heard} == {Topic.STREAMS}
        assert {one.name for one in heard} <= {"", claimed.id[-8:]}
        assert all(one.topic is not Topic.STREAMS for one in usual)
    finally:
        stop()
        quiet()
