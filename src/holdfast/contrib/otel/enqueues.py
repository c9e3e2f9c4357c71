"""The span of an enqueue, and the trace context that it gives to its jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Link, SpanKind

from holdfast.contrib.otel import names
from holdfast.contrib.otel.instruments import Instruments, Operation
from holdfast.errors import BadOption
from holdfast.hooks import Enqueue, HeaderGiver
from holdfast.job.headers import HEADERS_BYTES, encode_headers
from holdfast.job.record import Inserted

TRACE_FIELDS = frozenset({"traceparent", "tracestate"})
"""What is kept if headers have no room for everything that is propagated."""


class TracedEnqueues:
    """A hook around every enqueue.

    The jobs get the context of the span, unless the caller gave them a context by headers. That one
    stays, and the span links to it.
    """

    def __init__(self, instruments: Instruments, create_spans: bool) -> None:
        self._instruments = instruments
        self._create_spans = create_spans

    @contextmanager
    def __call__(self, enqueue: Enqueue) -> Iterator[None]:
        instruments, creates = self._instruments, self._create_spans and enqueue.is_bulk
        ambient, (_, given) = get_current(), instruments.extracted(enqueue.headers)
        operation = Operation(
            instruments,
            instruments.dimensions(names.ENQUEUE, names.SEND, enqueue.task, enqueue.queue),
            kind=SpanKind.CLIENT if given.is_valid or creates else SpanKind.PRODUCER,
            links=[Link(given)] if given.is_valid else [],
        )
        here = trace.set_span_in_context(operation.span, ambient)
        giver: HeaderGiver = _Shared(instruments, operation, enqueue, here)
        if creates:
            giver = _Created(instruments, operation, enqueue, ambient)
        enqueue.give_headers(giver)
        token = attach(here)
        try:
            yield
            _say_inserted(operation, enqueue)
        except BaseException as error:
            operation.failed(type(error).__name__, error)
            raise
        finally:
            detach(token)
            if enqueue.is_bulk:
                operation.span.set_attribute(names.BATCH_COUNT, enqueue.sent)
            operation.end(instruments.sent, instruments.operation_duration, enqueue.sent)


class _Shared:
    """Gives every job of an enqueue the context of the enqueue's span."""

    def __init__(
        self, instruments: Instruments, operation: Operation, enqueue: Enqueue, context: Context
    ) -> None:
        self._instruments = instruments
        self._span = operation.span
        self._enqueue = enqueue
        self._carrier = instruments.injected(context)

    def __call__(self, job_id: str, headers: Mapping[str, str]) -> Mapping[str, str]:
        if not self._enqueue.is_bulk:
            self._span.set_attribute(names.MESSAGE_ID, job_id)
        if headers and self._instruments.extracted(headers)[1].is_valid:
            return {}
        return fitting(self._carrier, headers)


class _Created:
    """Gives each job of many the context of its own span. The span of the enqueue links to it."""

    def __init__(
        self, instruments: Instruments, operation: Operation, enqueue: Enqueue, context: Context
    ) -> None:
        self._instruments = instruments
        self._span = operation.span
        self._queue = enqueue.queue
        self._dimensions = instruments.dimensions(
            names.CREATE, names.CREATE, enqueue.task, enqueue.queue
        )
        self._context = context

    def __call__(self, job_id: str, headers: Mapping[str, str]) -> Mapping[str, str]:
        if headers and self._instruments.extracted(headers)[1].is_valid:
            return {}
        message = {names.MESSAGE_ID: job_id}
        created = self._instruments.tracer.start_span(
            f"{names.CREATE} {self._queue}",
            self._context,
            SpanKind.PRODUCER,
            {**self._dimensions, **message},
        )
        created.end()
        self._span.add_link(created.get_span_context(), message)
        context = trace.set_span_in_context(created, self._context)
        return fitting(self._instruments.injected(context), headers)


def fitting(carrier: Mapping[str, str], headers: Mapping[str, str]) -> Mapping[str, str]:
    """As much of what is propagated as fits beside the headers of a job: a long baggage must not
    fail an enqueue."""
    if sum(map(len, (*carrier.values(), *headers, *headers.values()))) < HEADERS_BYTES // 8:
        return carrier  # whatever JSON has to escape
    trace_only = {name: carrier[name] for name in carrier.keys() & TRACE_FIELDS}
    for some in (carrier, trace_only):
        try:
            encode_headers({**some, **headers})
        except BadOption:
            continue
        return some
    return {}


def _say_inserted(operation: Operation, enqueue: Enqueue) -> None:
    """Name the job that stands for the call: with a unique key it may be an older one."""
    match enqueue.inserted:
        case [Inserted(id=job_id, how=how)] if not enqueue.is_bulk:
            operation.span.set_attributes({names.MESSAGE_ID: job_id, names.HOW: how})
