"""How a job runs where it is enqueued, at once, without any store knowing of it.

This is for tests and for a development server without a worker. A job has one attempt: an error
shows at once, and nothing waits. A plain function runs in the thread of `enqueue_sync`, so that it
sees the caller's own database transaction; a coroutine runs in the loop of the caller if there is
one. What the attempt ended in is decided as a worker decides it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.clock import utcnow
from holdfast.errors import BadArguments, BadResult, PayloadTooLarge
from holdfast.handlers.eager import EagerRun
from holdfast.handlers.exceptions import end_of, refused
from holdfast.handlers.inline import InlineAttempt, OutOfTime, on_the_spot
from holdfast.handlers.registry import Handler, Mode, Registry
from holdfast.job.ends import End, Returned, TimedOut
from holdfast.job.outcome import decide
from holdfast.job.policy import decode_policy, encode_policy
from holdfast.job.record import Job, NewJob
from holdfast.job.retry import Retry
from holdfast.job.state import ENDED
from holdfast.job.transition import Transition
from holdfast.worker.equipment import Equips, equipped, with_surroundings
from holdfast.worker.job_events import JobEvents, Observed

if TYPE_CHECKING:
    from holdfast.handlers.resources import Overrides

T = TypeVar("T")


class EagerRunner:
    """Runs jobs of one app at once, for its `EagerJobs`."""

    def __init__(self, app: Equips, max_result: int) -> None:
        self._app = app
        self._events = JobEvents(app.events)
        self._max_result = max_result

    async def run(self, handler: Handler, job: NewJob, resources: Overrides | None) -> EagerRun:
        """Run a job for a caller with an event loop. A plain function runs in a thread."""
        return await self._run(handler, job, resources, in_thread=True)

    def run_sync(self, handler: Handler, job: NewJob, resources: Overrides | None) -> EagerRun:
        """Run a job for a caller without a loop. A plain function runs in the caller's thread. It
        has a loop there only if something else of the job needs one: frameworks refuse to touch
        their database in a thread with a loop."""
        if self._needs_loop(handler):
            return _in_a_loop(lambda: self._run(handler, job, resources, in_thread=False))
        known = with_surroundings(self._app, _only(handler))
        attempt, seen = self._begin(known[handler.name], job)
        try:
            end: End = self._returned(attempt, attempt.run_plain())
        except Exception as error:  # noqa: BLE001 - what it means is decided there
            return self._ran(attempt, job, seen, _end(error), error)
        return self._ran(attempt, job, seen, end)

    def _needs_loop(self, handler: Handler) -> bool:
        app = self._app
        needs = handler.mode is Mode.LOOP or bool(handler.signature.resources)
        return needs or bool(app.hooks.around_attempt) or app.lifespan is not None

    async def _run(
        self, handler: Handler, job: NewJob, resources: Overrides | None, *, in_thread: bool
    ) -> EagerRun:
        async with equipped(self._app, resources, only=_only(handler)) as known:
            attempt, seen = self._begin(known[handler.name], job)
            try:
                result = await attempt.run(asyncio.to_thread if in_thread else on_the_spot)
                end: End = self._returned(attempt, result)
            except Exception as error:  # noqa: BLE001 - what it means is decided there
                return self._ran(attempt, job, seen, _end(error), error)
            return self._ran(attempt, job, seen, end)

    def _begin(self, handler: Handler, job: NewJob) -> tuple[InlineAttempt, Observed]:
        attempt = InlineAttempt(handler, _once(job))
        self._events.tell_started(attempt.claimed, decode_policy(attempt.claimed.policy), None)
        return attempt, Observed(time.monotonic())

    def _returned(self, attempt: InlineAttempt, result: str) -> Returned:
        if not decode_policy(attempt.claimed.policy).keep_result:
            return Returned(None)
        if (size := len(result.encode())) > self._max_result:
            what = f"task {attempt.claimed.task!r}: the result"
            raise PayloadTooLarge(what, size, self._max_result)
        return Returned(result)

    def _ran(
        self,
        attempt: InlineAttempt,
        job: NewJob,
        seen: Observed,
        end: End,
        error: Exception | None = None,
    ) -> EagerRun:
        claimed, seen.over, seen.error = attempt.claimed, time.monotonic(), error
        move = decide(claimed, end)
        policy = decode_policy(claimed.policy)
        handler = attempt.handler
        self._events.tell_attempt_failed(claimed, handler, policy, None, move, seen.error)
        self._events.tell_ended(claimed, handler, policy, None, move, seen)
        return EagerRun(_record(attempt, job, move), error)


def _only(handler: Handler) -> Registry:
    alone = Registry()
    alone.add(handler)
    return alone


def _once(job: NewJob) -> NewJob:
    """The job with a policy of one attempt: whatever its own says, nobody tries again."""
    policy = msgspec.structs.replace(decode_policy(job.policy), retry=Retry.never())
    return msgspec.structs.replace(job, policy=encode_policy(policy))


def _in_a_loop(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine to its end. If this thread runs a loop already, another thread runs it."""
    if asyncio._get_running_loop() is None:
        return _run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="holdfast-eager") as other:
        return other.submit(copy_context().run, _run, work).result()


def _run(work: Callable[[], Coroutine[object, object, T]]) -> T:
    # The factory keeps the runner from changing the thread's own current loop.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(work())


def _end(error: Exception) -> End:
    match error:
        case OutOfTime(seconds=seconds):
            return TimedOut(seconds)
        case BadArguments() | BadResult() | PayloadTooLarge():
            return refused(error)
        case _:
            return end_of(error)


def _record(attempt: InlineAttempt, job: NewJob, move: Transition) -> Job:
    now, claimed = utcnow(), attempt.claimed
    due_at = None if move.delay is None else now + timedelta(seconds=move.delay)
    return Job(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=move.to,
        priority=job.priority,
        args_json=job.args,
        policy=job.policy,
        created_at=claimed.created_at,
        attempts=move.spend,
        crashes=0,
        fence=claimed.fence,
        tags=job.tags,
        headers_json=job.headers,
        unique_key=None if job.unique is None else job.unique.key,
        deadline_at=job.deadline_at,
        due_at=due_at or move.run_at,
        claimed_at=claimed.claimed_at,
        finished_at=now if move.to in ENDED else None,
        result_json=move.result,
        reason=move.reason,
        progress=attempt.progress,
        errors=() if move.error is None else (move.error,),
    )
