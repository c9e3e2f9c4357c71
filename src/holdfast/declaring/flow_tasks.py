"""`@app.flow_task()`: a task whose function returns a flow, and whose job lives as long as that.

The function builds a flow and does not start it. The worker starts it as a child of the job, and
the job gives its slot back. The id of the flow follows from that of the job, so a second attempt
finds the flow that the first has started, and does not call the function again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from functools import wraps
from inspect import Parameter
from typing import Any

import msgspec

from holdfast.codec.parameters import find_filled_in, resolve
from holdfast.context import AttemptLost, Context
from holdfast.declaring.flows import Flow
from holdfast.errors import BadFlow
from holdfast.flow.depth import depth_of_called, nodes_at_depth
from holdfast.flow.ids import child_flow_id
from holdfast.flow.model import FlowId
from holdfast.flow.parents import FAILED, waits_for
from holdfast.job.ends import Cancel, Cancelled, Fail, Raised, Returned, Suspend
from holdfast.job.record import times_taken
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    ChildFound,
    FindChild,
    Request,
    RequestRefused,
    StartChild,
)

Asking = Generator[Request, Answer, Any]
INJECTED = "holdfast_context"
_encoder = msgspec.json.Encoder()


class WaitsForFlow(Suspend):
    """The job gives its slot back until its flow is over."""

    def __init__(self, flow: str) -> None:
        super().__init__()
        self.reason = waits_for(FlowId(flow))


ChildFlowFailed = type(FAILED, (Fail,), {"__doc__": "The flow of the job has failed."})


def running_flow(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a worker calls for a function that returns a flow: it starts the flow, and then waits
    for it. It takes a context, whether or not the function does."""
    takes_context = _takes_context(function)

    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function(*(args if takes_context else args[1:]), **kwargs)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def start_and_wait(*args: Any, **kwargs: Any) -> Any:
            ctx = _context_in(args, kwargs)
            if (result := await ctx.converse(_before(ctx))) is not None:
                return result
            return await ctx.converse(_after(ctx, await call(args, kwargs)))

        return _described(start_and_wait, function, takes_context)

    @wraps(function)
    def start_and_wait_plainly(*args: Any, **kwargs: Any) -> Any:
        ctx = _context_in(args, kwargs)
        if (result := ctx.converse_sync(_before(ctx))) is not None:
            return result
        return ctx.converse_sync(_after(ctx, call(args, kwargs)))

    return _described(start_and_wait_plainly, function, takes_context)


def _before(ctx: Context) -> Asking:
    """An earlier attempt may have started the flow: then it is waited for, or it has ended."""
    if times_taken(ctx.fence) == 1:
        return None
    found = _granted(ctx, (yield FindChild()))
    return None if found.flow is None else _end(found)


def _after(ctx: Context, built: object) -> Asking:
    """Start what the function has built."""
    if not isinstance(built, Flow):
        raise BadFlow(f"task {ctx.job.task!r} must return a flow (app.flow(…)), got {built!r}")
    depth = depth_of_called(ctx.job.headers, ctx.job.id, repr(f"flow {built.name}"))
    flow = built.as_child(child_flow_id(ctx.job.id))
    flow = msgspec.structs.replace(flow, nodes=nodes_at_depth(flow.nodes, depth))
    return _end(_granted(ctx, (yield StartChild(_encoder.encode(flow).decode()))))


def _end(found: ChildFound) -> msgspec.Raw:
    match found.end:
        case None:
            raise WaitsForFlow(found.flow or "")
        case Returned(result):
            return msgspec.Raw((result or "null").encode())
        case Raised(message=message):
            raise ChildFlowFailed(message)
        case Cancelled(reason):
            raise Cancel(reason)


def _granted(ctx: Context, answer: Answer) -> ChildFound:
    match answer:
        case ChildFound():
            return answer
        case AttemptGone():
            raise AttemptLost(ctx.job.id, ctx.fence)
        case RequestRefused(message):
            raise BadFlow(message)
    raise TypeError(f"{answer!r} answers another request")


# How the function is seen ------------------------------------------------------------------------


def _takes_context(function: Callable[..., Any]) -> bool:
    name = getattr(function, "__qualname__", repr(function))
    parameters, _ = resolve(function, name, Context)
    return find_filled_in(parameters, name, Context).context is not None


def _context_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Context:
    return next(value for value in (*args, *kwargs.values()) if isinstance(value, Context))


def _described(
    caller: Callable[..., Any], function: Callable[..., Any], takes_context: bool
) -> Callable[..., Any]:
    """The parameters are those of the function, and a context. The result is that of the flow."""
    signature = inspect.signature(function)
    own = list(signature.parameters.values())
    injected = [] if takes_context else [Parameter(INJECTED, Parameter.POSITIONAL_ONLY)]
    notes: dict[str, Any] = {**inspect.get_annotations(function), "return": Any}
    caller.__annotations__ = notes if takes_context else {INJECTED: Context, **notes}
    caller.__signature__ = signature.replace(parameters=[*injected, *own])  # type: ignore[attr-defined]
    caller.__holdfast_plainly__ = function  # type: ignore[attr-defined]
    return caller
