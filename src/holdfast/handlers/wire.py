"""The conversation of `job/requests.py` as JSON, for a handler in a child process.

The parent sends a `Call`. The child sends requests, each of which the parent answers, and at last
the `End` of the attempt. Nothing that is read can run code.
"""

from __future__ import annotations

import msgspec

from holdfast.job.ends import DoesNotFit, End, Raised
from holdfast.job.record import Claimed
from holdfast.job.requests import Answer, Request
from holdfast.job.text import clean

LONGEST_TEXT = 1_000_000


class Call(msgspec.Struct, frozen=True):
    """Run this job with that function, inside these hooks. Functions are named by module and
    qualified name. `carried` is what hooks of the worker hand on."""

    module: str
    qualname: str
    task: str
    job: Claimed
    keep_result: bool
    hooks: tuple[tuple[str, str], ...] = ()
    carried: dict[str, str] = {}


FromChild = Request | End

encode = msgspec.json.encode
read_call = msgspec.json.Decoder(Call).decode
_answers: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
_messages: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)
read_answer = _answers.decode
read_message = _messages.decode


def write_end(end: End) -> bytes:
    """JSON cannot carry a lone surrogate, which the message of an exception may hold."""
    if isinstance(end, Raised):
        end = msgspec.structs.replace(
            end,
            kind=clean(end.kind, LONGEST_TEXT),
            message=clean(end.message, LONGEST_TEXT),
            traceback=end.traceback and clean(end.traceback, LONGEST_TEXT),
        )
    if isinstance(end, DoesNotFit):
        end = DoesNotFit(clean(end.problem, LONGEST_TEXT))
    return encode(end)
