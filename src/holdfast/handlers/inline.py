"""One attempt without a worker: the job is run where it is asked for, and no store knows of it.

Arguments and result go through the same encoding as on their way through a store.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from secrets import token_bytes
from typing import Any, assert_never

import msgspec

from holdfast.clock import utcnow
from holdfast.context import HOLDER, Context, JobHolder, StopReason
from holdfast.encryption.keyring import KEY_BYTES, Keyring
from holdfast.encryption.signing import Signer
from holdfast.handlers.registry import Handler, Mode
from holdfast.job.policy import decode_policy
from holdfast.job.record import Claimed, NewJob, Progress
from holdfast.job.requests import (
    Answer,
    CloseStream,
    ExtendFlow,
    FindCall,
    FindChild,
    FindNodes,
    FindStep,
    FrameTaken,
    KeepStep,
    PermitsTaken,
    ProgressKept,
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
from holdfast.job.step import StepRecord
from holdfast.job.vote import Invited

NO_FLOW = "this job runs without a worker, and no flow has it: start its flow in a store"
Plainly = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a plain function for a caller that has a loop: in a thread, or on the spot."""


class OutOfTime(TimeoutError):
    """An attempt ran for longer than its timeout."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"timed out after {seconds:g} s")
        self.seconds = seconds


class InlineAttempt:
    """One attempt of a job, by default its first. It is also the link of its context: it answers as
    a worker whose store takes everything, and keeps what the handler reported. No earlier attempt
    has recorded steps, and whoever sleeps goes on at once. `checkpoint` is what an earlier attempt
    saved, as JSON text."""

    is_over = False

    def __init__(
        self, handler: Handler, job: NewJob, *, number: int = 1, checkpoint: str | None = None
    ) -> None:
        self.handler = handler
        self.claimed = _claimed(job, utcnow(), number, checkpoint)
        self.reports: list[Progress] = []
        self.steps: list[StepRecord] = []
        self.spent: dict[str, int] = {}
        self._finished: list[object] = []
        self._context = Context(self.claimed, self)
        self._ends_by = math.inf
        self._was_told = False

    @property
    def must_stop(self) -> bool:
        """Whether the time of the attempt is over. A handler that was told so has timed out,
        whatever it then does, and however late the loop's own timer is."""
        self._was_told = self._was_told or time.monotonic() >= self._ends_by
        return self._was_told

    @property
    def stop_reason(self) -> StopReason | None:
        return "timeout" if self.must_stop else None

    async def ask(self, request: Request) -> Answer:
        return self.ask_sync(request)

    def ask_sync(self, request: Request) -> Answer:
        match request:
            case ReportProgress() | ReportSpend() | KeepStep():
                return self._kept(request)
            case TakePermits():
                return PermitsTaken()  # no other could take them
            case FindStep():
                return StepFound(None)
            case TakeSignals():
                return SignalsTaken({})  # nobody can send anything
            case SignTokens(wait, people):
                sign = Signer(Keyring({"inline": token_bytes(KEY_BYTES)})).token
                asked = {who: Invited(self.claimed.id, wait, who) for who in people}
                return TokensSigned({who: sign(one) for who, one in asked.items()})
            case TakeVotes(wait, people):
                asked = {who: Invited(self.claimed.id, wait, who) for who in people}
                return VotesTaken((), tuple(one.signal for one in asked.values()))
            case Wait():
                return WaitOver()  # nobody sleeps here
            case WriteFrame() | CloseStream():
                return FrameTaken()  # nobody can follow
            case FindNodes() | ExtendFlow() | FindChild() | StartChild() | StartCall() | FindCall():
                return RequestRefused(NO_FLOW)
        assert_never(request)

    def _kept(self, request: ReportProgress | ReportSpend | KeepStep) -> Answer:
        match request:
            case ReportProgress(progress):
                self.reports.append(progress)
                return ProgressKept()
            case ReportSpend(limit, units):
                self.spent[limit] = self.spent.get(limit, 0) + units
                return SpendKept()
            case KeepStep(record):
                self.steps.append(record)
                return StepKept()
        assert_never(request)

    async def finish_within(self, connection: object, result: object) -> bool:
        return self.finish_within_sync(connection, result)

    def finish_within_sync(self, connection: object, result: object) -> bool:
        """There is no job in a store to end: only the result is kept."""
        self._finished = [result]
        return True

    @property
    def progress(self) -> Progress | None:
        """All reports in one, as a store keeps them: a later one changes only what it says."""
        if not self.reports:
            return None
        said: dict[str, Any] = {}
        for report in self.reports:
            fields = msgspec.structs.asdict(report)
            said |= {name: value for name, value in fields.items() if value is not None}
        return Progress(**said)

    async def run(self, plainly: Plainly) -> str:
        """Call the function with what lies around it; gives its result as JSON text. Raises
        `OutOfTime` when the timeout of the job is over: a coroutine is ended by that, and nobody
        waits any longer for a function in a thread."""
        seconds = decode_policy(self.claimed.policy).timeout
        if seconds is None:
            return await self._run(plainly)
        self._ends_by = time.monotonic() + seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                result = await self._run(plainly)
        except (Exception, asyncio.CancelledError):
            if _is_being_cancelled() or not (limit.expired() or self._was_told):
                raise
        else:
            if not self._was_told:
                return result
        raise OutOfTime(seconds)

    async def _run(self, plainly: Plainly) -> str:
        handler, function, around = self.handler, self._function(), self.handler.surroundings

        async def call(resources: Mapping[str, Any]) -> Any:
            bound = partial(function, **resources)
            if handler.mode is Mode.LOOP:
                return await bound()
            return await plainly(bound if around is None else around.inside(self._context, bound))

        with self._being_current():
            value = await (call({}) if around is None else around.run(self._context, call))
        return self._encoded(value)

    def run_plain(self) -> str:
        """The same without a loop, for a plain function that takes no resources and whose app has
        no hooks but those in threads. It has all the time it takes."""
        function, around = self._function(), self.handler.surroundings
        with self._being_current():
            value = (function if around is None else around.inside(self._context, function))()
        return self._encoded(value)

    def _encoded(self, value: object) -> str:
        """The result as JSON text: what the handler finished with counts before its return."""
        [value] = self._finished or [value]
        return self.handler.signature.encode_result(value)

    def _function(self) -> Callable[..., Any]:
        """The function with its arguments as they come back from JSON."""
        args, kwargs = self.handler.signature.call_arguments(self.claimed.args, self._context)
        return partial(self.handler.function, *args, **kwargs)

    @contextmanager
    def _being_current(self) -> Iterator[None]:
        token = HOLDER.set(JobHolder(self.claimed))
        try:
            yield
        finally:
            HOLDER.reset(token)


def _is_being_cancelled() -> bool:
    """Whether somebody else ends the task that runs this."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def on_the_spot(function: Callable[[], Any]) -> Any:
    """Call a plain function in this thread, while the loop waits."""
    return function()


def _claimed(job: NewJob, now: datetime, number: int, checkpoint: str | None) -> Claimed:
    return Claimed(
        id=job.id,
        task=job.task,
        queue=job.queue,
        priority=job.priority,
        args=job.args,
        policy=job.policy,
        attempts=number - 1,
        crashes=0,
        fence=number,
        created_at=now,
        ready_at=now,
        claimed_at=now,
        deadline_at=job.deadline_at,
        tags=job.tags,
        headers=job.headers,
        checkpoint=checkpoint,
    )
