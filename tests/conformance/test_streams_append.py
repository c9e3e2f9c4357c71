"""Streams.append: frames of the attempt that runs are kept in order, and no zombie adds to them."""

from __future__ import annotations

import pytest

from holdfast.job.ends import HandedBack, WorkerLost
from holdfast.job.ids import new_job_id
from holdfast.job.stream import FollowFrom, Keep, KeptFrames, NewFrames
from holdfast.job.ties import NO_TIES, Tie
from tests.conformance.builders import FAILED, RETURNED, Scene
from tests.conformance.streaming import append, data_of, frames_of, kept_of, write


async def test_an_empty_batch_writes_nothing(scene: Scene) -> None:
    streams = scene.store.streams
    assert await streams.append([]) == []
    assert await streams.read([], 10) == []
    assert await streams.of([]) == {}


async def test_frames_are_kept_with_all_that_was_said_of_them(scene: Scene) -> None:
    claimed = await scene.running()
    scene.clock.advance(5)
    one = frames_of(claimed, 3, '["zählen 🦊","\\u0000"]', section="step#2", since=3, again=True)
    other = frames_of(claimed, 5, "[1]", whole=True, closes=True, keep=Keep.SUMMARY)
    assert await append(scene, one, other) == [True, True]
    now, fence = scene.clock.now, claimed.fence
    assert await kept_of(scene, claimed.id) == [
        KeptFrames(fence=fence, last=4, number=2, data='["zählen 🦊","\\u0000"]', section="step#2",
                   since=3, again=True, whole=False, closes=False, live=False, at=now),
        KeptFrames(fence=fence, last=6, number=1, data="[1]", section="", since=0, again=False,
                   whole=True, closes=True, live=False, at=now),
    ]  # fmt: skip


async def test_frames_of_many_jobs_and_streams_are_written_at_once(scene: Scene) -> None:
    one, other = await scene.running(), await scene.running()
    batch = [
        frames_of(one, 0, "[1]"),
        frames_of(other, 0, "[2]"),
        frames_of(one, 0, "[3]", "log"),
        frames_of(one, 1, "[4]"),
    ]
    assert await append(scene, *batch) == [True] * 4
    assert await data_of(scene, one.id) == ["[1]", "[4]"]
    assert await data_of(scene, other.id) == ["[2]"]
    assert await data_of(scene, one.id, "log") == ["[3]"]


async def test_frames_that_are_sent_again_are_there_once(scene: Scene) -> None:
    claimed = await scene.running()
    batch = [frames_of(claimed, 0, "[1,2]"), frames_of(claimed, 2, "[3]")]
    assert await append(scene, *batch) == [True, True]
    assert await append(scene, *batch) == [True, True]
    assert await append(scene, batch[0], frames_of(claimed, 3, "[4]")) == [True, True]
    assert await data_of(scene, claimed.id) == ["[1,2]", "[3]", "[4]"]


@pytest.mark.parametrize("keep", Keep)
async def test_an_old_fence_writes_no_frames(scene: Scene, keep: Keep) -> None:
    """F11: frames of one fence. A lost attempt's late frames are refused."""
    zombie = await scene.running()
    assert await write(scene, zombie, keep=keep)
    await scene.finish(zombie, HandedBack())
    assert not await write(scene, zombie, 2, keep=keep)
    successor = await scene.claim_one()
    batch = [frames_of(zombie, 2, '["late"]', keep=keep), frames_of(successor, 0, "[1]", keep=keep)]
    assert await append(scene, *batch) == [False, True]
    assert await data_of(scene, zombie.id) == ['["a","b"]', "[1]"]


async def test_refused_frames_replace_nothing(scene: Scene) -> None:
    zombie = await scene.running()
    await write(scene, zombie)
    await scene.finish(zombie, HandedBack())
    late = frames_of(zombie, 9, "[9]", replaces=9, keeps_from=9)
    assert await append(scene, late) == [False]
    assert await data_of(scene, zombie.id) == ['["a","b"]']


@pytest.mark.parametrize("end", [RETURNED, FAILED, WorkerLost()])
async def test_nothing_is_written_behind_the_end_of_an_attempt(scene: Scene, end: object) -> None:
    ended = await scene.ended(end)  # type: ignore[arg-type]
    assert not await write(scene, ended)
    unknown = NewFrames(new_job_id(), 1, "tokens", 0, 1, "[1]")
    assert await append(scene, unknown) == [False]


async def test_a_job_gets_its_tie_with_its_first_frames(scene: Scene) -> None:
    claimed, bare = await scene.running(), await scene.running()
    await write(scene, claimed)
    ties = {live.id: live.ties for live in await scene.store.jobs.live([claimed.id, bare.id])}
    assert ties == {claimed.id: Tie.STEPS, bare.id: NO_TIES}


@pytest.mark.parametrize("keep", Keep)
async def test_a_newer_try_replaces_its_section_and_no_other(scene: Scene, keep: Keep) -> None:
    """F11: the frames of two tries never mix."""
    claimed = await scene.running()
    await append(
        scene,
        frames_of(claimed, 0, "[1]", keep=keep),
        frames_of(claimed, 1, "[2]", section="a", since=1, keep=keep),
        frames_of(claimed, 2, "[3]", section="b", since=2, keep=keep),
        frames_of(claimed, 3, "[4]", "log", keep=keep),
    )
    await scene.finish(claimed, HandedBack())
    again = await scene.claim_one()
    newer = frames_of(again, 0, "[5]", section="a", again=True, replaces=0, keep=keep)
    assert await append(scene, newer, frames_of(again, 1, "[6]", section="a", keep=keep))
    assert await data_of(scene, claimed.id) == ["[1]", "[3]", "[5]", "[6]"]
    assert await data_of(scene, claimed.id, "log") == ["[4]"]


async def test_a_try_within_one_attempt_replaces_the_one_before(scene: Scene) -> None:
    claimed = await scene.running()
    await append(scene, frames_of(claimed, 0, "[1]"), frames_of(claimed, 1, "[2]", section="a"))
    newer = frames_of(claimed, 2, "[3]", section="a", since=2, again=True, replaces=2)
    assert await append(scene, newer) == [True]
    assert await append(scene, newer) == [True]
    assert await data_of(scene, claimed.id) == ["[1]", "[3]"]


async def test_a_kind_that_was_changed_leaves_nothing_of_the_old_one(scene: Scene) -> None:
    claimed = await scene.running()
    await write(scene, claimed, keep=Keep.ALL)
    await scene.finish(claimed, HandedBack())
    again = await scene.claim_one()
    await write(scene, again, data="[9]", keep=Keep.LIVE, replaces=0)
    assert await data_of(scene, claimed.id) == ["[9]"]


async def test_a_whole_stream_can_be_cut_at_its_beginning(scene: Scene) -> None:
    claimed = await scene.running()
    rows = [frames_of(claimed, n, f"[{n}]", section=str(n % 2), keep=Keep.LIVE) for n in range(6)]
    await append(scene, *rows)
    await append(scene, frames_of(claimed, 6, "[6]", keep=Keep.LIVE, keeps_from=4))
    assert await data_of(scene, claimed.id) == ["[4]", "[5]", "[6]"]


async def test_streams_go_with_their_job(scene: Scene) -> None:
    for keep in Keep:
        claimed = await scene.running()
        await write(scene, claimed, keep=keep)
        await scene.finish(claimed, RETURNED)
        assert await data_of(scene, claimed.id)
        assert await scene.store.jobs.delete([claimed.id])
        assert await data_of(scene, claimed.id) == []
        assert await scene.store.streams.of([claimed.id]) == {}


async def test_a_requeued_job_begins_without_streams(scene: Scene) -> None:
    claimed = await scene.running()
    await write(scene, claimed)
    await write(scene, claimed, stream="log", keep=Keep.LIVE)
    await scene.finish(claimed, FAILED)
    await scene.store.jobs.requeue([claimed.id])
    assert await scene.store.streams.of([claimed.id]) == {}
    again = await scene.claim_one()
    assert again.fence > claimed.fence
    assert await write(scene, again)
    [found] = await scene.store.streams.read([FollowFrom(again.id, "tokens", claimed.fence, 9)], 9)
    assert [one.fence for one in found.frames] == [again.fence]
