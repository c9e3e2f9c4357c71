"""The streams of one attempt, on its worker's side: frames that wait to be written, and the rules.

- Frames are numbered when they come. Those of one section that come one after another are written
  as one row.
- The first frame of another try of a section begins a new try: its row replaces the older ones.
- A live stream is cut when it has twice as many frames as it keeps.
- Of a summary one row in `SUMMARY_FRAMES` frames is a whole document, which replaces all before it.
- What is kept of all streams of a job is bounded by `max_stream_size`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.record import Claimed
from holdfast.job.requests import CloseStream, WriteFrame
from holdfast.job.stream import LIVE_FRAMES, LIVE_SIZE, Keep, NewFrames, StreamPart, merged
from holdfast.worker.journal import TooMuch
from holdfast.worker.options import WorkerOptions

ROW_SIZE = 64 * 1024
"""Bytes of JSON in one row, unless a single frame is larger."""
ROW_FRAMES = LIVE_FRAMES // 4
"""Frames in one row. A live stream is cut between rows, so none may hold most of what it keeps."""
SUMMARY_FRAMES = 64


class _Section:
    """One section while this attempt writes it. `size` is what it takes in the store."""

    __slots__ = ("again", "document", "since", "size", "tries", "until_whole")

    def __init__(self, tries: int, since: int, *, again: bool) -> None:
        self.tries = tries
        self.since = since
        self.again = again
        self.size = 0
        self.document: Any = None
        self.until_whole = 0


class _Row:
    """Frames that will be written together."""

    __slots__ = ("closes", "first", "of", "replaces", "section", "size", "texts")

    def __init__(self, section: str, of: _Section, first: int) -> None:
        self.section = section
        self.of = of
        self.first = first
        self.texts: list[str] = []
        self.size = 0
        self.closes = False
        self.replaces = of.again and first == of.since

    def is_full(self, size: int) -> bool:
        return self.size + size > ROW_SIZE or len(self.texts) >= ROW_FRAMES

    @property
    def last(self) -> int:
        return self.first + len(self.texts) - (0 if self.closes else 1)


class _Stream:
    """One stream: `n` is the number of its next frame. Of a live stream `written` has the rows that
    the store keeps, each with its last number, its frames and its bytes."""

    __slots__ = ("closed", "keep", "n", "number", "rows", "sections", "size", "written")

    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self.n = 0
        self.closed = False
        self.rows: list[_Row] = []
        self.sections: dict[str, _Section] = {}
        self.written: deque[tuple[int, int, int]] = deque()
        self.number = self.size = 0


class AttemptStreams:
    """What the worker knows of the streams of one attempt. What earlier attempts have left is
    `loaded` before the first frame is taken, by whoever has the `lock`. `backlog` is how many bytes
    are not written yet. `refused` is why the store would not take a frame.

    Frames are counted in the order in which they come: the worker has taken `said` of them, has
    `sent` that many to the store, and the store has answered the first `over` of them."""

    __slots__ = (
        *("_inside", "_job", "_last", "_left", "_limits", "_size", "_streams"),
        *("backlog", "gone", "loaded", "lock", "over", "refused", "said", "sent"),
    )

    def __init__(self, job: Claimed, limits: WorkerOptions, *, loaded: bool) -> None:
        self._job = job
        self._limits = limits
        self._streams: dict[str, _Stream] = {}
        self._left: dict[tuple[str, str], int] = {}
        self._size = 0
        self._last: dict[str, int] = {}
        self._inside: dict[str, tuple[str, ...]] = {}
        self.said = self.sent = self.over = 0
        self.loaded = loaded
        self.lock = asyncio.Lock()
        self.backlog = 0
        self.gone = False
        self.refused: str | None = None

    @property
    def id(self) -> JobId:
        return self._job.id

    def fill(self, parts: Sequence[StreamPart]) -> None:
        self.loaded = True
        self._left = {
            (part.stream, part.section): part.size if part.keep is Keep.ALL else 0 for part in parts
        }
        self._size = sum(self._left.values())

    def write(self, request: WriteFrame) -> None:
        """Take a frame. Raises `TooMuch` if it may not be taken."""
        stream = self._open(request)
        size = len(request.data) + 1
        if size * 4 > self._limits.max_payload:  # no character takes more than four bytes
            size = len(request.data.encode()) + 1
            self._require_small(request.stream, size)
        section = self._section(stream, request)
        self._require_room(request, stream, section, size)
        row = stream.rows[-1] if stream.rows else None
        if row is None or row.of is not section or row.is_full(size):
            row = _Row(request.section, section, stream.n)
            stream.rows.append(row)
        row.texts.append(request.data)
        row.size += size
        stream.n += 1
        self.backlog += size
        self.said += 1
        if request.section:
            self._last[request.section] = self.said

    def close(self, request: CloseStream) -> None:
        """The handler writes no more to this stream. A section of a step has no end of its own:
        other steps may go on."""
        if request.section:
            return
        stream = self._open(request)
        stream.closed = True
        if not stream.rows or stream.rows[-1].section:
            section = stream.sections.get("") or self._begin(stream, request, 0)
            stream.rows.append(_Row("", section, stream.n))
        stream.rows[-1].closes = True
        stream.n += 1
        self.said += 1

    def _open(self, request: WriteFrame | CloseStream) -> _Stream:
        stream = self._streams.get(request.stream)
        if stream is None:
            stream = self._streams[request.stream] = _Stream(request.keep)
        if stream.closed:
            raise TooMuch(
                f"stream {request.stream!r} was closed, and those who followed it have gone: open "
                "it once around all that writes to it, or give the second one another name"
            )
        if stream.keep is not request.keep:
            raise TooMuch(
                f"stream {request.stream!r} keeps {stream.keep.value!r}, and cannot keep "
                f"{request.keep.value!r} in the same attempt; give the second one another name"
            )
        return stream

    def _section(self, stream: _Stream, request: WriteFrame) -> _Section:
        section = stream.sections.get(request.section)
        if section is not None and section.tries == request.tries:
            return section
        return self._begin(stream, request, request.tries)

    def _begin(self, stream: _Stream, request: WriteFrame | CloseStream, tries: int) -> _Section:
        """Begin another try of a section. What the older one takes is free again."""
        name = request.section
        older, left = stream.sections.get(name), self._left.pop((request.stream, name), None)
        again = older is not None or left is not None or (not name and self._job.fence > 1)
        self._size -= (older.size if older is not None else 0) + (left or 0)
        section = stream.sections[name] = _Section(tries, stream.n, again=again)
        return section

    def _require_small(self, stream: str, size: int) -> None:
        if size > self._limits.max_payload:
            raise TooMuch(
                f"stream {stream!r}: a frame of {size - 1} bytes of JSON is over max_payload, "
                f"{self._limits.max_payload}; write it in parts, or store it elsewhere and write a "
                "reference"
            )

    def _require_room(
        self, request: WriteFrame, stream: _Stream, section: _Section, size: int
    ) -> None:
        if stream.keep is not Keep.ALL:
            return
        limit = self._limits.max_stream_size
        if self._size + size > limit:
            raise TooMuch(
                f"stream {request.stream!r}: with this frame the streams of job {self._job.id} "
                f"take {self._size + size} bytes, and max_stream_size is {limit}; "
                'keep="live" keeps the newest frames only, keep="summary" what they come to; or '
                "raise the setting"
            )
        self._size += size
        section.size += size

    # Frames before records ----------------------------------------------------------------------

    def note_inside(self, step: str, steps: tuple[str, ...]) -> None:
        """These steps were called inside of this one, so their frames belong to it too."""
        self._inside[step] = steps

    def needed_by(self, steps: Iterable[str]) -> int:
        """How many frames the store must have before the records of these steps are written."""
        last = self._last
        names = (name for step in steps for name in (step, *self._inside.get(step, ())))
        return max((last.get(name, 0) for name in names), default=0)

    @property
    def is_behind(self) -> bool:
        """Whether a frame that a step has written is not in the store, or never will be."""
        return self.refused is not None or max(self._last.values(), default=0) > self.over

    # To be written ------------------------------------------------------------------------------

    def take(self) -> list[NewFrames]:
        """The rows to write now."""
        self.sent = self.said
        found = []
        for name, stream in self._streams.items():
            rows, stream.rows = stream.rows, []
            found += [self._made(name, stream, row) for row in rows]
        return found

    def _made(self, name: str, stream: _Stream, row: _Row) -> NewFrames:
        frames = NewFrames(
            self._job.id,
            self._job.fence,
            name,
            row.last,
            len(row.texts),
            f"[{','.join(row.texts)}]",
            stream.keep,
            row.section,
            row.of.since,
            row.of.again,
            closes=row.closes,
            replaces=row.of.since if row.replaces else None,
        )
        match stream.keep:
            case Keep.SUMMARY if row.texts:
                return self._summed_up(row, frames)
            case Keep.LIVE:
                return _cut(stream, row, frames)
            case _:
                return frames

    def _summed_up(self, row: _Row, frames: NewFrames) -> NewFrames:
        """Now and then a whole document instead of the patches that led to it."""
        section = row.of
        for text in row.texts:
            section.document = merged(section.document, msgspec.json.decode(text))
        section.until_whole -= frames.number
        if section.until_whole > 0 and not frames.closes:
            return frames
        section.until_whole = SUMMARY_FRAMES
        document = msgspec.json.encode(section.document).decode()
        if (size := len(document.encode())) > self._limits.max_payload:
            self.refused = (
                f"stream {frames.stream!r}: its summary of {size} bytes of JSON is over "
                f"max_payload, {self._limits.max_payload}; remove names from it by writing null"
            )
        return msgspec.structs.replace(
            frames, number=1, data=f"[{document}]", whole=True, replaces=frames.last
        )


def _cut(stream: _Stream, row: _Row, frames: NewFrames) -> NewFrames:
    """A live stream keeps its newest frames. It is cut when it has twice as much as it keeps, so
    that not every row removes another."""
    stream.written.append((frames.last, frames.number, row.size))
    stream.number, stream.size = stream.number + frames.number, stream.size + row.size
    if stream.number < 2 * LIVE_FRAMES and stream.size < 2 * LIVE_SIZE:
        return frames
    while len(stream.written) > 1:
        _, number, size = stream.written[0]
        if stream.number - number < LIVE_FRAMES and stream.size <= LIVE_SIZE:
            break
        stream.written.popleft()
        stream.number, stream.size = stream.number - number, stream.size - size
    return msgspec.structs.replace(frames, keeps_from=stream.written[0][0])
