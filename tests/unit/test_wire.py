"""handlers/wire.py: every word between a worker and its child crosses as JSON and comes back."""

from __future__ import annotations

from types import UnionType
from typing import get_args

import pytest

from holdfast.clock import utcnow
from holdfast.handlers import wire
from holdfast.job.call import CallFailure
from holdfast.job.ends import End, Raised, Returned
from holdfast.job.ids import new_job_id
from holdfast.job.record import Progress
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    CallFound,
    CallStarted,
    ChildFound,
    CloseStream,
    ExtendFlow,
    FindCall,
    FindChild,
    FindNodes,
    FindStep,
    FlowGrown,
    FrameRefused,
    FrameTaken,
    KeepStep,
    LeaveHandler,
    NodesFound,
    PermitsTaken,
    ProgressKept,
    RecordRefused,
    ReportProgress,
    ReportSpend,
    Request,
    RequestRefused,
    SignalsTaken,
    SignTokens,
    SpendKept,
    StartCall,
    StartChild,
    StepFound,
    StepKept,
    TakePermits,
    TakeSignals,
    TakeVotes,
    TokensSigned,
    VotesTaken,
    Wait,
    WaitOver,
    WriteFrame,
)
from holdfast.job.step import Step, StepRecord
from holdfast.job.stream import Keep
from holdfast.job.vote import Vote

RECORD = StepRecord(new_job_id(), 2, "pay", 3, result="{}", version="b")
STEP = Step(name="nap", n=1, fence=2, tries=1, at=utcnow(), until=utcnow())
REQUESTS: list[Request] = [
    ReportProgress(Progress(0.5, "half", '{"at":5}')),
    TakePermits("github", 3, "ann"),
    ReportSpend("tokens", 1_200),
    FindStep("pay"),
    KeepStep(RECORD, lazy=True),
    Wait(RECORD),
    TakeSignals({"paid": "paid#2"}, 1, 2),
    SignTokens("leads", ("ann", "bob")),
    TakeVotes("leads", ("ann", "bob")),
    WriteFrame("tokens", Keep.LIVE, "draft", 2, '"a"'),
    CloseStream("tokens", Keep.ALL, ""),
    FindNodes(("a",)),
    ExtendFlow("{}"),
    FindChild(),
    StartChild("{}"),
    StartCall("call render", "{}"),
    FindCall("call render", "flow", "tasks", "{}"),
]
ANSWERS: list[Answer] = [
    ProgressKept(),
    PermitsTaken(0.5),
    SpendKept(),
    StepFound(STEP),
    StepKept(),
    SignalsTaken({"paid": '{"cents":1}'}, ("note",)),
    TokensSigned({"ann": "hf1"}),
    TokensSigned(None),
    VotesTaken((Vote("ann", True, utcnow(), "ok"),), ("approval x",), True, utcnow()),
    FrameTaken(),
    FrameRefused("too large"),
    RecordRefused("too many"),
    WaitOver(),
    LeaveHandler(),
    NodesFound("flow", "album", {"a": "job"}),
    FlowGrown("grown"),
    ChildFound("flow", Returned("42")),
    CallStarted(),
    CallFound(results=("42", None), failure=CallFailure("failed", "job"), takes=3),
    AttemptGone(),
    RequestRefused("no halves"),
]


def members(union: object) -> set[object]:
    return set(get_args(union)) if isinstance(union, UnionType) else {union}


def test_every_request_and_answer_is_in_the_lists_above() -> None:
    assert {type(request) for request in REQUESTS} == members(Request)
    assert {type(answer) for answer in ANSWERS} == members(Answer)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_a_request_arrives_as_it_was_sent(request_: Request) -> None:
    assert wire.read_message(wire.encode(request_)) == request_


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: type(one).__name__)
def test_an_answer_arrives_as_it_was_sent(answer: Answer) -> None:
    assert wire.read_answer(wire.encode(answer)) == answer


@pytest.mark.parametrize("end", [Returned("42"), Raised("ValueError", "boom", "Traceback …")])
def test_an_end_arrives_as_it_was_sent_and_is_no_request(end: End) -> None:
    arrived = wire.read_message(wire.write_end(end))
    assert arrived == end
    assert not isinstance(arrived, Request)


def test_no_request_shares_its_name_with_an_end() -> None:
    """Both travel in one union, and their names tell them apart."""
    assert not members(Request) & members(End)
    names = [cls.__name__ for cls in (*members(Request), *members(End)) if isinstance(cls, type)]
    assert len(names) == len(set(names))
