"""Streams: what a running job tells whoever follows it, frame by frame.

A stream belongs to its job and has a name. Its frames are JSON values. An attempt counts the frames
that it writes to a stream, so a *position* is the fence of the attempt and that number; positions
only grow. Frames that are written inside a step belong to the *section* of that name, all others to
the section with the empty name. A step that is tried again writes its section anew, and so does a
handler that is called again for everything outside of steps. A newer try of a section replaces the
older one: its frames never mix. Sections of recorded steps stay, because their functions are not
called again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.json_text import read_json

LONGEST_NAME = 200
"""The longest name of a stream."""
CURSOR, LONGEST_CURSOR = "the cursor of a frame, such as frame.cursor", 30
KEY_LENGTH = 8
"""Characters at the end of a job's id by which a wakeup names it: many jobs share a message."""
LIVE_FRAMES = 1_000
LIVE_SIZE = 1_048_576
"""A live stream keeps so many frames at least, unless they take more bytes than this."""


class Keep(StrEnum):
    """What a store keeps of a stream for those who come later."""

    ALL = "all"  # every frame, as long as the job
    SUMMARY = "summary"  # what the frames come to: each is a merge patch of one document
    LIVE = "live"  # the newest frames, for a minute


class NewFrames(msgspec.Struct, frozen=True, gc=False):
    """Frames of one section that an attempt writes together: `data` is a JSON list of `number`
    values, and `last` the number of the last one within the attempt.

    `since` is where this try of the section began; `again` says that there was an earlier try. A
    `whole` frame stands for all frames of its section before it. `closes`: the handler writes
    nothing more; the end has the number `last` itself. When these are written, the frames of the
    section before `replaces` are removed, and those of the whole stream before `keeps_from`.
    """

    id: JobId
    fence: int
    stream: str
    last: int
    number: int
    data: str
    keep: Keep = Keep.ALL
    section: str = ""
    since: int = 0
    again: bool = False
    whole: bool = False
    closes: bool = False
    replaces: int | None = None
    keeps_from: int | None = None

    def __repr__(self) -> str:
        return f"<{self.number} frames of stream {self.stream!r} of job {self.id}>"


class KeptFrames(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Frames as a store keeps them: see `NewFrames`. `live`: the stream keeps its newest only."""

    fence: int
    last: int
    number: int
    data: str
    section: str
    since: int
    again: bool
    whole: bool
    closes: bool
    live: bool
    at: datetime

    def __repr__(self) -> str:
        return f"<{self.number} frames up to {self.fence}.{self.last}>"

    @property
    def first(self) -> int:
        """The number of the first frame."""
        return self.last - self.number + (0 if self.closes else 1)


class FollowFrom(msgspec.Struct, frozen=True):
    """What a follower asks for: frames of a stream behind this position."""

    id: JobId
    stream: str
    fence: int = 0
    n: int = -1


class Followed(msgspec.Struct, frozen=True):
    """What there is behind a position, in order; not `live` if the job has ended or is unknown."""

    frames: list[KeptFrames]
    live: bool


class StreamPart(msgspec.Struct, frozen=True, kw_only=True):
    """One section of a stream of a job, as a store counts it. `size` is in bytes of JSON."""

    stream: str
    section: str
    keep: Keep
    number: int
    size: int
    at: datetime
    closed: bool


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a stream, as a follower gets it.

    `cursor` is where to go on after it. `restarted`: a newer try of this `section` begins with it;
    forget what came of the section before. `missed` counts frames before it that are no longer
    kept. A `whole` frame stands for all frames of its section before it. `at` is when the store got
    it.
    """

    data: Any
    cursor: str
    at: datetime
    section: str = ""
    restarted: bool = False
    missed: int = 0
    whole: bool = False

    def applied_to(self, document: Any) -> Any:
        """What a document is after this frame, where the stream keeps its summary."""
        if self.whole:
            return self.data
        return merged(None if self.restarted else document, self.data)


def merged(document: Any, patch: Any) -> Any:
    """The document after a merge patch (RFC 7396): objects are merged, None removes a name, and
    anything else replaces.

    >>> merged({"done": 1, "of": 9}, {"done": 2, "of": None})
    {'done': 2}
    """
    if not isinstance(patch, dict):
        return patch
    found = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def read_cursor(job: JobId, stream: str, cursor: str | None) -> FollowFrom:
    """Where to go on. Raises `BadOption` if the text is no cursor of a frame."""
    if cursor is None:
        return FollowFrom(job, stream)
    checks.kind("after", cursor, str, CURSOR)
    fence, dot, n = cursor.partition(".")
    if not (dot and fence.isdecimal() and n.isdecimal() and len(cursor) <= LONGEST_CURSOR):
        raise BadOption("after", CURSOR, cursor)
    return FollowFrom(job, stream, int(fence), int(n))


class FrameReader:
    """Turns what a store keeps into frames, for one follower.

    It remembers the try of each section that it has given frames of, so it knows when a newer one
    begins. A follower that resumes from a cursor has forgotten that; what is stored then says
    whether the try began after the cursor and was not the first.
    """

    def __init__(self, start: FollowFrom) -> None:
        self.position = start
        self._resumed = start if start.n >= 0 else None
        self._tries: dict[str, tuple[int, int]] = {}

    def of(self, kept: KeptFrames) -> Iterator[Frame]:
        """The frames among these that the follower has not had."""
        behind, number = self._missing(kept), kept.first
        restarted = self._restarts(kept)
        for value in read_json("frames of a stream", kept.data):
            place = kept.last - kept.closes if kept.whole else number
            number += 1
            if self._has_had(kept.fence, place):
                continue
            self._move(kept.fence, place)
            yield Frame(
                data=value,
                cursor=f"{kept.fence}.{place}",
                at=kept.at,
                section=kept.section,
                restarted=restarted,
                missed=behind,
                whole=kept.whole,
            )
            restarted, behind = False, 0
        self._move(kept.fence, kept.last)

    def _missing(self, kept: KeptFrames) -> int:
        """How many frames of this attempt are gone that the follower has not had. Frames that a
        newer try replaced are not missed: the follower would have to forget them."""
        if not kept.live or kept.again:
            return 0
        had = self.position.n if self.position.fence == kept.fence else -1
        return max(0, kept.first - had - 1)

    def _restarts(self, kept: KeptFrames) -> bool:
        era, known = (kept.fence, kept.since), self._tries.get(kept.section)
        self._tries[kept.section] = era
        if known is not None:
            return known != era
        start = self._resumed
        return start is not None and kept.again and era > (start.fence, start.n)

    def _has_had(self, fence: int, n: int) -> bool:
        return (fence, n) <= (self.position.fence, self.position.n)

    def _move(self, fence: int, n: int) -> None:
        if not self._has_had(fence, n):
            self.position = msgspec.structs.replace(self.position, fence=fence, n=n)
