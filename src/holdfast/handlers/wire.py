"""What parent and child say to each other, as JSON: nothing that is read can run code."""

from __future__ import annotations

import msgspec

from holdfast.job.ends import End, Raised
from holdfast.job.record import Claimed, Progress
from holdfast.job.text import clean

LONGEST_TEXT = 1_000_000


class Call(msgspec.Struct, frozen=True):
    """Run this job with that function."""

    module: str
    qualname: str
    task: str
    job: Claimed
    keep_result: bool


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Progress on the way, or the end."""

    progress: Progress | None = None
    end: End | None = None


encode = msgspec.json.encode
read_call = msgspec.json.Decoder(Call).decode
read_reply = msgspec.json.Decoder(Reply).decode
read_kept = msgspec.json.Decoder(bool).decode


def write_end(end: End) -> bytes:
    """JSON cannot carry a lone surrogate, which the words of an exception may hold."""
    if isinstance(end, Raised):
        end = msgspec.structs.replace(
            end,
            kind=clean(end.kind, LONGEST_TEXT),
            message=clean(end.message, LONGEST_TEXT),
            traceback=end.traceback and clean(end.traceback, LONGEST_TEXT),
        )
    return encode(Reply(end=end))
