"""A program that enqueues one job without a loop, and says which span it did so in."""

from __future__ import annotations

import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import App
from holdfast.contrib.otel import instrument
from tests.support.traced import hexed

if __name__ == "__main__":
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = App(sys.argv[1])
    instrument(app, tracer_provider=provider)
    app.task_named("work").enqueue_sync()
    [span] = exporter.get_finished_spans()
    assert span.context is not None
    print(hexed(span.context))
