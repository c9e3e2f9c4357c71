"""The calls of one attempt, where its handler runs.

A call is a step. The first attempt that gets there records it together with the flow that runs it,
starts the flow, and the handler is left as by a sleep. It is called again when the flow has come to
something, gets here again and is given that. Every later attempt gets the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NoReturn, Protocol, TypeVar

from holdfast.errors import CallFailed
from holdfast.job.call import (
    CallFailure,
    CallWhat,
    called_flow,
    decode_decided,
    decode_failure,
    end_signal,
)
from holdfast.job.requests import (
    CallFound,
    CallStarted,
    FindCall,
    LeaveHandler,
    StartCall,
    Wait,
)
from holdfast.job.step import Step
from holdfast.steps.approvals import ApprovalRunner
from holdfast.steps.signals import require_between_steps

T = TypeVar("T", covariant=True)
LoserWord = Literal["let_run", "cancel"]


class Called(Protocol[T]):
    """What a handler calls. `name` is that of its step, without a number."""

    @property
    def name(self) -> str: ...

    @property
    def what(self) -> CallWhat: ...

    @property
    def is_empty(self) -> bool:
        """Whether nothing is called."""
        ...

    def written(self, flow: str | None) -> tuple[str, str]:
        """The id and the text of the flow that runs it. An earlier attempt may have recorded the
        id."""
        ...

    def read(self, results: tuple[str | None, ...]) -> T:
        """What the handler is given."""
        ...


class MakesCalls(Protocol):
    """Makes calls for the attempt of a job; `holdfast.declaring.calls` does."""

    def task(self, task: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Called[Any]: ...

    def tasks(
        self, task: Any, calls: Iterable[object], need: int | None, losers: LoserWord
    ) -> Called[Any]: ...

    def flow(self, flow: Any) -> Called[Any]: ...


class CallRunner(ApprovalRunner):
    """Runs the steps of one attempt, its waits for signals and votes, and its calls."""

    __slots__ = ()

    async def run_call(self, step: str, call: Called[T]) -> T:
        """What the call gives. The handler is left until it has come to something."""
        require_between_steps(repr(call.name))
        if call.is_empty:
            return call.read(())
        found = await self._found(step)
        if found is not None and found.failed:
            raise _failed(call.name, decode_failure(found.message))
        if found is not None and found.result_json is not None and call.what != "tasks":
            return call.read((found.result_json,))
        flow = None if found is None else _flow_of(found)
        if found is None or flow is None:
            return await self._begin(step, None, call)
        looked = await self._looked(FindCall(step, flow, call.what, found.result_json))
        if not looked.is_known:
            return await self._begin(step, flow, call)
        if looked.is_open:
            return await self._leave_until_told(step, flow, looked.takes)
        if looked.failure is not None:
            raise _failed(call.name, looked.failure)
        return call.read(looked.results)

    async def _looked(self, request: FindCall) -> CallFound:
        """A look counts as under way: nobody leaves the handler before what it finds is done."""
        self._running += 1
        try:
            answer = await self._ask(request)
        finally:
            self._end_one()
        if not isinstance(answer, CallFound):
            raise TypeError(f"a look for a call was answered by {answer!r}")
        return answer

    async def _begin(self, step: str, flow: str | None, call: Called[Any]) -> NoReturn:
        """Start it. It counts as under way until it is started."""
        self._running += 1
        try:
            flow, text = call.written(flow)
            answer = await self._ask(StartCall(step, text))
        finally:
            self._end_one()
        if not isinstance(answer, CallStarted):
            raise TypeError(f"the start of a call was answered by {answer!r}")
        await self._leave_until_told(step, flow, None)

    async def _leave_until_told(self, step: str, flow: str, takes: int | None) -> NoReturn:
        """Several calls of a handler leave it together: the worker is asked for each of them."""
        await self._until_quiet()
        record = self._record(step, awaits=end_signal(flow), takes=takes)
        answer = await self._way.ask(Wait(record))
        if not isinstance(answer, LeaveHandler):
            raise TypeError(f"a wait was answered by {answer!r}")
        self._leave()


def _flow_of(found: Step) -> str | None:
    if found.result_json is not None:
        return decode_decided(found.result_json).flow
    return called_flow(found.awaits)


def _failed(call: str, failure: CallFailure) -> CallFailed:
    return CallFailed(
        call,
        failure.state,
        job_id=failure.job,
        task=failure.task,
        kind=failure.kind,
        message=failure.message,
        why=failure.why,
    )
