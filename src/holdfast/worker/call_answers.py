"""What handlers ask about the tasks and flows that they call, answered for `worker/answering.py`.

The step of a call is recorded first, with the id of its flow, and the flow is started then. If the
worker dies between the two, the next attempt starts the flow under the same id.
"""

from __future__ import annotations

from functools import partial

import msgspec

from holdfast.context import Context
from holdfast.errors import BadFlow
from holdfast.flow.calls import TELL, end_of_call, end_of_flow, tell_caller
from holdfast.flow.model import FlowId, NewFlow
from holdfast.handlers.registry import Handler
from holdfast.job.call import FAILED, Decided, decode_decided, encode_recorded, end_signal
from holdfast.job.ids import JobId
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    CallFound,
    CallStarted,
    FindCall,
    StartCall,
    StepKept,
)
from holdfast.job.signal import Signal
from holdfast.job.step import StepRecord
from holdfast.job.ties import Tie
from holdfast.store.contract.store import Store
from holdfast.worker.attempt import Attempt
from holdfast.worker.step_answers import AtLast, StepAnswers

CALLS = "calls"
_flow = msgspec.json.Decoder(NewFlow)
_replace = msgspec.structs.replace


class CallAnswers:
    """Every answer may be asked for again: what was written the first time is not written twice."""

    def __init__(self, store: Store, steps: StepAnswers, at_last: AtLast) -> None:
        self._store = store
        self._steps = steps
        self._at_last = at_last

    async def answer(self, attempt: Attempt, request: StartCall | FindCall) -> Answer:
        if isinstance(request, StartCall):
            return await self._start(attempt, request)
        return await self._find(attempt, request)

    async def _start(self, attempt: Attempt, request: StartCall) -> Answer:
        flow = _flow.decode(request.flow)
        record = self._record(attempt, request.step, awaits=end_signal(flow.id))
        kept = await self._steps.keep(attempt, [record])
        if not isinstance(kept, StepKept):
            return kept
        return await self._at_last(attempt, CALLS, partial(self._started, attempt, flow))

    async def _started(self, attempt: Attempt, given: NewFlow) -> Answer:
        """From here on the end of the job cancels the flow, so the attempt has the tie too."""
        job = attempt.job
        flow = _replace(given, parent=job.id, fence=job.fence)
        [started] = await self._store.flows.start([flow])
        match started.how:
            case "created":
                attempt.job = _replace(attempt.job, ties=attempt.job.ties | Tie.PARENT)
                return CallStarted()
            case "not held":
                return AttemptGone()
            case "taken" | "existing":
                raise BadFlow(f"flow {flow.id} is not the one that job {job.id} has called")

    async def _find(self, attempt: Attempt, request: FindCall) -> Answer:
        answer = await self._at_last(attempt, CALLS, partial(self._looked, attempt, request))
        if not isinstance(answer, CallFound) or answer.is_open or request.recorded is not None:
            return answer
        signal = await self._signal(attempt, request.flow)
        taken = None if signal is None else signal.n
        record = self._record(attempt, request.step, takes=taken, **_said(request, answer))
        kept = await self._steps.keep(attempt, [record])
        return answer if isinstance(kept, StepKept) else kept

    async def _looked(self, attempt: Attempt, request: FindCall) -> Answer:
        """A caller that is told of an end and finds none was told of one that an operator has taken
        back: the signal is taken, or it would wake the caller again and again."""
        flow = FlowId(request.flow)
        if not await self._store.flows.get([flow]):
            return CallFound(is_known=False, is_open=True)
        if request.what == "flow":
            end = await end_of_flow(self._store, flow)
        else:
            recorded = request.recorded
            decided = None if recorded is None else decode_decided(recorded)
            end = await end_of_call(self._store, flow, decided)
        if end is not None:
            return CallFound(results=end.results, failure=end.failure)
        signal = await self._signal(attempt, request.flow)
        return CallFound(is_open=True, takes=None if signal is None else signal.n)

    async def _signal(self, attempt: Attempt, flow: str) -> Signal | None:
        """The signal that has told the caller, if it has not been taken."""
        job, name = attempt.job.id, end_signal(flow)
        found = (await self._store.signals.of([job])).get(job, [])
        return next((one for one in found if one.name == name and one.taken_by is None), None)

    def _record(self, attempt: Attempt, step: str, **said: object) -> StepRecord:
        return StepRecord(attempt.job.id, attempt.job.fence, step, 0, **said)  # type: ignore[arg-type]


def _said(request: FindCall, found: CallFound) -> dict[str, object]:
    if found.failure is not None:
        return {"kind": FAILED, "message": encode_recorded(found.failure)}
    if request.what != "tasks":
        return {"result": found.results[0]}
    missing = frozenset(n for n, result in enumerate(found.results) if result is None)
    return {"result": encode_recorded(Decided(request.flow, missing))}


def tell_handler(store: Store) -> Handler:
    """The task of the nodes that are released when a call of many is decided."""

    async def tell(ctx: Context, flow: str, caller: str) -> None:
        await tell_caller(store, FlowId(flow), JobId(caller), ctx.job.id)

    return Handler.of(TELL, tell)
