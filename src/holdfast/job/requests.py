"""What a handler may ask of its worker while it runs, and what it is answered.

It is one conversation, whether the handler runs on the event loop, in a thread, in a child
process or in a test: the handler's `Context` sends one `Request` and waits for one `Answer`. The
last word of a handler is the `End` of its attempt (`ends.py`).

To let handlers ask for something new: add its request and its answer here, send it from
`Context`, and answer it in `worker/answering.py`. `handlers/inline.py` answers without a worker.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.job.call import CallFailure, CallWhat
from holdfast.job.ends import Cancelled, Raised, Returned
from holdfast.job.record import Progress
from holdfast.job.step import Step, StepRecord
from holdfast.job.stream import Keep
from holdfast.job.vote import Vote


class ReportProgress(msgspec.Struct, frozen=True, tag=True):
    """Keep this progress with the job."""

    progress: Progress


class FindNodes(msgspec.Struct, frozen=True, tag=True):
    """Which of these names has the flow that the job belongs to?"""

    names: tuple[str, ...]


class ExtendFlow(msgspec.Struct, frozen=True, tag=True):
    """Add this to the flow: a `holdfast.flow.model.Growth` as JSON."""

    growth: str


class FindChild(msgspec.Struct, frozen=True, tag=True):
    """Has an earlier attempt of the job started a flow, and how has that ended?"""


class StartChild(msgspec.Struct, frozen=True, tag=True):
    """Start this flow as the child of the job: a `holdfast.flow.model.NewFlow` as JSON."""

    flow: str


class StartCall(msgspec.Struct, frozen=True, tag=True):
    """Record that this step calls, and start the call: a `holdfast.flow.model.NewFlow` as JSON."""

    step: str
    flow: str


class FindCall(msgspec.Struct, frozen=True, tag=True):
    """Say what the flow of a call has come to, and record it under the name of the step.
    `recorded`: what an earlier attempt has recorded."""

    step: str
    flow: str
    what: CallWhat
    recorded: str | None = None


class FindStep(msgspec.Struct, frozen=True, tag=True):
    """Say what an earlier attempt recorded under this name."""

    name: str


class KeepStep(msgspec.Struct, frozen=True, tag=True):
    """Write this record down before the answer. A `lazy` record is written with the next one, or
    with the end of the attempt. `inside` names the steps that were called inside of this one."""

    record: StepRecord
    lazy: bool = False
    inside: tuple[str, ...] = ()


class Wait(msgspec.Struct, frozen=True, tag=True):
    """The handler wants to wait for as long as this record says, without its slot."""

    record: StepRecord


class TakeSignals(msgspec.Struct, frozen=True, tag=True):
    """Take kept signals, of each name the oldest, and record the value of each under the name of
    its step. If signals of fewer than `least` names are kept, none is taken; of more than `most`
    names those that came first."""

    steps: dict[str, str]  # the step of each signal
    least: int = 1
    most: int = 1


class SignTokens(msgspec.Struct, frozen=True, tag=True):
    """Sign a token for each of these people, whom a wait of the job asks. It is answered without a
    wait, also on the loop."""

    wait: str
    people: tuple[str, ...]


class TakeVotes(msgspec.Struct, frozen=True, tag=True):
    """Take those kept votes of these people on the wait whose proof holds, and record each as a
    step."""

    wait: str
    people: tuple[str, ...]


class WriteFrame(msgspec.Struct, frozen=True, tag=True):
    """Write a frame, JSON text, to a stream. It may be written later, with others. `section` is the
    step whose function writes it, and `tries` how often that was called; '' and 0 outside of
    steps."""

    stream: str
    keep: Keep
    section: str
    tries: int
    data: str


class CloseStream(msgspec.Struct, frozen=True, tag=True):
    """Write down all frames of the attempt before the answer. Outside of steps the handler writes
    no more to this stream, and followers are told so."""

    stream: str
    keep: Keep
    section: str


class TakePermits(msgspec.Struct, frozen=True, tag=True):
    """Take units of a limit: of the bucket with this key, or of the one that the job passes."""

    limit: str
    units: int
    key: str | None = None


class ReportSpend(msgspec.Struct, frozen=True, tag=True):
    """Keep that the attempt has spent so much more of a budget."""

    limit: str
    units: int


Request = (
    ReportProgress
    | TakePermits
    | ReportSpend
    | FindStep
    | KeepStep
    | Wait
    | TakeSignals
    | SignTokens
    | TakeVotes
    | FindNodes
    | ExtendFlow
    | FindChild
    | StartChild
    | StartCall
    | FindCall
    | WriteFrame
    | CloseStream
)


class ProgressKept(msgspec.Struct, frozen=True, tag=True):
    """The store has written the progress down."""


class PermitsTaken(msgspec.Struct, frozen=True, tag=True):
    """The permits are taken. With `wait` they are not: there may be room so many seconds later."""

    wait: float | None = None


class SpendKept(msgspec.Struct, frozen=True, tag=True):
    """The store has written down what was spent."""


class NodesFound(msgspec.Struct, frozen=True, tag=True):
    """The flow, and the ids of those of its nodes that were asked for, by name. `anew`: how often
    what the node had added was removed. `maps`: those of the names that make elements, each with
    those of the names that wait for it. `defaults`: what the flow says of the nodes that are added,
    as JSON."""

    flow: str
    flow_name: str
    nodes: dict[str, str]
    anew: int = 0
    maps: dict[str, tuple[str, ...]] = {}
    defaults: str | None = None


class FlowGrown(msgspec.Struct, frozen=True, tag=True):
    """What became of the growth: a word of `holdfast.flow.model.Grown`."""

    how: str


class ChildFound(msgspec.Struct, frozen=True, tag=True):
    """The flow that the job has started, or starts now; None if there is none. `end`: what its end
    means for the job; None while it is live."""

    flow: str | None
    end: Returned | Raised | Cancelled | None = None


class CallStarted(msgspec.Struct, frozen=True, tag=True):
    """The call is recorded and runs."""


class CallFound(msgspec.Struct, frozen=True, tag=True):
    """What a call has come to. With `is_open` it has not come to anything yet, and if it was never
    started, `is_known` is False. `results` are JSON, None for one that did not succeed. `takes` is
    the number of the signal that told of an end which is none any more."""

    is_known: bool = True
    is_open: bool = False
    results: tuple[str | None, ...] = ()
    failure: CallFailure | None = None
    takes: int | None = None


class StepFound(msgspec.Struct, frozen=True, tag=True):
    """What was recorded, or None."""

    step: Step | None


class StepKept(msgspec.Struct, frozen=True, tag=True):
    """The record is written, or will be."""


class SignalsTaken(msgspec.Struct, frozen=True, tag=True):
    """The values of the signals that were taken, as JSON by name, in the order in which they came.
    If none was taken, `kept` names those that are there."""

    values: dict[str, str]
    kept: tuple[str, ...] = ()


class TokensSigned(msgspec.Struct, frozen=True, tag=True):
    """The token of each person; None if the worker has no keys to sign by."""

    tokens: dict[str, str] | None


class VotesTaken(msgspec.Struct, frozen=True, tag=True):
    """The `votes` of the people that are recorded and proven: of each person the newest, in the
    order in which they came. `took` says that some were taken right now: more may have come since.
    `awaited` has the signals of everybody else: an answer under that name is looked at next.
    `until` is the end of the wait, if an earlier attempt has begun it with a timeout."""

    votes: tuple[Vote, ...]
    awaited: tuple[str, ...]
    took: bool = False
    until: datetime | None = None


class RecordRefused(msgspec.Struct, frozen=True, tag=True):
    """Nothing was done: the record is over a limit of the program."""

    message: str


class FrameTaken(msgspec.Struct, frozen=True, tag=True):
    """The worker has taken the frame, or has closed the stream."""


class FrameRefused(msgspec.Struct, frozen=True, tag=True):
    """Nothing was done: the frame is over a limit of the program, or cannot be added to its
    stream."""

    message: str


class WaitOver(msgspec.Struct, frozen=True, tag=True):
    """The handler may go on at once."""


class LeaveHandler(msgspec.Struct, frozen=True, tag=True):
    """The handler is to be left. It is called again when the wait is over."""


class AttemptGone(msgspec.Struct, frozen=True, tag=True):
    """Nothing was done: the attempt is no longer this worker's own. It may answer any request."""


class RequestRefused(msgspec.Struct, frozen=True, tag=True):
    """The store cannot take a value of the request, and never will. It may answer any request."""

    message: str


Answer = (
    ProgressKept
    | PermitsTaken
    | SpendKept
    | StepFound
    | StepKept
    | SignalsTaken
    | TokensSigned
    | VotesTaken
    | RecordRefused
    | FrameTaken
    | FrameRefused
    | WaitOver
    | LeaveHandler
    | NodesFound
    | FlowGrown
    | ChildFound
    | CallStarted
    | CallFound
    | AttemptGone
    | RequestRefused
)
