"""One attempt becomes the transition that ends it: its handler runs, and its end is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, assert_never

from holdfast.context import Context
from holdfast.errors import BadArguments, BadResult, PayloadTooLarge
from holdfast.handlers import forks
from holdfast.handlers.exceptions import end_of, refused, value_of
from holdfast.handlers.registry import LOOP, PROCESS, Mode
from holdfast.handlers.threads import Threads
from holdfast.job import fingerprint  # noqa: F401 - or the first failure would wait for its patterns
from holdfast.job.ends import (
    Cancelled,
    DeadlinePassed,
    DoesNotFit,
    End,
    HandedBack,
    Raised,
    Returned,
    TimedOut,
)
from holdfast.job.outcome import decide, undecidable
from holdfast.job.transition import Transition
from holdfast.worker.attempt import LOST, Attempt, Stop, with_records, with_spent
from holdfast.worker.options import WorkerOptions

if TYPE_CHECKING:
    from holdfast.handlers.processes import Processes
    from holdfast.handlers.surroundings import Surroundings

NOT_COMMITTED = Raised(
    "NotCommitted", "the transaction in which the handler finished its job was not committed"
)
"""The end of an attempt whose handler wrote its own end and then rolled it back."""


async def _as_it_is(attempt: Attempt, misfit: DoesNotFit) -> End:
    """Until somebody decides."""
    return misfit


class Executor:
    """Knows the three modes that a handler can run in, and owns the pools of two of them.
    `capacity` says how many handlers of a mode can run at once; the loop has no limit. `on_begin`
    is called when a handler begins, also from its thread. `on_misfit` decides how an attempt ends
    whose arguments do not fit."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self.capacity = _capacity(options, options.total_slots)
        self._threads = Threads(self.capacity[Mode.THREAD])
        self._processes: Processes | None = None
        self._max_result = options.max_payload
        self._process = forks.process
        self.on_begin: Callable[[Attempt], None] | None = None
        self.on_misfit: Callable[[Attempt, DoesNotFit], Awaitable[End]] = _as_it_is

    async def run(self, attempt: Attempt) -> Transition | None:
        """None when the attempt is no longer this worker's to end.

        Nothing that a handler raises passes through: it ends the attempt, whatever it is, also a
        cancellation that the handler brought upon its own task. Only a slot that the interpreter
        discards passes its `GeneratorExit` on: its attempt was given up before.
        """
        if attempt.stop is not None:
            return settle(attempt, HandedBack())
        try:
            end = await self._call(attempt)
        except GeneratorExit as error:
            if _slot_is_discarded(attempt):
                raise
            end = end_of(error)
        except BaseException as error:  # noqa: BLE001 - a handler may end its attempt, not its worker
            if forks.process != self._process:
                forks.leave(error)
            end = end_of(error)
            attempt.error = error
        if forks.process != self._process:
            forks.leave(None)
        if type(end) is DoesNotFit:
            end = await self._judged(attempt, end)
        if attempt.weight or attempt.observed is not None:
            attempt.over_at = monotonic()
        if attempt.streams is not None:
            end = await attempt.end(end)
        return settle(attempt, end)

    def resize(self, slots: int) -> None:
        """Fit the pools to so many slots, unless the options fix their sizes. What runs goes
        on."""
        self.capacity.update(_capacity(self._options, slots))
        self._threads.resize(self.capacity[Mode.THREAD])
        if self._processes is not None:
            self._processes.resize(self.capacity[Mode.PROCESS])

    def close_threads(self) -> int:
        """Let idle threads go; returns how many are still busy with a handler."""
        return self._threads.close()

    async def close_processes(self) -> None:
        if self._processes is not None:
            await self._processes.close()

    async def _call(self, attempt: Attempt) -> End:
        job, handler = attempt.job, attempt.handler
        if handler.mode is PROCESS and handler.surroundings is None:
            return self._within_limit(attempt, await self._in_process(attempt, {}))
        try:
            signature = handler.signature
            context = Context(job, attempt) if signature.takes_context else None
            args, kwargs = signature.call_arguments(job.args, context)
        except BadArguments as error:
            return DoesNotFit(str(error))
        if handler.surroundings is not None:
            value = await self._surrounded(attempt, handler.surroundings, args, kwargs)
        elif handler.mode is LOOP:
            attempt.begun = True
            if attempt.weight:
                attempt.began_at = monotonic()
            if self.on_begin is not None:
                self.on_begin(attempt)
            value = await handler.function(*args, **kwargs)
        else:
            call = partial(handler.function, *args, **kwargs)
            value = await self._threads.run(call, self._beginning(attempt))
        if not attempt.policy.keep_result:
            return Returned(None)
        try:
            result = signature.encode_result(value)
        except BadResult as error:
            return refused(error)
        if len(result) * 4 > self._max_result:  # no character takes more than four bytes
            return self._within_limit(attempt, Returned(result))
        return Returned(result)

    async def _judged(self, attempt: Attempt, misfit: DoesNotFit) -> End:
        """Whether the job is left for a worker that can read it. The attempt may be told to stop
        meanwhile."""
        try:
            return await self.on_misfit(attempt, misfit)
        except asyncio.CancelledError as error:
            return end_of(error)

    async def _in_process(self, attempt: Attempt, carried: dict[str, str]) -> End:
        if self._processes is None:
            self._processes = self._make_processes()
        return await self._processes.run(
            attempt.handler,
            attempt.job,
            keep_result=attempt.policy.keep_result,
            carried=carried,
            begin=self._beginning(attempt),
            ask=attempt.ask,
        )

    def _make_processes(self) -> Processes:
        from holdfast.handlers.processes import Processes  # most workers run nothing in children

        return Processes(self.capacity[Mode.PROCESS], self._options.imports)

    def _beginning(self, attempt: Attempt) -> Callable[[], None]:
        """What to call when a thread or a child is free for the attempt."""
        if self.on_begin is None or attempt.begun:
            return attempt.begin
        return partial(self._begin, attempt)

    def _begin(self, attempt: Attempt) -> None:
        attempt.begin()
        if self.on_begin is not None:
            self.on_begin(attempt)

    async def _surrounded(
        self,
        attempt: Attempt,
        surroundings: Surroundings,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """What the function returns, or what the hooks around it make of that. The attempt begins
        with its first hook or resource."""
        handler, context = attempt.handler, Context(attempt.job, attempt)
        self._begin(attempt)
        attempt.on_loop = True

        async def call(resources: Mapping[str, Any]) -> Any:
            match handler.mode:
                case Mode.LOOP:
                    return await handler.function(*args, **kwargs, **resources)
                case Mode.THREAD:
                    context.check_cancelled()  # a stop may have come while resources were made
                    plain = partial(handler.function, *args, **kwargs, **resources)
                    attempt.on_loop = False
                    try:
                        inside = surroundings.inside(context, plain)
                        return await self._threads.run(inside, attempt.begin)
                    finally:
                        attempt.on_loop = True
                case Mode.PROCESS:
                    end = await self._in_process(attempt, surroundings.carried(context))
                    return value_of(handler.signature, end)
            assert_never(handler.mode)

        return await surroundings.run(context, call)

    def _within_limit(self, attempt: Attempt, end: End) -> End:
        """The same end, unless its result is too large to keep."""
        if not isinstance(end, Returned) or end.result is None:
            return end
        size = len(end.result.encode())
        if size <= self._max_result:
            return end
        what = f"task {attempt.job.task!r}: the result"
        return refused(PayloadTooLarge(what, size, self._max_result))


def _capacity(options: WorkerOptions, slots: int) -> dict[Mode, int]:
    return {Mode.THREAD: options.threads_for(slots), Mode.PROCESS: options.processes_for(slots)}


def settle(attempt: Attempt, end: End) -> Transition | None:
    """How the attempt ended, and what it was told to do, together give the transition to write.
    None when the attempt is no longer this worker's to end."""
    if attempt.stop is LOST:
        return None
    if attempt.journal is not None:
        end = attempt.journal.end(end)
    if isinstance(end, Returned) and attempt.taken is None:
        move = decide(attempt.job, end)  # it stands, also if a stop came too late for it
    else:
        move = decided(attempt, _given_stop(attempt, end))
    if attempt.spent:
        move = with_spent(attempt, move)
    return move if attempt.taken is not None else with_records(attempt, move)


def decided(attempt: Attempt, end: End) -> Transition:
    """The transition of this end, whatever the attempt was told to do."""
    try:
        return decide(attempt.job, end, cancel_requested=attempt.cancel_requested)
    except Exception as problem:  # noqa: BLE001 - an undecidable job must still end, visibly
        return undecidable(attempt.job, problem)


def _given_stop(attempt: Attempt, end: End) -> End:
    if isinstance(end, Returned):  # the store has the end that the handler wrote, or refuses this
        end = NOT_COMMITTED
    match attempt.stop:
        case Stop.TIMEOUT if not attempt.begun:
            return HandedBack(begun=False)  # it waited for a thread or a child
        case Stop.TIMEOUT:
            return TimedOut(attempt.policy.timeout or 0.0)
        case Stop.DEADLINE:
            return DeadlinePassed()
        case Stop.CANCEL:
            return Cancelled()
        case Stop.HANDBACK if isinstance(end, Raised) and not end.final:
            return HandedBack()
        case _:
            return HandedBack(attempt.begun) if isinstance(end, HandedBack) else end


def _slot_is_discarded(attempt: Attempt) -> bool:
    """Whether the loop is gone and the interpreter clears up, so that no handler raised this."""
    try:
        return asyncio.current_task() is not attempt.task
    except RuntimeError:
        return True
