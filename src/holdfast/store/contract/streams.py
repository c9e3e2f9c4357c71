"""Streams: the frames that running attempts write, and that others follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.job.ids import JobId
from holdfast.job.stream import Followed, FollowFrom, NewFrames, StreamPart


class Streams(Protocol):
    """The streams of a job go with it: whoever removes the job removes them, and a requeue begins
    without them. A job that has written frames has the tie `STEPS`; no other job is asked for
    streams. Whoever follows a stream is woken by `Topic.STREAMS`."""

    async def append(self, frames: Sequence[NewFrames]) -> list[bool]:
        """Write frames of running attempts; False where the fence is old.

        Frames whose position is there already answer True and change nothing: frames whose answer
        was lost may be sent again. Frames that come with `replaces` or `keeps_from` remove earlier
        ones in the same step.
        """
        ...

    async def read(self, wants: Sequence[FollowFrom], limit: int) -> list[Followed]:
        """What there is behind these positions: for each at most `limit` rows of frames, as they
        were written together. Frames around a position come with those that the follower has had.
        Frames are written before the end of their attempt, so what is read of a job that is not
        live any more is all there is, up to the limit."""
        ...

    async def of(self, ids: Sequence[JobId]) -> dict[JobId, list[StreamPart]]:
        """The streams of these jobs by name and section. Jobs without streams are left out."""
        ...

    async def trim(self, kept: float, limit: int) -> int:
        """Remove up to `limit` rows of live frames that are older than `kept` seconds; answers how
        many there were."""
        ...
