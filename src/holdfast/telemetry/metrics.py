"""The table of all metrics. The reference page, the dashboard and the alerts are held to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain

import msgspec

from holdfast.telemetry.sketch import Sketch


class Kind(StrEnum):
    """How a metric behaves: a counter never goes down, a gauge may. A histogram is counters of
    how many values were at most so large, of all of them, and of their sum."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True):
    """One metric: its name, what it says, and the labels that tell its samples apart."""

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()


class Sample(msgspec.Struct, frozen=True):
    """One value, and the values of the labels that it has. A sample of a histogram has a name of
    its own, which is that of the metric with a suffix."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


class Family(msgspec.Struct, frozen=True):
    """All samples of one metric."""

    metric: Metric
    samples: tuple[Sample, ...]

    @classmethod
    def of(cls, metric: Metric, values: Iterable[tuple[tuple[str, ...], float]]) -> Family:
        """From pairs of label values, in the order of the metric's labels, and a number."""
        named = (Sample(dict(zip(metric.labels, at, strict=True)), n) for at, n in values)
        return cls(metric, tuple(named))

    @classmethod
    def single(cls, metric: Metric, value: float) -> Family:
        return cls.of(metric, [((), value)])

    @classmethod
    def of_times(cls, metric: Metric, sketches: Iterable[tuple[tuple[str, ...], Sketch]]) -> Family:
        """A histogram for each pair of label values and a sketch."""
        named = ((dict(zip(metric.labels, at, strict=True)), each) for at, each in sketches)
        return cls(metric, tuple(chain.from_iterable(_histogram(*one) for one in named)))


def _histogram(labels: Mapping[str, str], sketch: Sketch) -> Iterator[Sample]:
    for bound, number in zip(BOUNDS, sketch.up_to(BOUNDS), strict=True):
        yield Sample({**labels, "le": repr(bound)}, number, "_bucket")
    yield Sample({**labels, "le": "+Inf"}, sketch.count, "_bucket")
    yield Sample(labels, sketch.seconds, "_sum")
    yield Sample(labels, sketch.count, "_count")


C, G, H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

BOUNDS = tuple(4.0**exponent for exponent in range(-5, 9))
"""Seconds, from a millisecond to 18 hours. Powers of four are bounds of a sketch's buckets, so the
counts of a histogram are exact."""

BUILD_INFO = Metric("holdfast_build_info", G, "Always 1. What answers.", ("version", "python"))

# Of the store ------------------------------------------------------------------------------

STORE_UP = Metric("holdfast_store_up", G, "Whether the store answered in time: 1 or 0.", ("store",))
JOBS = Metric(
    "holdfast_jobs_total",
    C,
    "Moves of jobs since the store was made, by what moved them.",
    ("queue", "task", "what"),
)
PAIR = ("queue", "task")
JOB_WAIT = Metric(
    "holdfast_job_wait_seconds",
    H,
    "How long jobs were ready before their function was called.",
    PAIR,
)
JOB_RUN = Metric("holdfast_job_run_seconds", H, "How long an attempt ran, whatever its end.", PAIR)
JOB_TOTAL = Metric(
    "holdfast_job_total_seconds", H, "From the enqueue of a job to its end, retries included.", PAIR
)
QUEUE_JOBS = Metric(
    "holdfast_queue_jobs", G, "Jobs that are in this state now.", ("queue", "state")
)
QUEUE_LAG = Metric(
    "holdfast_queue_lag_seconds", G, "How long the oldest ready job has waited.", ("queue",)
)
QUEUE_PAUSED = Metric(
    "holdfast_queue_paused", G, "Whether claims from the queue are paused: 1 or 0.", ("queue",)
)
QUEUE_COOLING = Metric(
    "holdfast_queue_cooling_seconds",
    G,
    "How long the queue still gives nothing after a Throttled.",
    ("queue",),
)
QUEUE_UNSERVED = Metric(
    "holdfast_queue_unserved", G, "1 if no live worker serves the queue, else 0.", ("queue",)
)
WORKERS = Metric(
    "holdfast_workers",
    G,
    "Registered workers: alive, draining, or lapsed and not yet swept.",
    ("state",),
)
SLOTS = Metric(
    "holdfast_slots",
    G,
    "Slots of live workers, by queue or pattern: used, free, or lost to handlers that do not end.",
    ("queue", "state"),
)
LATENESS = Metric(
    "holdfast_schedule_lateness_seconds",
    G,
    "How long the oldest plan that nobody has decided about has been due.",
    ("schedule",),
)
FAILING = Metric(
    "holdfast_schedule_failing", G, "1 if the schedule cannot be evaluated, else 0.", ("schedule",)
)
REFUSED_WRITES = Metric(
    "holdfast_refused_writes_total",
    C,
    "Ends that workers wrote and the store refused, because the job was no longer theirs.",
)
RECONCILER_ITEMS = Metric(
    "holdfast_reconciler_items_total",
    C,
    "What became of the things that reconcilers found.",
    ("reconciler", "result"),
)
RECONCILER_ERRORS = Metric(
    "holdfast_reconciler_errors_total",
    C,
    "Sweeps of reconcilers that failed as a whole.",
    ("reconciler",),
)

STORE_METRICS = (
    *(STORE_UP, BUILD_INFO, JOBS, JOB_WAIT, JOB_RUN, JOB_TOTAL),
    *(QUEUE_JOBS, QUEUE_LAG, QUEUE_PAUSED, QUEUE_COOLING),
    *(QUEUE_UNSERVED, WORKERS, SLOTS, LATENESS, FAILING, REFUSED_WRITES, RECONCILER_ITEMS),
    RECONCILER_ERRORS,
)

# Of one worker process -----------------------------------------------------------------------

PROCESS = ("process",)
WORKER_LIVE = Metric("holdfast_worker_live", G, "What the probe /live answers: 1 or 0.", PROCESS)
WORKER_READY = Metric("holdfast_worker_ready", G, "What the probe /ready answers: 1 or 0.", PROCESS)
WORKER_SLOTS = Metric(
    "holdfast_worker_slots", G, "Slots: busy, free or stuck.", ("process", "state")
)
WORKER_HELD = Metric(
    "holdfast_worker_held_jobs", G, "Jobs that it holds, also those that wait for a slot.", PROCESS
)
WORKER_CLAIMS = Metric("holdfast_worker_claims_total", C, "Jobs that it has claimed.", PROCESS)
WORKER_ENDED = Metric(
    "holdfast_worker_ended_total", C, "Jobs whose last end it has written.", PROCESS
)
WORKER_HANDED_BACK = Metric(
    "holdfast_worker_handed_back_total", C, "Jobs that it gave back unfinished.", PROCESS
)
WORKER_REFUSED = Metric(
    "holdfast_worker_refused_writes_total",
    C,
    "Ends that the store refused, because the job was no longer this worker's.",
    PROCESS,
)
WORKER_UNWRITTEN = Metric(
    "holdfast_worker_unwritten", G, "Ends that the store has not answered yet.", PROCESS
)
WORKER_TELEMETRY_DROPPED = Metric(
    "holdfast_worker_telemetry_dropped_total",
    C,
    "Attempts whose times it could not write down: no count is missing, only their times.",
    PROCESS,
)
WORKER_BEAT_AGE = Metric(
    "holdfast_worker_last_beat_age_seconds", G, "Since its last good heartbeat.", PROCESS
)
WORKER_CLAIM_AGE = Metric(
    "holdfast_worker_last_claim_age_seconds", G, "Since it last asked for jobs.", PROCESS
)
WORKER_LOOP_LAG = Metric(
    "holdfast_worker_loop_lag_seconds", G, "How late its event loop turns.", PROCESS
)
WORKER_OUTAGE = Metric(
    "holdfast_worker_store_outage_seconds",
    G,
    "Since the store stopped answering it, or 0.",
    PROCESS,
)
WORKER_RECONCILER_ITEMS = Metric(
    "holdfast_worker_reconciler_items_total",
    C,
    "What became of the things that its reconcilers found.",
    ("process", "reconciler", "result"),
)
WORKER_RECONCILER_ERRORS = Metric(
    "holdfast_worker_reconciler_errors_total",
    C,
    "Sweeps of its reconcilers that failed as a whole.",
    ("process", "reconciler"),
)

WORKER_METRICS = (
    *(BUILD_INFO, WORKER_LIVE, WORKER_READY, WORKER_SLOTS, WORKER_HELD, WORKER_CLAIMS),
    *(WORKER_ENDED, WORKER_HANDED_BACK, WORKER_REFUSED, WORKER_UNWRITTEN),
    *(WORKER_TELEMETRY_DROPPED, WORKER_BEAT_AGE, WORKER_CLAIM_AGE),
    *(WORKER_LOOP_LAG, WORKER_OUTAGE, WORKER_RECONCILER_ITEMS),
    WORKER_RECONCILER_ERRORS,
)
