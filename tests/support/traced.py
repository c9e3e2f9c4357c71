"""Handlers that tell what they see of a trace, some of them in child processes."""

from __future__ import annotations

from typing import Any

from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def hexed(context: trace.SpanContext) -> str:
    """A span context as `trace-span`."""
    return f"{trace.format_trace_id(context.trace_id)}-{trace.format_span_id(context.span_id)}"


def seen() -> dict[str, Any]:
    """What is current here, and what a span that is made here has as its parent."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("of the handler").start_as_current_span("inside"):
        pass
    [span] = exporter.get_finished_spans()
    return {
        "current": hexed(trace.get_current_span().get_span_context()),
        "parent": None if span.parent is None else hexed(span.parent),
        "tenant": baggage.get_baggage("tenant"),
    }


async def seen_on_the_loop() -> dict[str, Any]:
    return seen()


def raising() -> None:
    raise LookupError("no such order")
