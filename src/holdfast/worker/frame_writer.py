"""Writes the frames of all attempts of a worker: few rows, few round trips.

A handler does not wait for its frames to be written. A flush takes what all attempts have written
since the last one. It begins a while after the last one began, so a lone frame waits for nobody,
and frames that come one after another share a row. That while is longer where many streams are
written: then the store works less, and frames still come in time (ADR 42). A flush begins at once
when there is much to write, or when somebody waits: a stream that is closed, or an attempt that
ends.

A handler that writes faster than the store takes waits in `room`: an attempt has at most
`MOST_BACKLOG` bytes that are not written. An outage is waited out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from holdfast.background.outage import Outage
from holdfast.errors import RowRefused
from holdfast.job.stream import NewFrames
from holdfast.store.contract.streams import Streams
from holdfast.worker.attempt import Attempt, Stop
from holdfast.worker.streams import AttemptStreams

GAP_SECONDS, LONGEST_GAP_SECONDS, GAP_SECONDS_PER_ROW = 0.02, 0.04, 0.00005
MOST_BACKLOG = 256 * 1024
FLUSH_BYTES = 256 * 1024
APPEND_BATCH = 500
APPEND = "append"

Rows = list[tuple[Attempt, AttemptStreams, NewFrames]]


class FrameWriter:
    """One for each worker. Its task runs only while there is something to write."""

    def __init__(self, streams: Streams, outage: Outage) -> None:
        self._streams = streams
        self._outage = outage
        self._loop = asyncio.get_running_loop()
        self._dirty: dict[AttemptStreams, Attempt] = {}
        self._bytes = 0
        self._may_begin = 0.0
        self._urgent = asyncio.Event()
        self._round = self._loop.create_future()
        self._task: asyncio.Task[None] | None = None

    def add(self, attempt: Attempt, streams: AttemptStreams, size: int = 0) -> None:
        """There is something to write."""
        self._dirty[streams] = attempt
        self._bytes += size
        if self._bytes >= FLUSH_BYTES:
            self._urgent.set()
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="holdfast-frames")

    async def room(self, attempt: Attempt, streams: AttemptStreams) -> None:
        """Wait until the attempt may write more."""
        while streams.backlog >= MOST_BACKLOG and not (streams.gone or attempt.is_over):
            await self._next_round()

    async def written(self, attempt: Attempt, streams: AttemptStreams, number: int) -> bool:
        """Wait until the first so many frames of the attempt are written. Frames that come later
        are not waited for. False if some of these frames never will be written."""
        while streams.over < number and self._task is not None and attempt.stop is not Stop.LOST:
            self._urgent.set()
            await self._next_round()
        is_told = streams.over >= number and attempt.stop is not Stop.LOST
        return is_told and not streams.gone and streams.refused is None

    async def aclose(self) -> None:
        """Attempts that have ended have written everything before; nobody waits for the rest."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _next_round(self) -> None:
        await asyncio.shield(self._round)

    def _end_round(self) -> None:
        over, self._round = self._round, self._loop.create_future()
        over.set_result(None)

    async def _work(self) -> None:
        try:
            while self._dirty:
                await self._until_due()
                began, dirty = self._loop.time(), self._dirty
                rows = self._take()
                self._may_begin = began + _gap(len(rows))
                for first in range(0, len(rows), APPEND_BATCH):
                    await self._write(rows[first : first + APPEND_BATCH])
                for streams in dirty:
                    streams.over = streams.sent
                self._end_round()
        finally:
            self._task = None
            self._end_round()

    async def _until_due(self) -> None:
        wait = self._may_begin - self._loop.time()
        if wait > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._urgent.wait()
        self._urgent.clear()

    def _take(self) -> Rows:
        dirty, self._dirty, self._bytes = self._dirty, {}, 0
        rows = []
        for streams, attempt in dirty.items():
            streams.backlog = 0
            rows += [(attempt, streams, frames) for frames in streams.take()]
        return rows

    async def _write(self, rows: Rows) -> None:
        """Write these rows, unless their attempts are lost meanwhile."""
        try:
            while rows := [row for row in rows if row[0].stop is not Stop.LOST]:
                try:
                    await self._append(rows)
                except Exception as error:  # noqa: BLE001 - an outage, whatever the store says
                    self._outage.failed(APPEND, error)
                    await self._outage.pause()
                    self._end_round()  # who waits looks whether the attempt is still there
                else:
                    self._outage.over(APPEND)
                    return
        finally:
            self._outage.over(APPEND)

    async def _append(self, rows: Rows) -> None:
        """If the store refuses a batch, the rows are sent one by one: one of them is at fault, and
        only its own handler may hear of that."""
        try:
            kept = await self._streams.append([frames for *_, frames in rows])
        except RowRefused:
            kept = [await self._alone(streams, frames) for _, streams, frames in rows]
        _note(rows, kept)

    async def _alone(self, streams: AttemptStreams, frames: NewFrames) -> bool:
        try:
            [kept] = await self._streams.append([frames])
        except RowRefused as error:
            streams.refused = streams.refused or f"stream {frames.stream!r}: {error}"
            return True
        return kept


def _gap(rows: int) -> float:
    """Seconds between the beginnings of this flush, of so many rows, and the next one."""
    return min(GAP_SECONDS + GAP_SECONDS_PER_ROW * rows, LONGEST_GAP_SECONDS)


def _note(rows: Rows, kept: Sequence[bool]) -> None:
    for (_, streams, _), is_ours in zip(rows, kept, strict=True):
        if not is_ours:
            streams.gone = True
