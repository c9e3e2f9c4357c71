"""Spans of OpenTelemetry: an attempt links to the enqueue that it comes from."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import App
from holdfast.contrib.otel import instrument

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))

app = App("sqlite://")
instrument(app, tracer_provider=provider)


@app.task(queue="mail")
def send_email(to: str) -> str:
    return f"{trace.get_current_span().get_span_context().span_id:016x}"


async def test_an_attempt_links_to_its_enqueue() -> None:
    async with app:
        job = await send_email.enqueue("a@example.org")
        async with app.worker() as worker:
            await worker.drain()
        inside = await job.result()
    enqueued, processed = exporter.get_finished_spans()
    assert (enqueued.name, processed.name) == ("enqueue mail", "process mail")
    assert enqueued.context is not None
    assert processed.context is not None
    assert [link.context.span_id for link in processed.links] == [enqueued.context.span_id]
    assert f"{processed.context.span_id:016x}" == inside, "it is current in the handler's thread"
