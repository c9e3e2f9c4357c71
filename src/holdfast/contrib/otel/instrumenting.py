"""`instrument`: the hooks that make the spans of one app."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opentelemetry.metrics import MeterProvider
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import TracerProvider

from holdfast.contrib.otel import names
from holdfast.contrib.otel.attempts import (
    TracedAttempts,
    carry_to_child,
    continue_in_child,
    trace_fields,
)
from holdfast.contrib.otel.enqueues import TracedEnqueues
from holdfast.contrib.otel.instruments import Instruments
from holdfast.errors import BadOption
from holdfast.logs.formats import add_fields

if TYPE_CHECKING:
    from holdfast.app import App


def instrument(
    app: App,
    *,
    trace_parent: bool = False,
    create_spans: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    propagator: TextMapPropagator | None = None,
) -> None:
    """Make spans and measurements of every enqueue and every attempt of this app, and let the
    records of `holdfast.logs.JobFields` name their trace.

    An attempt has a trace of its own, with a link to the enqueue. With `trace_parent` it is a child
    of the enqueue, in the same trace. With `create_spans` each job of an `enqueue_many` has a span
    of its own, to which its attempts link. Providers and propagator are the global ones, unless
    they are given.
    """
    if any(isinstance(hook, TracedAttempts) for hook in app.hooks.around_attempt):
        raise BadOption("instrument", "called once for each app", "a second call")
    where = _server(app.settings.url)
    instruments = Instruments(
        tracer_provider,
        meter_provider,
        propagator,
        where,
        hides_errors=app.settings.hides_errors,
    )
    app.around_enqueue(TracedEnqueues(instruments, create_spans))
    app.around_attempt(TracedAttempts(instruments, app.registry, trace_parent))
    app.to_child(carry_to_child)
    app.in_thread(continue_in_child)
    add_fields(trace_fields)


def _server(url: str) -> dict[str, str | int]:
    """Where the jobs are kept, if that is a server."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # several hosts, which no attribute can name
        return {}
    if parts.scheme.startswith("sqlite") or host is None:
        return {}
    return {names.SERVER_ADDRESS: host} | ({} if port is None else {names.SERVER_PORT: port})
