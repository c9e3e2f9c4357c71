"""Answers what handlers ask of their worker: the one place that knows every request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import assert_never

from holdfast.enqueue.batcher import Batcher
from holdfast.errors import (
    BadFlow,
    BadOption,
    HoldfastError,
    PayloadTooLarge,
    RowRefused,
    StreamRefused,
)
from holdfast.job.ends import Returned
from holdfast.job.outcome import decide
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    CloseStream,
    ExtendFlow,
    FindCall,
    FindChild,
    FindNodes,
    FindStep,
    KeepStep,
    ProgressKept,
    ReportProgress,
    ReportSpend,
    Request,
    RequestRefused,
    SignTokens,
    StartCall,
    StartChild,
    TakePermits,
    TakeSignals,
    TakeVotes,
    Wait,
    WriteFrame,
)
from holdfast.job.transition import Transition
from holdfast.store.contract.records import ProgressReport, Verdict
from holdfast.worker.attempt import Attempt, Stop, with_records, with_spent
from holdfast.worker.call_answers import CallAnswers
from holdfast.worker.flow_answers import FlowAnswers, FlowRequest
from holdfast.worker.limit_answers import LimitAnswers
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.step_answers import StepAnswers
from holdfast.worker.stream_answers import StreamAnswers
from holdfast.worker.vote_answers import VoteAnswers

PROGRESS = "report_progress"
FLOWS = "flows"


class Answering:
    """Serves coroutines, threads and child processes. Many reports share one round trip."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._jobs = setup.store.jobs
        self._flows = FlowAnswers(setup.store)
        self._streams = StreamAnswers(setup, self._at_last)
        self._steps = StepAnswers(setup, self._at_last, self._streams.before)
        self._votes = VoteAnswers(setup.options.signing_keys, self._steps, setup.events)
        self._calls = CallAnswers(setup.store, self._steps, self._at_last)
        self._spending = LimitAnswers(setup, self._at_last)
        self.end = self._streams.end
        self._outage = setup.outage
        self._max_result = setup.options.max_payload
        self._loop = asyncio.get_running_loop()
        self._batcher: Batcher[ProgressReport, bool] = Batcher(setup.store.jobs.report_progress)

    async def answer(self, attempt: Attempt, request: Request) -> Answer:
        """Answer one request on the worker's loop. A value that the store cannot take is an
        answer too: the handler sent it, and may do without."""
        try:
            match request:
                case ReportProgress(progress):
                    report = ProgressReport(attempt.job.id, attempt.job.fence, progress)
                    return await self._at_last(attempt, PROGRESS, lambda: self._kept(report))
                case FindStep() | KeepStep() | Wait() | TakeSignals():
                    return await self._steps.answer(attempt, request)
                case TakePermits() | ReportSpend():
                    return await self._spending.answer(attempt, request)
                case SignTokens():
                    return self._votes.sign(attempt.job.id, request)
                case TakeVotes():
                    return await self._votes.take(attempt, request)
                case StartCall() | FindCall():
                    return await self._calls.answer(attempt, request)
                case WriteFrame() | CloseStream():
                    return await self._streams.answer(attempt, request)
                case FindNodes() | ExtendFlow() | FindChild() | StartChild():
                    return await self._of_flow(attempt, request)
                case _:
                    assert_never(request)
        except (RowRefused, StreamRefused, BadFlow, BadOption) as error:
            return RequestRefused(str(error))

    async def _of_flow(self, attempt: Attempt, request: FlowRequest) -> Answer:
        """A function that has started its flow is not called again, so its frames come first."""
        if isinstance(request, StartChild):
            await self._streams.flushed(attempt)
        return await self._at_last(attempt, FLOWS, partial(self._flows.answer, attempt, request))

    def answer_sync(self, attempt: Attempt, request: Request) -> Answer:
        """The same for a handler in a thread, which waits for the answer."""
        if isinstance(request, SignTokens):
            return self._votes.sign(attempt.job.id, request)
        if asyncio._get_running_loop() is self._loop:
            raise HoldfastError(
                "a method whose name ends in _sync was called in a coroutine, where it would wait "
                "for itself: await the one without _sync"
            )
        return asyncio.run_coroutine_threadsafe(self.answer(attempt, request), self._loop).result()

    async def finish_within(self, attempt: Attempt, connection: object, result: object) -> bool:
        """Write the end of the attempt in the handler's own transaction. False if the attempt is
        no longer this worker's own."""
        await self._streams.flushed(attempt)
        move = self._success(attempt, result)
        return attempt.stop is not Stop.LOST and _taken(
            attempt, move, await self._jobs.within(connection, lambda jobs: jobs.finish([move]))
        )

    def finish_within_sync(self, attempt: Attempt, connection: object, result: object) -> bool:
        """The same in the handler's own thread: its connection may belong to that thread."""
        if attempt.streams is not None:
            flushed = self._streams.flushed(attempt)
            asyncio.run_coroutine_threadsafe(flushed, self._loop).result()
        move = self._success(attempt, result)
        return attempt.stop is not Stop.LOST and _taken(
            attempt, move, self._jobs.within_sync(connection, lambda jobs: jobs.finish([move]))
        )

    def _success(self, attempt: Attempt, result: object) -> Transition:
        text = None
        if attempt.policy.keep_result:
            text = attempt.handler.signature.encode_result(result)
            if (size := len(text.encode())) > self._max_result:
                what = f"task {attempt.job.task!r}: the result"
                raise PayloadTooLarge(what, size, self._max_result)
        return with_records(attempt, with_spent(attempt, decide(attempt.job, Returned(text))))

    async def aclose(self) -> None:
        await self._batcher.aclose()
        await self._steps.aclose()
        await self._streams.aclose()
        await self._spending.aclose()

    async def _at_last(
        self, attempt: Attempt, verb: str, ask: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """The store's answer. An outage is waited out: a handler must not fail because it said how
        far it is, or what it has done."""
        try:
            while attempt.stop is not Stop.LOST:
                try:
                    answer = await ask()
                except (RowRefused, BadFlow, BadOption):
                    raise
                except Exception as error:  # noqa: BLE001 - an outage, whatever the store says
                    self._outage.failed(verb, error)
                    await self._outage.pause()
                else:
                    self._outage.over(verb)
                    return answer
            return AttemptGone()
        finally:
            self._outage.over(verb)  # also if the handler was stopped meanwhile

    async def _kept(self, report: ProgressReport) -> Answer:
        return ProgressKept() if await self._sent(report) else AttemptGone()

    async def _sent(self, report: ProgressReport) -> bool:
        """If the store refuses a batch, its reports are sent one by one: one of them is at
        fault, and only its own handler may hear of that."""
        try:
            kept = await self._batcher.submit(report)
        except RowRefused:
            [kept] = await self._jobs.report_progress([report])
        return kept


def _taken(attempt: Attempt, move: Transition, verdicts: Sequence[Verdict]) -> bool:
    [verdict] = verdicts
    if verdict.accepted:
        attempt.taken = move
    return verdict.accepted
