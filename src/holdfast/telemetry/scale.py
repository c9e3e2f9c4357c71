"""How much work waits, for whoever starts and stops workers by it (KEDA and the like)."""

from __future__ import annotations

from typing import Any

from holdfast.job.state import JobState
from holdfast.store.contract.queues import QueueInfo
from holdfast.telemetry.of_store import Figures

NOTHING: dict[str, Any] = {
    "ready": 0,
    "running": 0,
    "work": 0,
    "lag": 0.0,
    "paused": False,
    "slots": 0,
}
"""What is said of a queue that nobody has heard of: nothing waits in it."""


def scale(figures: Figures, queue: str | None = None) -> dict[str, Any]:
    """One queue, or all of them by name under `queues`, with their sums beside."""
    queues = {found.name: _queue(figures, found) for found in figures.queues}
    if queue is not None:
        return queues.get(queue, NOTHING)
    sums = {key: sum(one[key] for one in queues.values()) for key in ("ready", "running", "work")}
    lag = max((one["lag"] for one in queues.values()), default=0.0)
    return {**sums, "lag": lag, "queues": queues}


def _queue(figures: Figures, queue: QueueInfo) -> dict[str, Any]:
    """`work` counts what workers could do now: jobs of a paused queue need no worker, but those
    that run keep theirs."""
    ready, running = (queue.counts.get(state, 0) for state in (JobState.READY, JobState.RUNNING))
    paused = figures.is_paused(queue)
    return {
        "ready": ready,
        "running": running,
        "work": running + (0 if paused else ready),
        "lag": queue.oldest_ready_age or 0.0,
        "paused": paused,
        "slots": sum(worker.usable_slots(queue.name) for worker in figures.available),
    }
