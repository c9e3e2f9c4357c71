"""How a running worker is: facts for a health endpoint, and whether it has lost its store."""

from __future__ import annotations

import time

from holdfast.worker.pipeline import Pipeline


def facts(pipeline: Pipeline) -> dict[str, object]:
    """`alive` False means: do not count on this worker. Ages and times are seconds."""
    heartbeat, outage = pipeline.identity.heartbeat, pipeline.setup.outage
    counters = pipeline.finisher.counters
    return {
        "alive": pipeline.identity.trusted and not stalled_for(pipeline),
        "worker": pipeline.identity.id,
        "last_beat_age": round(time.monotonic() - heartbeat.last_beat, 3),
        "last_claim_age": round(pipeline.fetcher.last_claim_age, 3),
        "store_out_of_reach_for": round(outage.lasted, 3),
        "store_says": outage.reason,
        "running": len(pipeline.runner.running),
        "unwritten": pipeline.finisher.unwritten,
        "stuck": len(pipeline.runner.stuck),
        "loop_lag": round(max(heartbeat.watchdog.lag, heartbeat.watchdog.blocked_for), 3),
        "ended": counters.ended,
        "refused": counters.refused,
        "discarded": pipeline.runner.discarded,
    }


def stalled_for(pipeline: Pipeline) -> float:
    """Seconds without an answer to claims or to heartbeats, once they are too many."""
    lease = pipeline.setup.options.lease
    unheard = time.monotonic() - pipeline.identity.heartbeat.last_answer
    lasted = max(pipeline.setup.outage.lasted, unheard - lease / 3)
    return lasted if lasted > 2 * lease else 0.0


def holds_anything(pipeline: Pipeline) -> bool:
    """Whether handlers run or ends are unwritten: leaving now would lose them."""
    return bool(pipeline.runner.running) or bool(pipeline.finisher.unwritten)
