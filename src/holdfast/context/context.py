"""One attempt, as its handler sees it.

A handler that names a parameter `ctx: Context` receives one; a handler that does not costs
nothing. The context reaches the worker only through an `AttemptLink`, so the same class serves
coroutines, threads, child processes and tests.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Generator, Mapping, MutableMapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec

from holdfast.context.calls import CallsTasks
from holdfast.context.current import CurrentJob, view_of
from holdfast.context.growth import GrowsFlow, make_growth
from holdfast.context.link import AttemptLink, AttemptLost, StopReason
from holdfast.context.spending import Spending
from holdfast.context.streaming import Streaming
from holdfast.errors import BadFlow, BadOption, RowRefused, StepRefused, StreamRefused
from holdfast.job.json_text import read_json
from holdfast.job.policy import decode_policy
from holdfast.job.record import Claimed, Progress
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    FrameRefused,
    RecordRefused,
    ReportProgress,
    Request,
    RequestRefused,
)
from holdfast.job.sealed import told_apart
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.job.ties import Tie

logger = logging.getLogger("holdfast.handler")
T = TypeVar("T")
REFUSALS = (AttemptGone, RequestRefused, RecordRefused, FrameRefused)
NOTHING: Mapping[str, str] = MappingProxyType({})


class Context(CallsTasks, Streaming, Spending):
    """One attempt, seen from inside the handler."""

    __slots__ = ("_flow", "_job", "_link", "_log", "carried")

    def __init__(
        self, claimed: Claimed, link: AttemptLink, carried: Mapping[str, str] = NOTHING
    ) -> None:
        """`carried` is what hooks of the worker handed on to this child process (`app.to_child`).
        Elsewhere it is empty."""
        self._claimed = claimed
        self._runner = self._step = self._step_sync = None
        self._link = link
        self.carried = carried
        self._job: CurrentJob | None = None
        self._log: JobLog | None = None
        self._flow: GrowsFlow | None = None

    @property
    def job(self) -> CurrentJob:
        if self._job is None:
            self._job = view_of(self._claimed)
        return self._job

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self._claimed.attempts + 1

    @property
    def max_attempts(self) -> int | None:
        """How many attempts the job may have; None where it is tried for ever."""
        return decode_policy(self._claimed.policy).retry.max_attempts

    @property
    def fence(self) -> int:
        """Grows with every claim of this job: pass it on to fence writes elsewhere."""
        return self._claimed.fence

    @property
    def claimed_at(self) -> datetime:
        """When the worker got this attempt, by the store's clock."""
        return self._claimed.claimed_at

    @property
    def cancelled(self) -> bool:
        """Whether to stop now. A coroutine is cancelled besides; a thread must ask this."""
        return self._link.must_stop

    @property
    def stop_reason(self) -> StopReason | None:
        """Why to stop: `cancel`, `timeout`, `deadline`, `hand_back` (the worker leaves) or `lost`.
        None while the attempt may go on."""
        return self._link.stop_reason

    def check_cancelled(self) -> None:
        """Raise `asyncio.CancelledError` if the attempt should stop.

        The same exception a coroutine gets, so clean-up is written alike, and no
        `except Exception` on the way swallows it.
        """
        if self._link.must_stop:
            raise asyncio.CancelledError(f"job {self._claimed.id} was told to stop")

    def require_own(self) -> None:
        """Raise `AttemptLost` if nothing that the attempt still does may count."""
        if self._link.is_over:
            raise AttemptLost(self._claimed.id, self._claimed.fence)

    @property
    def checkpoint(self) -> Any:
        """What an earlier attempt saved with `progress(checkpoint=…)`, or None."""
        saved = self._claimed.checkpoint
        return None if saved is None else read_json("checkpoint", saved)

    async def progress(
        self, fraction: float | None = None, message: str | None = None, checkpoint: object = None
    ) -> None:
        """Say how far the job is. Many calls share a round trip.

        What is left out keeps its value; `checkpoint` (any JSON) is there for the next attempt.
        Raises `AttemptLost` when the attempt is no longer this worker's own.
        """
        await self.ask(_progress(fraction, message, checkpoint))

    def progress_sync(
        self, fraction: float | None = None, message: str | None = None, checkpoint: object = None
    ) -> None:
        """`progress` for plain functions, in a thread or a process."""
        self.ask_sync(_progress(fraction, message, checkpoint))

    async def finish_within(self, connection: object, result: object = None) -> None:
        """Record in the open transaction of this connection that the job has succeeded: your rows
        and the end of the job are committed together, or neither is.

        What the handler returns afterwards is not kept: `result` is. If the transaction is
        rolled back, the attempt has failed, and is tried again as the job's policy says. Raises
        `AttemptLost` when the attempt is no longer this worker's own: roll back then.
        """
        self._still_own(await self._link.finish_within(connection, result))

    def finish_within_sync(self, connection: object, result: object = None) -> None:
        """`finish_within` for plain functions in a thread, whose drivers need no loop."""
        self._still_own(self._link.finish_within_sync(connection, result))

    @property
    def flow(self) -> GrowsFlow:
        """The flow that this job is a node of, to be added to: `ctx.flow.add(task, …)`, and then
        `await ctx.flow.extend()`."""
        if self._flow is None:
            if not self._claimed.ties & Tie.NODE:
                raise BadFlow(
                    f"job {self._claimed.id} is no node of a flow, so nothing can be added to one: "
                    "start it by flow = app.flow(…), flow.add(task, …), await flow.start()"
                )
            self._flow = make_growth(self)
        return self._flow

    async def converse(self, asking: Generator[Request, Answer, T]) -> T:
        """Send what the generator yields to the worker, and give it the answers, to its end. So
        one generator serves coroutines and plain functions."""
        answer: Answer | None = None
        try:
            while True:
                answer = await self._link.ask(_next(asking, answer))
        except _Over as over:
            return cast("T", over.value)

    def converse_sync(self, asking: Generator[Request, Answer, T]) -> T:
        """`converse` for plain functions, in a thread or a process."""
        answer: Answer | None = None
        try:
            while True:
                answer = self._link.ask_sync(_next(asking, answer))
        except _Over as over:
            return cast("T", over.value)

    def _still_own(self, own: bool) -> None:
        if not own:
            raise AttemptLost(self._claimed.id, self._claimed.fence)

    async def ask(self, request: Request) -> Answer:
        """The worker's answer. An answer that refuses the request is raised."""
        return self._granted(await self._link.ask(request))

    def ask_sync(self, request: Request) -> Answer:
        """The same for a handler outside the event loop."""
        return self._granted(self._link.ask_sync(request))

    def _granted(self, answer: Answer) -> Answer:
        if not isinstance(answer, REFUSALS):
            return answer
        match answer:
            case AttemptGone():
                raise AttemptLost(self._claimed.id, self._claimed.fence)
            case RequestRefused(message):
                raise RowRefused(message)
            case RecordRefused(message):
                raise StepRefused(message)
            case FrameRefused(message):
                raise StreamRefused(message)

    @property
    def log(self) -> JobLog:
        """A logger whose records carry the job's id, task, queue, attempt and fence."""
        if self._log is None:
            claimed = self._claimed
            self._log = JobLog(
                logger,
                {
                    "job_id": claimed.id,
                    "task": claimed.task,
                    "queue": claimed.queue,
                    "attempt": claimed.attempt,
                    "fence": claimed.fence,
                },
            )
        return self._log


class _Over(Exception):
    """A conversation has come to its end. (A `StopIteration` cannot leave a coroutine.)"""

    def __init__(self, value: object) -> None:
        self.value = value


def _next(asking: Generator[Request, Answer, Any], answer: Answer | None) -> Request:
    try:
        return next(asking) if answer is None else asking.send(answer)
    except StopIteration as end:
        raise _Over(end.value) from None


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """Adds the job's fields to every record, beside those the caller gives."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def _progress(fraction: float | None, message: str | None, checkpoint: object) -> ReportProgress:
    if fraction is not None and not (math.isfinite(fraction) and 0 <= fraction <= 1):
        raise BadOption("progress", "a fraction between 0 and 1", fraction)
    saved = None if checkpoint is None else told_apart(msgspec.json.encode(checkpoint).decode())
    shown = None if message is None else clean(message, MESSAGE_LIMIT)
    return ReportProgress(Progress(fraction, shown, saved))
