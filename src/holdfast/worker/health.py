"""How a running worker is: facts for probes, and whether it has lost its store.

Nothing here asks the store or waits for anything, and any thread may call it: a probe must be
answered while the event loop is blocked and while the store is away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from holdfast.background.service import Service
from holdfast.telemetry.of_store import RESULTS
from holdfast.worker.facts import loop_counters
from holdfast.worker.pipeline import Pipeline

LONGEST_LAG_SECONDS = 60.0
"""A worker whose event loop, or whose heartbeat's thread, has not turned for so long is dead."""
PRIVATE = frozenset({"store_says"})
"""Facts that stay in the process: the words of the store's errors may name hosts and users."""

AskHealth = Callable[[], Mapping[str, object]]


def facts(pipeline: Pipeline) -> dict[str, object]:
    """Ages and times are seconds."""
    heartbeat, outage = pipeline.identity.heartbeat, pipeline.setup.outage
    counters, running = pipeline.finisher.counters, pipeline.runner.running.copy()
    return {
        "worker": pipeline.identity.id,
        "last_beat_age": round(time.monotonic() - heartbeat.last_beat, 3),
        "last_claim_age": round(pipeline.fetcher.last_claim_age, 3),
        "store_out_of_reach_for": round(outage.lasted, 3),
        "store_says": outage.reason,
        "slots": pipeline.permits.total,
        "busy": sum(attempt.begun for attempt in running.values()),
        "running": len(running),
        "unwritten": pipeline.finisher.unwritten,
        "stuck": len(pipeline.runner.stuck),
        "resting": pipeline.places.resting,
        "loop_lag": round(heartbeat.watchdog.late_by, 3),
        "claimed": pipeline.fetcher.claimed,
        "ended": counters.ended,
        "handed_back": counters.handed_back,
        "refused": counters.refused,
        "discarded": pipeline.runner.discarded,
        "telemetry_dropped": pipeline.meter.dropped,
    }


def reconciled(services: Iterable[Service]) -> dict[str, dict[str, int]]:
    """What each loop of these services did, by its name: its items by result, and its errors."""
    return {
        name: {result: getattr(one.items, result) for result in RESULTS} | {"errors": one.errors}
        for name, one in loop_counters(services).items()
    }


def is_live(pipeline: Pipeline) -> bool:
    """Whether the event loop turns and the thread that keeps the lease turns. An outage of the
    store is no reason to end a process: its successor could do no more."""
    watchdog = pipeline.identity.heartbeat.watchdog
    unwatched = time.monotonic() - watchdog.last_turn
    return max(watchdog.late_by, unwatched) < LONGEST_LAG_SECONDS


def is_trusted(pipeline: Pipeline) -> bool:
    """Whether the lease holds, and the store was reached within the last two leases."""
    return pipeline.identity.trusted and not stalled_for(pipeline)


def stalled_for(pipeline: Pipeline) -> float:
    """Seconds without an answer to claims or to heartbeats, once they are too many."""
    lease = pipeline.setup.options.lease
    unheard = time.monotonic() - pipeline.identity.heartbeat.last_answer
    lasted = max(pipeline.setup.outage.lasted, unheard - lease / 3)
    return lasted if lasted > 2 * lease else 0.0


def holds_anything(pipeline: Pipeline) -> bool:
    """Whether handlers run or ends are unwritten: leaving now would lose them."""
    return bool(pipeline.runner.running) or bool(pipeline.finisher.unwritten)
