"""Following streams: `async for frame in client.streams.follow(job_id, "tokens")`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from holdfast.client.following import ROW_LIMIT, StreamReader
from holdfast.errors import UnknownJob
from holdfast.job import checks
from holdfast.job.checks import known_job_id
from holdfast.job.ids import JobId
from holdfast.job.stream import (
    LONGEST_NAME,
    Followed,
    Frame,
    FrameReader,
    StreamPart,
    read_cursor,
)
from holdfast.store.contract.store import Store


class Follower:
    """One who follows a stream, and how far it has come. `waits` is False for one who only reads
    what is there."""

    def __init__(self, job_id: str, name: str, after: str | None, *, waits: bool) -> None:
        checks.text("the name of a stream", name, LONGEST_NAME)
        self._frames = FrameReader(read_cursor(known_job_id(job_id), name, after))
        self._waits = checks.flag("follow", waits)
        self._is_known = False
        self.is_over = False

    async def more(self, streams: StreamVerbs) -> list[Frame]:
        """The frames that come next; there may be none when the stream is over."""
        want = self._frames.position
        found = await (streams.reader.behind if self._waits else streams.reader.now)(want)
        if not (found.frames or found.live or self._is_known):
            await require_known(streams.reader.store, want.id)
        self._is_known = True
        return self._taken(found)

    def _taken(self, found: Followed) -> list[Frame]:
        """A stream that is closed has no more frames; neither has one whose job has ended, or one
        that is not waited for, when all is read."""
        frames = [frame for kept in found.frames for frame in self._frames.of(kept)]
        is_all = len(found.frames) < ROW_LIMIT
        closed = bool(found.frames) and found.frames[-1].closes
        self.is_over = is_all and (closed or not (found.live and self._waits))
        return frames


class StreamVerbs:
    """Follow the streams of jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reader = StreamReader(store)

    async def follow(
        self, job_id: str, name: str, *, after: str | None = None, follow: bool = True
    ) -> AsyncIterator[Frame]:
        """The frames of a stream in their order, as they come, until the stream is closed or the
        job has ended. `after` is the cursor of the last frame that the caller has had. With
        `follow=False` it ends with what is there now."""
        follower = Follower(job_id, name, after, waits=follow)
        while not follower.is_over:
            for frame in await follower.more(self):
                yield frame

    async def of(self, job_id: str) -> list[StreamPart]:
        """The streams of a job by name and section, with how much of them is kept."""
        job = known_job_id(job_id)
        if found := await self._store.streams.of([job]):
            return found[job]
        await require_known(self._store, job)
        return []

    async def aclose(self) -> None:
        await self.reader.aclose()


async def require_known(store: Store, job_id: JobId) -> None:
    if not await store.jobs.get([job_id]):
        raise UnknownJob(job_id)
