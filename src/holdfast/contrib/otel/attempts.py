"""The span of an attempt, wherever its handler runs.

The span is current inside the handler: on the loop, and in a thread, which runs in a copy of the
loop's context. A child process is handed the context of the span as text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context as TraceContext
from opentelemetry.context import attach, detach
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace import INVALID_SPAN, Link, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from holdfast.context import HOLDER, Context
from holdfast.contrib.otel import names
from holdfast.contrib.otel.instruments import Instruments, Operation
from holdfast.errors import ChildRaised
from holdfast.handlers.registry import Handler
from holdfast.job.ends import Cancel, Snooze, Suspend, Suspending, Throttled
from holdfast.job.redaction import BY_NAME, Redactor, redact
from holdfast.logs.formats import add_fields
from holdfast.schedule.plan_job import SCHEDULE

WISHES: dict[type[BaseException], str] = {
    Snooze: "snoozed",
    Throttled: "throttled",
    Suspend: "suspended",
    Suspending: "suspended",
    Cancel: "cancelled",
}
"""What a handler raises to end its attempt in a way that is no error."""

STOPS: Mapping[str, tuple[str, str | None]] = {
    "cancel": ("cancelled", None),
    "hand_back": ("handed back", None),
    "timeout": ("timed out", "TimedOut"),
    "deadline": ("deadline passed", "DeadlinePassed"),
    "lost": ("lost", "AttemptLost"),
}
"""The end, and the type of the error, of an attempt that was told to stop."""

TO_CHILD = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
"""How a context travels to a child process, whatever is configured for headers."""


class TracedAttempts:
    """A hook around every attempt. The span links to the context that the job's headers carry."""

    def __init__(
        self, instruments: Instruments, tasks: Mapping[str, Handler], trace_parent: bool
    ) -> None:
        """`tasks` say what is hidden of their jobs."""
        self._instruments = instruments
        self._tasks = tasks
        self._trace_parent = trace_parent

    async def __call__(self, ctx: Context, run: Callable[[], Awaitable[Any]]) -> Any:
        operation, here = self._begin(ctx)
        token = attach(here)
        end = "returned"
        try:
            return await run()
        except BaseException as error:
            end, error_type = _end(ctx, error)
            if error_type is not None:
                operation.failed(error_type, error, self._show)
            raise
        finally:
            detach(token)
            operation.span.set_attribute(names.END, end)
            operation.end(self._instruments.consumed, self._instruments.process_duration)

    def _show(self, text: str) -> str:
        """A text of an error as it may be shown: it may repeat the arguments of the job."""
        holder = HOLDER.get(None)
        job = None if holder is None else holder.job
        if job is None:
            return redact(text)
        rules = self._tasks[job.task].rules if job.task in self._tasks else BY_NAME
        return Redactor(rules, job.args, job.headers).text(text)

    def _begin(self, ctx: Context) -> tuple[Operation, TraceContext]:
        """The operation, and the context that the handler runs in: with the baggage of the job, and
        with nothing of the context that the worker was started in."""
        job = ctx.job
        outside, origin = self._instruments.extracted(job.headers)
        if not self._trace_parent:
            outside = trace.set_span_in_context(INVALID_SPAN, outside)
        operation = Operation(
            self._instruments,
            self._instruments.dimensions(names.PROCESS, names.PROCESS, job.task, job.queue),
            kind=SpanKind.CONSUMER,
            context=outside,
            links=[Link(origin)] if origin.is_valid else [],
            attributes=_attributes(ctx),
        )
        return operation, trace.set_span_in_context(operation.span, outside)


def _attributes(ctx: Context) -> dict[str, str | int]:
    job = ctx.job
    found: dict[str, str | int] = {
        names.MESSAGE_ID: job.id,
        names.ATTEMPT: ctx.attempt,
        names.FENCE: ctx.fence,
    }
    schedule = job.headers.get(SCHEDULE)
    return found if schedule is None else {**found, names.SCHEDULE: schedule}


def _end(ctx: Context, error: BaseException) -> tuple[str, str | None]:
    """How the attempt ended, and the type of its error if it was one."""
    reason = ctx.stop_reason
    if reason is not None:
        return STOPS[reason]
    for wish, end in WISHES.items():
        if isinstance(error, wish):
            return end, None
    return "raised", error.kind if isinstance(error, ChildRaised) else type(error).__name__


def trace_fields() -> Mapping[str, str | None]:
    """What the records of a handler say about its trace."""
    current = trace.get_current_span().get_span_context()
    if not current.is_valid:
        return {"trace_id": None, "span_id": None}
    return {
        "trace_id": trace.format_trace_id(current.trace_id),
        "span_id": trace.format_span_id(current.span_id),
    }


# Child processes ----------------------------------------------------------------------------


def carry_to_child(ctx: Context) -> Mapping[str, str]:
    """A hook to children: the context of the span that is current."""
    carrier: dict[str, str] = {}
    TO_CHILD.inject(carrier)
    return carrier


def continue_in_child(ctx: Context, run: Callable[[], Any]) -> Any:
    """A hook in threads and child processes. A child continues the context that it was handed; a
    thread has the context of its attempt already."""
    if not ctx.carried:
        return run()
    add_fields(trace_fields)  # a child may import the function without the app
    token = attach(TO_CHILD.extract(ctx.carried, TraceContext()))
    try:
        return run()
    finally:
        detach(token)
