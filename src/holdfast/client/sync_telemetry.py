"""What the store tells others, for programs without an event loop."""

from __future__ import annotations

from holdfast.client.sync import SyncVerbs, plain
from holdfast.client.telemetry import TelemetryVerbs


class SyncTelemetryVerbs(SyncVerbs):
    """Tell the figures of the whole store."""

    overview = plain(TelemetryVerbs.overview)
    metrics = plain(TelemetryVerbs.metrics)
    scale = plain(TelemetryVerbs.scale)
    stats = plain(TelemetryVerbs.stats)
