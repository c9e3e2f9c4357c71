"""What a handler sees of the attempt it is running.

A handler that names a parameter `ctx: Context` receives one; a handler that does not costs
nothing. The context reaches the worker only through an `AttemptLink`, so the same class serves
coroutines, threads, child processes and tests.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Generator, Mapping, MutableMapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, Self, TypeVar, cast, overload

import msgspec

from holdfast.errors import BadFlow, BadOption, HoldfastError, RowRefused, StepRefused
from holdfast.job import checks
from holdfast.job.headers import decode_headers
from holdfast.job.ids import JobId
from holdfast.job.json_text import read_json
from holdfast.job.loopless import run_without_loop
from holdfast.job.policy import decode_policy
from holdfast.job.record import Claimed, Progress
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    RecordRefused,
    ReportProgress,
    Request,
    RequestRefused,
)
from holdfast.job.sealed import told_apart
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.job.ties import Tie

if TYPE_CHECKING:
    from holdfast.steps.calling import Stepper, SyncStepper
    from holdfast.steps.signals import SignalRunner

logger = logging.getLogger("holdfast.handler")
P = ParamSpec("P")
T = TypeVar("T", covariant=True)
V = TypeVar("V")


StopReason = Literal["cancel", "timeout", "deadline", "hand_back", "lost"]
NOTHING: Mapping[str, str] = MappingProxyType({})


class AttemptLost(HoldfastError):
    """The attempt is no longer this worker's own: what it writes is refused."""

    def __init__(self, job_id: str, fence: int) -> None:
        super().__init__(
            f"job {job_id}: the attempt with fence {fence} was taken away (its lease or its "
            "time ran out, or it was ended); stop here, whatever it still writes is refused"
        )
        self.job_id = job_id
        self.fence = fence


class AttemptLink(Protocol):
    """The way from a context to the worker (or the test) that runs its attempt."""

    @property
    def must_stop(self) -> bool:
        """Cancel was requested, the attempt is lost or out of time, or the worker leaves."""
        ...

    @property
    def stop_reason(self) -> StopReason | None:
        """Why it must stop; None while it may go on."""
        ...

    @property
    def is_over(self) -> bool:
        """The attempt is lost, or was ended without waiting for its handler."""
        ...

    async def ask(self, request: Request) -> Answer:
        """Send one request, and wait for its answer."""
        ...

    def ask_sync(self, request: Request) -> Answer:
        """The same for a handler outside the event loop."""
        ...

    async def finish_within(self, connection: object, result: object) -> bool:
        """End the attempt as succeeded in the open transaction of this connection. False if the
        attempt is not this worker's any more."""
        ...

    def finish_within_sync(self, connection: object, result: object) -> bool:
        """The same for a handler outside the event loop."""
        ...


class NodeTask(Protocol[P, T]):
    """A task, as far as a node needs it."""

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> HasResult[T]: ...


class HasResult(Protocol[T]):
    async def result(self) -> T: ...


class AddedNode(Protocol[T]):
    """A node that a handler adds to its flow; see `holdfast.Node`."""

    @property
    def output(self) -> T: ...
    def after(self, *conditions: Any) -> Self: ...
    def before(self, *others: Any) -> Self: ...
    def named(self, name: str) -> Self: ...


class GrowsFlow(Protocol):
    """What `ctx.flow` offers; `holdfast.declaring.growing` has it. The context itself is below all
    that builds flows, so it is told how by `on_growth`."""

    def add(self, task: NodeTask[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AddedNode[T]:
        """A node that runs this task, as `flow.add` makes one."""
        ...

    def map(self, task: Any, items: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A node for each element of a list, as `flow.map` makes one."""
        ...

    def node(self, name: str) -> AddedNode[Any]:
        """A node that the flow has already."""
        ...

    async def extend(self) -> None:
        """Add what was written down, all of it or nothing."""
        ...

    def extend_sync(self) -> None:
        """`extend` for plain functions, in a thread or a process."""
        ...


class CurrentJob(msgspec.Struct, frozen=True):
    """The job a handler is running, as the handler may read it."""

    id: JobId
    task: str
    queue: str
    priority: int
    tags: tuple[str, ...]
    headers: Mapping[str, Any]
    created_at: datetime
    deadline_at: datetime | None
    attempt: int


class JobHolder:
    """Where a handler sits: a slot of a worker, a child process, a test. `job` is what runs there
    now. A context variable that is set anew for each job would cost a small job more than one
    percent, so each slot sets its own once."""

    __slots__ = ("job",)

    def __init__(self, job: Claimed | None = None) -> None:
        self.job = job


HOLDER: ContextVar[JobHolder] = ContextVar("holdfast-job")
_makers: list[Callable[[Context], GrowsFlow]] = []


def on_growth(make: Callable[[Context], GrowsFlow]) -> None:
    """Let this make what `ctx.flow` is, for the attempt of a node."""
    _makers[:] = [make]


def current_job() -> CurrentJob | None:
    """The job whose handler calls this, however deep: also in the handler's thread or child
    process, and in tasks that it started and waits for. None outside of a handler.

    >>> current_job() is None
    True
    """
    holder = HOLDER.get(None)
    return None if holder is None or holder.job is None else _view(holder.job)


class Context:
    """One attempt, seen from inside the handler."""

    __slots__ = (
        *("_claimed", "_flow", "_job", "_link", "_log"),
        *("_runner", "_step", "_step_sync", "carried"),
    )

    def __init__(
        self, claimed: Claimed, link: AttemptLink, carried: Mapping[str, str] = NOTHING
    ) -> None:
        """`carried` is what hooks of the worker handed on to this child process (`app.to_child`).
        Elsewhere it is empty."""
        self._claimed = claimed
        self._link = link
        self.carried = carried
        self._job: CurrentJob | None = None
        self._log: JobLog | None = None
        self._flow: GrowsFlow | None = None
        self._runner: SignalRunner | None = None
        self._step: Stepper | None = None
        self._step_sync: SyncStepper | None = None

    @property
    def job(self) -> CurrentJob:
        if self._job is None:
            self._job = _view(self._claimed)
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

    @property
    def step(self) -> Stepper:
        """Call functions whose results are recorded: `await ctx.step("pay", charge, order)`. A
        later attempt of this job gets the recorded result and does not call the function again.

        `await ctx.step.using(retry=…, timeout=…, lazy=…, version=…)("pay", charge, order)` has
        options. Raises `StepFailed` if the function raised, and `AttemptLost` when the attempt is
        no longer this worker's own."""
        if self._step is None:
            from holdfast.steps.calling import Stepper  # only handlers with steps need it

            self._step = Stepper(self._steps(on_loop=True))
        return self._step

    @property
    def step_sync(self) -> SyncStepper:
        """`step` for plain functions, in a thread or a process."""
        if self._step_sync is None:
            from holdfast.steps.calling import SyncStepper  # only handlers with steps need it

            self._step_sync = SyncStepper(self._steps(on_loop=False))
        return self._step_sync

    def sleep(
        self,
        name: str,
        seconds: float | timedelta = 0.0,
        *,
        minutes: float = 0.0,
        hours: float = 0.0,
        days: float = 0.0,
    ) -> Coroutine[Any, Any, None]:
        """Sleep without a slot: `await ctx.sleep("cooling off", days=3)`.

        The handler is left here by a `BaseException`, and called again when the time is over; its
        steps are recorded, and so is this sleep, so that it comes here again and goes on. No
        attempt is spent. A sleep of less than a second stays where it is."""
        runner = self._steps(on_loop=True)
        return runner.sleep(runner.named(name), _duration(seconds, minutes, hours, days))

    def sleep_sync(
        self,
        name: str,
        seconds: float | timedelta = 0.0,
        *,
        minutes: float = 0.0,
        hours: float = 0.0,
        days: float = 0.0,
    ) -> None:
        """`sleep` for plain functions, in a thread or a process."""
        runner = self._steps(on_loop=False)
        run_without_loop(runner.sleep(runner.named(name), _duration(seconds, minutes, hours, days)))

    @overload
    def signal(
        self, name: str, kind: type[V], *, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, V]: ...
    @overload
    def signal(
        self, name: str, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Any]: ...
    def signal(
        self, name: str, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Wait for a signal without a slot: `await ctx.signal("paid", Payment, timeout=…)`. Gives
        the value that was sent, as the type says.

        A signal that came before is taken at once. Otherwise the handler is left here by a
        `BaseException`, and called again when the signal has come; no attempt is spent. The value
        is recorded, so that a later attempt gets it again. Raises `WaitTimedOut` if no signal comes
        within the timeout, and `BadSignal` if its value does not fit the type."""
        runner = self._steps(on_loop=True)
        return runner.signal(runner.named(name), name, kind, _timeout(timeout))

    @overload
    def signal_sync(
        self, name: str, kind: type[V], *, timeout: float | timedelta | None = None
    ) -> V: ...
    @overload
    def signal_sync(
        self, name: str, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> Any: ...
    def signal_sync(
        self, name: str, kind: Any = Any, *, timeout: float | timedelta | None = None
    ) -> Any:
        """`signal` for plain functions, in a thread or a process."""
        runner = self._steps(on_loop=False)
        return run_without_loop(runner.signal(runner.named(name), name, kind, _timeout(timeout)))

    def _steps(self, *, on_loop: bool) -> SignalRunner:
        """A handler has one runner: it is a coroutine, or a plain function."""
        if self._runner is None:
            from holdfast.steps.running import InThread, OnLoop  # as above
            from holdfast.steps.signals import SignalRunner

            self._runner = SignalRunner(self._claimed, OnLoop(self) if on_loop else InThread(self))
        return self._runner

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
            [make] = _makers
            self._flow = make(self)
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
        match answer:
            case AttemptGone():
                raise AttemptLost(self._claimed.id, self._claimed.fence)
            case RequestRefused(message):
                raise RowRefused(message)
            case RecordRefused(message):
                raise StepRefused(message)
            case _:
                return answer

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


def _view(claimed: Claimed) -> CurrentJob:
    headers = decode_headers(claimed.headers)
    return CurrentJob(
        claimed.id,
        claimed.task,
        claimed.queue,
        claimed.priority,
        claimed.tags,
        headers,
        claimed.created_at,
        claimed.deadline_at,
        claimed.attempt,
    )


def _duration(seconds: float | timedelta, minutes: float, hours: float, days: float) -> float:
    found = checks.wait("seconds", seconds)
    for name, value, size in (
        ("minutes", minutes, 60),
        ("hours", hours, 3_600),
        ("days", days, 86_400),
    ):
        if value:
            found += size * checks.seconds(name, value)
    return checks.seconds("the time to sleep", found)


def _timeout(timeout: float | timedelta | None) -> float | None:
    return None if timeout is None else checks.wait("timeout", timeout)


def _progress(fraction: float | None, message: str | None, checkpoint: object) -> ReportProgress:
    if fraction is not None and not (math.isfinite(fraction) and 0 <= fraction <= 1):
        raise BadOption("progress", "a fraction between 0 and 1", fraction)
    saved = None if checkpoint is None else told_apart(msgspec.json.encode(checkpoint).decode())
    shown = None if message is None else clean(message, MESSAGE_LIMIT)
    return ReportProgress(Progress(fraction, shown, saved))
