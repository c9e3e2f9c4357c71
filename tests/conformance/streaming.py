"""Frames of streams, so that the tests of streams read as sentences."""

from __future__ import annotations

from typing import Any

from holdfast.job.ids import JobId
from holdfast.job.record import Claimed
from holdfast.job.stream import Followed, FollowFrom, Frame, FrameReader, KeptFrames, NewFrames
from tests.conformance.builders import Scene

TOKENS = "tokens"


def frames_of(
    job: Claimed, first: int = 0, data: str = '["a","b"]', stream: str = TOKENS, **said: Any
) -> NewFrames:
    """Frames that begin at this number of the attempt, as many as the JSON list has commas."""
    number = said.pop("number", 0 if data == "[]" else data.count(",") + 1)
    last = first + number - (0 if said.get("closes") else 1)
    return NewFrames(job.id, job.fence, stream, last, number, data, **said)


async def append(scene: Scene, *frames: NewFrames) -> list[bool]:
    return await scene.store.streams.append(frames)


async def write(scene: Scene, job: Claimed, first: int = 0, **said: Any) -> bool:
    [kept] = await append(scene, frames_of(job, first, **said))
    return kept


async def follow(scene: Scene, want: FollowFrom, limit: int = 100) -> Followed:
    [found] = await scene.store.streams.read([want], limit)
    return found


async def kept_of(scene: Scene, job: JobId, stream: str = TOKENS) -> list[KeptFrames]:
    return (await follow(scene, FollowFrom(job, stream))).frames


async def data_of(scene: Scene, job: JobId, stream: str = TOKENS) -> list[str]:
    return [one.data for one in await kept_of(scene, job, stream)]


async def seen(scene: Scene, reading: FrameReader) -> list[Frame]:
    """What a follower sees that looks again."""
    found = await follow(scene, reading.position)
    return [frame for kept in found.frames for frame in reading.of(kept)]
