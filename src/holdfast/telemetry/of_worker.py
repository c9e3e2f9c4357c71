"""The metrics of one worker process, from its health: nothing is asked of the store.

Of a group of processes the parent has the health of each child, and `process` is the child's
number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.telemetry import metrics
from holdfast.telemetry.build import build_info
from holdfast.telemetry.metrics import Family, Metric

Health = Mapping[str, Any]
"""What `Worker.health` answers, or a group of processes."""

FIELDS: Mapping[Metric, str] = {
    metrics.WORKER_LIVE: "live",
    metrics.WORKER_READY: "ready",
    metrics.WORKER_HELD: "running",
    metrics.WORKER_CLAIMS: "claimed",
    metrics.WORKER_ENDED: "ended",
    metrics.WORKER_HANDED_BACK: "handed_back",
    metrics.WORKER_REFUSED: "refused",
    metrics.WORKER_UNWRITTEN: "unwritten",
    metrics.WORKER_TELEMETRY_DROPPED: "telemetry_dropped",
    metrics.WORKER_BEAT_AGE: "last_beat_age",
    metrics.WORKER_CLAIM_AGE: "last_claim_age",
    metrics.WORKER_LOOP_LAG: "loop_lag",
    metrics.WORKER_OUTAGE: "store_out_of_reach_for",
}
"""The fact of the health that a metric tells."""


def worker_families(health: Health) -> list[Family]:
    """A worker that has not started tells only that it has not."""
    processes = _processes(health)
    return [build_info(), *(_family(metric, processes) for metric in metrics.WORKER_METRICS[1:])]


def _processes(health: Health) -> dict[str, Health]:
    if "processes" not in health:
        return {"": health}
    return {str(number): one for number, one in health["processes"].items()}


def _family(metric: Metric, processes: Mapping[str, Health]) -> Family:
    told = (
        ((process, *at), value)
        for process, health in processes.items()
        for at, value in _values(metric, health)
    )
    return Family.of(metric, told)


def _values(metric: Metric, health: Health) -> Iterator[tuple[tuple[str, ...], float]]:
    if (field := FIELDS.get(metric)) is not None:
        if field in health:
            value = health[field]
            yield (), int(value) if isinstance(value, bool) else value
    elif metric is metrics.WORKER_SLOTS:
        yield from _slots(health)
    else:
        for reconciler, counts in health.get("reconcilers", {}).items():
            if metric is metrics.WORKER_RECONCILER_ERRORS:
                yield (reconciler,), counts["errors"]
            else:
                results = (result for result in counts if result != "errors")
                yield from (((reconciler, result), counts[result]) for result in results)


def _slots(health: Health) -> Iterator[tuple[tuple[str, ...], float]]:
    if "slots" in health:
        busy, stuck = health["busy"], health["stuck"]
        yield ("busy",), busy
        yield ("stuck",), stuck
        yield ("free",), max(0, health["slots"] - busy - stuck)
