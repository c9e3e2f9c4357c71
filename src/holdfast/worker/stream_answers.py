"""Answers what handlers write to their streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import assert_never

from holdfast.enqueue.batcher import Batcher
from holdfast.errors import StreamRefused
from holdfast.handlers.exceptions import refused
from holdfast.job.ends import End, HandedBack
from holdfast.job.ids import JobId
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    CloseStream,
    FrameRefused,
    FrameTaken,
    WriteFrame,
)
from holdfast.job.step import StepRecord
from holdfast.job.stream import StreamPart
from holdfast.job.ties import Tie
from holdfast.worker.attempt import Attempt, Stop
from holdfast.worker.frame_writer import FrameWriter
from holdfast.worker.journal import TooMuch
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.step_answers import AtLast
from holdfast.worker.streams import AttemptStreams

STREAMS = "streams"
_GONE, _TAKEN = AttemptGone(), FrameTaken()


class StreamAnswers:
    """Knows the streams of each attempt, and has their frames written."""

    def __init__(self, setup: WorkerSetup, at_last: AtLast) -> None:
        self._streams = setup.store.streams
        self._options = setup.options
        self._at_last = at_last
        self._writer = FrameWriter(setup.store.streams, setup.outage)
        self._loads: Batcher[JobId, list[StreamPart]] = Batcher(self._load)

    async def answer(self, attempt: Attempt, request: WriteFrame | CloseStream) -> Answer:
        streams = attempt.streams
        if streams is None or not streams.loaded:
            streams = await self._open(attempt)
        if attempt.is_over or streams.gone:
            return _GONE
        if streams.refused is not None:
            return FrameRefused(streams.refused)
        try:
            match request:
                case WriteFrame():
                    streams.write(request)
                    return await self._taken(attempt, streams, len(request.data))
                case CloseStream():
                    streams.close(request)
                    return await self._closed(attempt, streams)
        except TooMuch as error:
            return FrameRefused(str(error))
        assert_never(request)

    async def aclose(self) -> None:
        await self._loads.aclose()
        await self._writer.aclose()

    async def end(self, attempt: Attempt, end: End) -> End:
        """The end of a handler, once its frames are written. A stop that comes too late for the
        handler is not heard here. A worker that leaves does not wait for the store: then the job
        goes back, and is run again."""
        if (streams := attempt.streams) is None:
            return end
        late = {Stop.TIMEOUT, Stop.DEADLINE, Stop.CANCEL}
        while attempt.stop is not Stop.LOST:
            try:
                await self._writer.written(attempt, streams, streams.said)
                break
            except asyncio.CancelledError:
                if attempt.stop not in late:
                    return HandedBack()
                late.clear()
        if streams.refused is not None:
            return refused(StreamRefused(streams.refused))
        return end

    async def flushed(self, attempt: Attempt) -> None:
        """Wait until the frames of a running attempt are written. Raises `StreamRefused` if the
        store would not take one."""
        if (streams := attempt.streams) is not None:
            await self._writer.written(attempt, streams, streams.said)
            if streams.refused is not None:
                raise StreamRefused(streams.refused)

    async def before(self, attempt: Attempt, records: Sequence[StepRecord]) -> Answer | None:
        """Wait until all frames of these steps are written. A step that is recorded is not called
        again, so nobody would write them later. The answer says why they never will be."""
        if (streams := attempt.streams) is None:
            return None
        needed = streams.needed_by(record.name for record in records)
        if await self._writer.written(attempt, streams, needed) and not attempt.is_over:
            return None
        return _GONE if streams.refused is None else FrameRefused(streams.refused)

    async def _open(self, attempt: Attempt) -> AttemptStreams:
        """What earlier attempts have left is asked for once in an attempt, and only if there may be
        something."""
        streams = attempt.streams
        if streams is None:
            loaded = not attempt.job.ties & Tie.STEPS
            streams = attempt.streams = AttemptStreams(attempt.job, self._options, loaded=loaded)
        if not streams.loaded:
            async with streams.lock:
                await self._at_last(attempt, STREAMS, partial(self._fill, streams))
        return streams

    async def _fill(self, streams: AttemptStreams) -> Answer:
        if not streams.loaded:
            streams.fill(await self._loads.submit(streams.id))
        return _TAKEN

    async def _taken(self, attempt: Attempt, streams: AttemptStreams, size: int) -> Answer:
        self._writer.add(attempt, streams, size)
        await self._writer.room(attempt, streams)
        return _TAKEN

    async def _closed(self, attempt: Attempt, streams: AttemptStreams) -> Answer:
        self._writer.add(attempt, streams)
        await self._writer.written(attempt, streams, streams.said)
        if streams.gone or attempt.is_over:
            return _GONE
        return _TAKEN if streams.refused is None else FrameRefused(streams.refused)

    async def _load(self, ids: Sequence[JobId]) -> list[list[StreamPart]]:
        found = await self._streams.of(ids)
        return [found.get(job, []) for job in ids]
