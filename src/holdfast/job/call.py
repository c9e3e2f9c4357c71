"""Calls from a handler: how the step of a call names the flow that runs it.

A call is a flow whose parent is the job that calls. It is recorded as a step before the flow is
started, and the step names the flow, so that no later attempt starts another. The caller is told of
the end by a signal: a signal and a suspension never miss each other.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.errors import BadOption
from holdfast.job.signal import OWN_SIGNALS

CALL = f"{OWN_SIGNALS}call "
FAILED = "CallFailed"
"""The kind of error under which the step of a call is recorded that ended badly."""


def end_signal(flow: str) -> str:
    """The signal by which a caller is told that this flow has come to something."""
    return f"{CALL}{flow}"


def called_flow(awaits: str | None) -> str | None:
    """The flow that a step waits for; None if it waits for something else."""
    return None if awaits is None or not awaits.startswith(CALL) else awaits.removeprefix(CALL)


def require_users_signal(name: str) -> str:
    if name.startswith(OWN_SIGNALS):
        expected = f"one that does not begin with {OWN_SIGNALS!r}: those are sent by Holdfast"
        raise BadOption("the name of a signal", expected, name)
    return name


TASK_STEP, FLOW_STEP = "call ", "flow "
"""What the names of the steps of calls begin with."""
CallWhat = Literal["task", "tasks", "flow"]
"""What a handler calls: a task once, a task several times, or a flow."""


class CallFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a call ended badly: the job that decided it, and the error of that job. `why` says more
    where one job alone does not explain it."""

    state: str
    job: str | None = None
    task: str | None = None
    kind: str | None = None
    message: str | None = None
    why: str | None = None


class Decided(msgspec.Struct, frozen=True):
    """What the step of a call of several records: the flow, and which results were missing when it
    was decided. The others are read from the jobs, which are kept as long as their caller."""

    flow: str
    missing: frozenset[int] = frozenset()


_encoder = msgspec.json.Encoder()
_failure = msgspec.json.Decoder(CallFailure)
_decided = msgspec.json.Decoder(Decided)


def encode_recorded(what: CallFailure | Decided) -> str:
    return _encoder.encode(what).decode()


def decode_failure(text: str | None) -> CallFailure:
    return _failure.decode(text or '{"state":"failed"}')


def decode_decided(text: str) -> Decided:
    return _decided.decode(text)
