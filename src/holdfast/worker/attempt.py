"""One attempt while this worker holds it: the job, its handler, and whether it must stop."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from holdfast.context import StopReason
from holdfast.handlers.registry import Handler, Mode
from holdfast.job.ends import End
from holdfast.job.passing import Passed
from holdfast.job.policy import Policy, decode_policy
from holdfast.job.record import Claimed
from holdfast.job.requests import Answer, Request
from holdfast.job.sealed import MARK, require_open
from holdfast.job.transition import Transition
from holdfast.worker.job_events import Observed
from holdfast.worker.journal import Journal
from holdfast.worker.streams import AttemptStreams

NEVER = math.inf
NOTHING: Mapping[str, int] = MappingProxyType({})


class Stop(Enum):
    """Why a handler must not go on."""

    CANCEL = "cancel"  # somebody asked for it
    TIMEOUT = "timeout"  # the attempt used up its time
    DEADLINE = "deadline"  # the job's deadline passed
    HANDBACK = "hand_back"  # the worker is leaving
    LOST = "lost"  # the attempt is no longer this worker's: its end is not written

    @property
    def is_final(self) -> bool:
        """Whether the attempt is over even if its handler goes on."""
        return self in (Stop.TIMEOUT, Stop.DEADLINE, Stop.LOST)


LOST = Stop.LOST
"""As a plain name, for what is asked of every attempt."""


class Answers(Protocol):
    """Who answers the requests of handlers (`Answering`)."""

    async def answer(self, attempt: Attempt, request: Request) -> Answer: ...

    def answer_sync(self, attempt: Attempt, request: Request) -> Answer: ...

    async def end(self, attempt: Attempt, end: End) -> End: ...

    async def finish_within(self, attempt: Attempt, connection: object, result: object) -> bool: ...

    def finish_within_sync(self, attempt: Attempt, connection: object, result: object) -> bool: ...


class Attempt:
    """A claimed job with its handler; also the `AttemptLink` of its context.

    `since` is when the job came from the store, and `ends_by` when its time is over; both are on
    the loop's clock. `task` is the slot that runs the handler, while it does. `begun` says that the
    function was called: before that, the attempt may wait for a slot, a thread or a child.
    `weight` is how many attempts this one stands for when it is measured, 0 if it is not chosen for
    that: another one stands for it. `began_at` and `over_at` are when the function was called and
    when it ended, on the monotonic clock, if somebody wants to know. `stuck` says that the attempt
    was ended while its handler still holds its slot. `on_loop` says that a plain function is not
    running: hooks or resources around it are, on the loop. `observed` is there only while somebody
    subscribes to job events. `taken` is the end that the handler itself has written in a
    transaction of its own, which may be open still. `error` is what the handler raised in this
    process, until its failure is reported. `journal` is there once the handler has said something
    of a step, and `streams` once it has written to one. `passed` is what the job passes, once the
    handler has named a limit, and `spent` what it has reported of budgets.
    """

    __slots__ = (
        "_answers",
        "began_at",
        "begun",
        "cancel_requested",
        "ended",
        "ends_by",
        "error",
        "handler",
        "job",
        "journal",
        "observed",
        "on_loop",
        "over_at",
        "passed",
        "policy",
        "since",
        "spent",
        "stop",
        "streams",
        "stuck",
        "taken",
        "task",
        "weight",
    )

    def __init__(self, job: Claimed, handler: Handler, answers: Answers, now: float) -> None:
        self.job = job
        self.handler = handler
        self._answers = answers
        self.since = now
        self.policy: Policy = decode_policy(job.policy)
        if job.args.startswith(MARK):
            require_open(job.args)
        self.stop: Stop | None = None
        self.cancel_requested = False
        self.begun = False
        self.weight = 0
        self.began_at = self.over_at = 0.0
        self.ended = False
        self.stuck = False
        self.on_loop = False
        self.taken: Transition | None = None
        self.task: asyncio.Task[None] | None = None
        self.observed: Observed | None = None
        self.error: BaseException | None = None
        self.journal: Journal | None = None
        self.streams: AttemptStreams | None = None
        self.passed: Passed | None = None
        self.spent: Mapping[str, int] = NOTHING
        timeout = self.policy.timeout
        self.ends_by = NEVER if timeout is None else now + timeout
        if job.deadline_at is not None and not self._is_past_its_start:
            self._set_deadline(now, (job.deadline_at - job.claimed_at).total_seconds())

    def _set_deadline(self, now: float, left: float) -> None:
        """`left` was measured by the store's clock; from now on the loop's clock counts it."""
        if left <= 0:
            self.stop = Stop.DEADLINE
        self.ends_by = min(self.ends_by, now + left)

    def begin(self) -> None:
        """The function is called now. A deadline that bounds only the start is met by that."""
        if not self.begun:
            self.begun, self.began_at = True, time.monotonic()
        if self.job.deadline_at is not None and self.policy.start_only:
            timeout = self.policy.timeout
            self.ends_by = NEVER if timeout is None else self.since + timeout

    @property
    def _is_past_its_start(self) -> bool:
        return self.policy.start_only and (self.begun or self.job.attempts > 0)

    def overdue_by(self) -> Stop:
        """Whether running out of time means the attempt's own limit or the job's deadline."""
        job, timeout = self.job, self.policy.timeout
        if job.deadline_at is None or self._is_past_its_start:
            return Stop.TIMEOUT
        left = (job.deadline_at - job.claimed_at).total_seconds()
        return Stop.TIMEOUT if timeout is not None and timeout < left else Stop.DEADLINE

    @property
    def is_deaf(self) -> bool:
        """Whether a thread runs the handler, which cannot be cancelled."""
        return self.handler.mode is Mode.THREAD and not self.on_loop

    def tell_to_stop(self, why: Stop) -> None:
        """Stop the handler in the way its kind allows.

        A coroutine is cancelled where it waits. A child process is killed by the
        slot that waits for it. A thread can only ask whether to stop, and its slot waits for it.
        """
        if why is Stop.CANCEL:
            self.cancel_requested = True
        if self.stop is None or why is Stop.LOST:
            self.stop = why
        patient = why is Stop.CANCEL or why is Stop.HANDBACK
        if self.task is not None and not (patient and self.is_deaf):
            self.task.cancel()

    @property
    def must_stop(self) -> bool:
        return self.stop is not None

    @property
    def stop_reason(self) -> StopReason | None:
        return None if self.stop is None else self.stop.value

    @property
    def is_over(self) -> bool:
        return self.ended or self.stop is Stop.LOST

    async def end(self, end: End) -> End:
        """The end of the handler, once everything is written that it has said before."""
        return await self._answers.end(self, end)

    def ask(self, request: Request) -> Coroutine[Any, Any, Answer]:
        return self._answers.answer(self, request)

    def ask_sync(self, request: Request) -> Answer:
        return self._answers.answer_sync(self, request)

    async def finish_within(self, connection: object, result: object) -> bool:
        return await self._answers.finish_within(self, connection, result)

    def finish_within_sync(self, connection: object, result: object) -> bool:
        return self._answers.finish_within_sync(self, connection, result)


def with_spent(attempt: Attempt, move: Transition) -> Transition:
    """The same end, with what the handler has reported of budgets."""
    if not attempt.spent:
        return move
    return msgspec.structs.replace(move, spent=tuple(attempt.spent.items()))


def with_records(attempt: Attempt, move: Transition) -> Transition:
    """The same end, with the records of steps that are written with it. An end that did not wait
    for the frames of steps has no records of them: the next attempt calls those steps again."""
    if (journal := attempt.journal) is None:
        return move
    if attempt.streams is not None and attempt.streams.is_behind:
        journal.take()
    return journal.complete(move)
