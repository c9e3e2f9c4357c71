"""What all spans of one app share: the tracer, the propagator, the counters and the histograms."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Callable, Mapping

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, MeterProvider
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, TracerProvider

import holdfast
from holdfast.contrib.otel import names
from holdfast.errors import ChildRaised
from holdfast.handlers.exceptions import raised
from holdfast.job.redaction import redact
from holdfast.job.text import MESSAGE_LIMIT, TRACEBACK_LIMIT, clean

Attributes = Mapping[str, str | int]


class Instruments:
    """Begins operations. `where` are the attributes of the store. With `hides_errors` spans tell
    the type of an exception and nothing more, as the app encrypts the rest."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        propagator: TextMapPropagator | None,
        where: Attributes,
        *,
        hides_errors: bool = False,
    ) -> None:
        self.hides_errors = hides_errors
        scope = names.SCOPE, holdfast.__version__
        self.tracer = trace.get_tracer(*scope, tracer_provider, names.SCHEMA_URL)
        meter = metrics.get_meter(*scope, meter_provider, names.SCHEMA_URL)
        self._given_propagator = propagator
        self._where = where
        self.sent = meter.create_counter(
            names.SENT, "{message}", "Number of jobs that a program sent to the store."
        )
        self.consumed = meter.create_counter(
            names.CONSUMED, "{message}", "Number of attempts that were given to a handler."
        )
        self.operation_duration = _histogram(
            meter, names.OPERATION_DURATION, "Duration of an enqueue."
        )
        self.process_duration = _histogram(
            meter, names.PROCESS_DURATION, "Duration of an attempt, with its resources and hooks."
        )

    @property
    def _propagator(self) -> TextMapPropagator:
        """The one that is configured now: a program may set up OpenTelemetry after its app."""
        return self._given_propagator or propagate.get_global_textmap()

    def extracted(self, headers: Mapping[str, str]) -> tuple[Context, SpanContext]:
        """What the headers of a job carry, and the context of the span among it. The latter is
        invalid if there is none."""
        found = self._propagator.extract(headers, Context())
        return found, trace.get_current_span(found).get_span_context()

    def injected(self, context: Context) -> dict[str, str]:
        """A context as headers."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, context)
        return carrier

    def dimensions(self, operation: str, kind: str, task: str, queue: str) -> dict[str, str | int]:
        """The attributes that spans and measurements of an operation have in common."""
        return {
            names.MESSAGING_SYSTEM: names.SYSTEM,
            names.OPERATION_NAME: operation,
            names.OPERATION_TYPE: kind,
            names.DESTINATION: queue,
            names.TASK: task,
            **self._where,
        }


def _histogram(meter: metrics.Meter, name: str, description: str) -> Histogram:
    return meter.create_histogram(
        name, "s", description, explicit_bucket_boundaries_advisory=names.BOUNDARIES
    )


class Operation:
    """One enqueue or one attempt, from its begin to its end: a span, a count and a duration."""

    def __init__(
        self,
        instruments: Instruments,
        dimensions: dict[str, str | int],
        *,
        kind: SpanKind,
        context: Context | None = None,
        links: list[Link] | None = None,
        attributes: Attributes | None = None,
    ) -> None:
        self._dimensions = dimensions
        self._hides_errors = instruments.hides_errors
        self._began = time.time_ns()
        self._clock = time.perf_counter_ns()
        self.span: Span = instruments.tracer.start_span(
            f"{dimensions[names.OPERATION_NAME]} {dimensions[names.DESTINATION]}",
            context,
            kind,
            {**dimensions, **(attributes or {})},
            links,
            self._began,
        )

    def failed(
        self, error_type: str, error: BaseException, show: Callable[[str], str] = redact
    ) -> None:
        """Say that an error ended the operation. Its measurements have the type too. `show` gives
        the texts of the error as they may be shown."""
        self._dimensions[names.ERROR_TYPE] = error_type
        if not self.span.is_recording():
            return
        self.span.set_attribute(names.ERROR_TYPE, error_type)
        if isinstance(error, CancelledError):  # how it was stopped, not what went wrong
            self.span.set_status(StatusCode.ERROR, error_type)
            return
        told = _told(error, show)
        if self._hides_errors:
            told = {names.EXCEPTION_TYPE: told[names.EXCEPTION_TYPE]}
        message = told.get(names.EXCEPTION_MESSAGE, error_type)
        described = error_type if message == error_type else f"{error_type}: {message}"
        self.span.set_status(StatusCode.ERROR, described)
        self.span.add_event(names.EXCEPTION, told)

    def end(self, counter: Counter, duration: Histogram, count: int = 1) -> None:
        """End the span, and measure. The span lasts as long as the duration says."""
        took = time.perf_counter_ns() - self._clock
        self.span.end(self._began + took)
        if count:
            counter.add(count, self._dimensions)
        duration.record(took / 1e9, self._dimensions)


def _told(error: BaseException, show: Callable[[str], str]) -> dict[str, str]:
    """What a span tells of an exception, as the history of a job does, and without secrets. An
    exception whose text cannot be made is told too."""
    known = error if isinstance(error, ChildRaised) else raised(error)
    told = {
        names.EXCEPTION_TYPE: known.kind if known is error else _full_name(type(error)),
        names.EXCEPTION_MESSAGE: clean(show(known.message), MESSAGE_LIMIT),
        names.EXCEPTION_STACKTRACE: clean(
            show(known.traceback or ""), TRACEBACK_LIMIT, keep_end=True
        ),
    }
    return {name: text for name, text in told.items() if text}


def _full_name(kind: type) -> str:
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
