"""Runs one attempt from its stored arguments to the transition that ends it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import assert_never

from holdfast.context import Context
from holdfast.errors import BadArguments, BadResult, PayloadTooLarge
from holdfast.handlers.exceptions import end_of, refused
from holdfast.handlers.processes import Processes
from holdfast.handlers.registry import Mode
from holdfast.handlers.threads import Threads
from holdfast.job.ends import End, HandedBack, Returned
from holdfast.job.outcome import Transition
from holdfast.worker import forks
from holdfast.worker.attempt import Attempt
from holdfast.worker.settle import settle


class Executor:
    """Knows the three places a handler can run in."""

    def __init__(self, threads: Threads, processes: Processes, *, max_result: int) -> None:
        self._threads = threads
        self._processes = processes
        self._max_result = max_result
        self._process = forks.process

    async def run(self, attempt: Attempt) -> Transition | None:
        """None when the attempt is no longer ours to end.

        Nothing a handler raises passes through: whatever it is ends the attempt, also a
        cancellation that the handler brought upon its own task. A slot that the worker closes
        has nothing to write: its attempt was given up before.
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
        if forks.process != self._process:
            forks.leave(None)
        return settle(attempt, self._within_limit(attempt, end))

    async def _call(self, attempt: Attempt) -> End:
        job, handler = attempt.job, attempt.handler
        if handler.mode is Mode.PROCESS:
            return await self._processes.run(
                handler,
                job,
                keep_result=attempt.policy.keep_result,
                begin=attempt.begin,
                report=attempt.report,
            )
        try:
            signature = handler.signature
            context = Context(job, attempt) if signature.takes_context else None
            args, kwargs = signature.call_arguments(job.args, context)
        except BadArguments as error:
            return refused(error)
        match handler.mode:
            case Mode.LOOP:
                attempt.begin()
                value = await handler.function(*args, **kwargs)
            case Mode.THREAD:
                call = partial(handler.function, *args, **kwargs)
                value = await self._threads.run(call, attempt.begin)
            case _:
                assert_never(handler.mode)
        if not attempt.policy.keep_result:
            return Returned(None)
        try:
            return Returned(signature.encode_result(value))
        except BadResult as error:
            return refused(error)

    def _within_limit(self, attempt: Attempt, end: End) -> End:
        if not isinstance(end, Returned) or end.result is None:
            return end
        if len(end.result) * 4 <= self._max_result:
            return end
        size = len(end.result.encode())
        if size <= self._max_result:
            return end
        what = f"task {attempt.job.task!r}: the result"
        return refused(PayloadTooLarge(what, size, self._max_result))


def _slot_is_discarded(attempt: Attempt) -> bool:
    """The loop is gone and the interpreter clears up: no handler raised this."""
    try:
        return asyncio.current_task() is not attempt.task
    except RuntimeError:
        return True
