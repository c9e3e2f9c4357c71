"""Spans and metrics of OpenTelemetry for every enqueue and every attempt of an app.

    from holdfast.contrib.otel import instrument

    app = App("postgres://…")
    instrument(app)

It is built on the hooks of the app, so a program that does not call `instrument` pays nothing. Only
the API of OpenTelemetry is imported; what is done with spans and measurements is decided by the SDK
that the program sets up, before or after this call.
"""

from __future__ import annotations

try:
    import opentelemetry.trace as _found
except ImportError as _missing:
    raise ImportError(
        "holdfast.contrib.otel needs OpenTelemetry: pip install 'holdfast[otel]'"
    ) from _missing

from holdfast.contrib.otel.instrumenting import instrument

del _found

__all__ = ["instrument"]
