"""Metrics: the table, what fills it, and the text that Prometheus reads."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric as Read
from prometheus_client.parser import text_string_to_metric_families

from holdfast.job.ids import WorkerId
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.facts import SlotFacts, WorkerFacts
from holdfast.store.contract.measures import MOST_PAIRS, OTHERS, JobTimes, PairTimes
from holdfast.store.contract.queues import Paused, QueueInfo, QueueSettings
from holdfast.store.contract.telemetry import Tally, Total
from holdfast.store.contract.workers import WorkerInfo
from holdfast.telemetry import metrics, of_store
from holdfast.telemetry.metrics import STORE_METRICS, WORKER_METRICS, Family, Kind, Metric
from holdfast.telemetry.of_store import (
    Figures,
    ScheduleFigures,
    store_families,
)
from holdfast.telemetry.of_worker import FIELDS, worker_families
from holdfast.telemetry.scale import scale
from holdfast.telemetry.sketch import Sketch
from holdfast.telemetry.text import to_text

Labels = tuple[tuple[str, str], ...]
SAID = {"mail": SlotFacts(used=4, free=5, stuck=1), "eu*": SlotFacts(free=3, stuck=2)}
STATES = ("used", "free", "stuck")


def read(text: str) -> dict[str, dict[Labels, float]]:
    """What the parser of `prometheus-client` finds, by name and labels. A sample that comes twice
    is an error, and so is a counter whose samples are not called a total."""
    found: dict[str, dict[Labels, float]] = defaultdict(dict)
    family: Read
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            at = tuple(sorted(sample.labels.items()))
            assert at not in found[sample.name], (sample.name, at)
            assert (family.type == "counter") == sample.name.endswith("_total")
            found[sample.name][at] = sample.value
    return dict(found)


def queue(name: str = "mail", **facts: Any) -> QueueInfo:
    plain: dict[str, Any] = {
        "paused": False,
        "cooling_for": None,
        "throttles": 0,
        "settings": QueueSettings(),
        "counts": {},
        "oldest_ready_age": None,
    }
    return QueueInfo(name, **(plain | facts))


def worker(queues: Mapping[str, int], **facts: Any) -> WorkerInfo:
    return WorkerInfo(
        WorkerId("w"), "w", "host", 1, dict(queues), (), "1", **({"expires_in": 30.0} | facts)
    )


def figures(**parts: Any) -> Figures:
    plain: dict[str, Any] = {
        "kind": "sqlite",
        "totals": [],
        "tallies": [],
        "queues": [],
        "paused": Paused(),
        "workers": [],
        "schedules": {},
        "counts": {},
        "times": [],
    }
    return Figures(**(plain | parts))


def told(**parts: Any) -> dict[str, dict[Labels, float]]:
    return read(to_text(store_families("sqlite", figures(**parts))))


def by(**labels: str) -> Labels:
    return tuple(sorted(labels.items()))


# The table -----------------------------------------------------------------------------------


def test_every_metric_has_the_prefix_and_says_its_unit() -> None:
    """Elsewhere metrics had no prefix and no counters."""
    every = {*STORE_METRICS, *WORKER_METRICS}
    assert len({metric.name for metric in every}) == len(every)
    for metric in every:
        assert metric.name.startswith("holdfast_")
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert metric.about.endswith(".")
        assert "\\" not in metric.about
        assert "\n" not in metric.about


def test_the_labels_of_a_store_are_few_and_bounded() -> None:
    labels = {label for metric in STORE_METRICS for label in metric.labels}
    ours = {"store", "version", "python"}
    assert labels - ours == {"queue", "task", "what", "state", "schedule", "reconciler", "result"}


# The text ------------------------------------------------------------------------------------

CORPUS = [
    "mail",
    "",
    'a "quoted" name',
    "back\\slash",
    "\\",
    "\\n",
    "\\\\n",
    "two\nlines",
    "\r\n",
    '"',
    '\\"',
    "}",
    "{a=1}",
    "a,b=c",
    "#",
    "# HELP x",
    "Grüße, 世界 🎉",
    "\u2028\u2029\x85\x0b\x0c\x1c",
    " spaces ",
    "\ttab",
    "…",
    "NaN",
    "x" * 500,
]
PLAIN = Metric("holdfast_test", Kind.GAUGE, "A test.", ("queue", "task"))


@pytest.mark.parametrize("value", CORPUS, ids=range(len(CORPUS)))
def test_a_label_is_read_back_as_it_was(value: str) -> None:
    text = to_text([Family.of(PLAIN, [(("first", value), 1), ((value, "second"), 2)])])
    expected = {by(queue="first", task=value): 1.0, by(queue=value, task="second"): 2.0}
    without = {tuple(one for one in at if one[1]): number for at, number in expected.items()}
    assert read(text) == {"holdfast_test": without}


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=False))
def test_any_label_and_any_number_is_read_back(value: str, number: float) -> None:
    text = to_text([Family.of(PLAIN, [((value, "t"), number)])])
    [(at, found)] = read(text)["holdfast_test"].items()
    assert (dict(at).get("queue", ""), found) == (value, number)


def test_large_counts_stay_exact() -> None:
    text = to_text([Family.of(PLAIN, [(("q", "t"), 2**53 - 1)])])
    assert text.splitlines()[-1] == f'holdfast_test{{queue="q",task="t"}} {2**53 - 1}'


def test_a_metric_without_samples_is_not_told() -> None:
    assert to_text([Family.of(PLAIN, [])]) == ""


# Of a store ------------------------------------------------------------------------------------


def test_a_store_that_does_not_answer_is_told_as_down_and_nothing_else() -> None:
    found = read(to_text(store_families("postgres", None)))
    assert found["holdfast_store_up"] == {by(store="postgres"): 0}
    assert found.keys() == {"holdfast_store_up", "holdfast_build_info"}


def test_moves_are_counters() -> None:
    found = told(totals=[Total("mail", "send", What.RETRIED, 3)])["holdfast_jobs_total"]
    assert found == {
        by(queue="mail", task="send", what="retried"): 3,
        by(queue="mail", task="send", what="enqueued"): 0,
        by(queue="mail", task="send", what="succeeded"): 0,
        by(queue="mail", task="send", what="failed"): 0,
    }, "a rate of failures needs a value before the first failure"


def test_every_state_of_a_queue_is_told_also_at_0() -> None:
    tallies = [
        Tally("mail", "a", JobState.READY, 2),
        Tally("mail", "b", JobState.READY, 3),
        Tally("mail", "b", JobState.FAILED, 1),
        Tally("forgotten", "b", JobState.SUCCEEDED, 7),
    ]
    found = told(queues=[queue()], tallies=tallies)["holdfast_queue_jobs"]
    assert found[by(queue="mail", state="ready")] == 5
    assert found[by(queue="mail", state="failed")] == 1
    assert found[by(queue="mail", state="running")] == 0
    assert found[by(queue="forgotten", state="succeeded")] == 7
    assert len(found) == 2 * len(JobState)


def test_lag_is_told_in_fractions_of_a_second() -> None:
    """Elsewhere it was told in whole seconds."""
    queues = [queue("a", oldest_ready_age=0.125), queue("b")]
    assert told(queues=queues)["holdfast_queue_lag_seconds"] == {
        by(queue="a"): 0.125,
        by(queue="b"): 0.0,
    }


def test_a_queue_is_paused_by_its_name_or_with_all_others() -> None:
    queues = [queue("a", paused=True), queue("b", cooling_for=1.5)]
    found = told(queues=queues)
    assert found["holdfast_queue_paused"] == {by(queue="a"): 1, by(queue="b"): 0}
    assert found["holdfast_queue_cooling_seconds"] == {by(queue="a"): 0, by(queue="b"): 1.5}
    found = told(queues=queues, paused=Paused(everything=True))
    assert found["holdfast_queue_paused"] == {by(queue="a"): 1, by(queue="b"): 1}


def test_lapsed_workers_are_not_counted_as_alive_and_serve_nothing() -> None:
    """Elsewhere stale workers counted as live, and only the leader's gauges were told."""
    workers = [
        worker({"mail": 10, "eu*": 5}, facts=WorkerFacts(slots=SAID)),
        worker({"mail": 3}),
        worker({"late": 50}, expires_in=-1.0, facts=WorkerFacts(slots=SAID)),
        worker({"last": 2}, drain_requested_at=datetime(2026, 1, 1, tzinfo=UTC)),
    ]
    queues = [queue(name) for name in ("mail", "eu-7", "late", "last")]
    found = told(workers=workers, queues=queues)
    states = {by(state="alive"): 2, by(state="draining"): 1, by(state="lapsed"): 1}
    assert found["holdfast_workers"] == states
    slots = found["holdfast_slots"]
    assert [slots[by(queue="mail", state=each)] for each in STATES] == [4, 8, 1]
    assert [slots[by(queue="eu*", state=each)] for each in STATES] == [0, 3, 2]
    assert [slots[by(queue="last", state=each)] for each in STATES] == [0, 2, 0]
    assert len(slots) == 3 * len(STATES)
    unserved = {"mail": 0, "eu-7": 0, "late": 1, "last": 1}
    assert found["holdfast_queue_unserved"] == {by(queue=name): n for name, n in unserved.items()}


def test_what_workers_counted_is_told_by_reconciler_and_result() -> None:
    counts = {
        "claimed": 10,
        "refused_writes": 2,
        "reconciler.promotion.mended": 7,
        "reconciler.promotion.errors": 1,
        "reconciler.deadline.failed": 3,
    }
    found = told(counts=counts)
    assert found["holdfast_refused_writes_total"] == {(): 2}
    items = found["holdfast_reconciler_items_total"]
    assert items[by(reconciler="promotion", result="mended")] == 7
    assert items[by(reconciler="deadline", result="failed")] == 3
    assert items[by(reconciler="deadline", result="mended")] == 0
    errors = found["holdfast_reconciler_errors_total"]
    assert errors == {by(reconciler="promotion"): 1, by(reconciler="deadline"): 0}
    assert told()["holdfast_refused_writes_total"] == {(): 0}


def test_workers_are_told_also_when_there_are_none() -> None:
    states = ("alive", "draining", "lapsed")
    assert told()["holdfast_workers"] == {by(state=each): 0 for each in states}


def test_schedules_tell_their_lateness_and_their_trouble() -> None:
    schedules = {"nightly": ScheduleFigures(90.5, False), "planned": ScheduleFigures(None, True)}
    found = told(schedules=schedules)
    assert found["holdfast_schedule_lateness_seconds"] == {by(schedule="nightly"): 90.5}
    failing = {by(schedule="nightly"): 0, by(schedule="planned"): 1}
    assert found["holdfast_schedule_failing"] == failing


# Bounds ----------------------------------------------------------------------------------------


def totals(queues: int, tasks: int) -> list[Total]:
    found = [
        Total(f"q{q:05}", f"t{t:05}", what, 1 + q + t)
        for q in range(queues)
        for t in range(tasks)
        for what in (What.ENQUEUED, What.CLAIMED)
    ]
    random.Random(7).shuffle(found)
    return found


@pytest.mark.parametrize(("queues", "tasks"), [(1, 1_200), (30, 50), (1_500, 1), (1_500, 2)])
def test_pairs_beyond_the_bound_are_added_up_and_the_sum_stays_exact(
    queues: int, tasks: int
) -> None:
    given = totals(queues, tasks)
    found = told(totals=given)["holdfast_jobs_total"]
    pairs = {(dict(at)["queue"], dict(at)["task"]) for at in found}
    own = {pair for pair in pairs if pair[1] != OTHERS}
    assert len(own) == MOST_PAIRS
    assert len(pairs - own) <= MOST_PAIRS + 1
    for what in What:
        expected = sum(total.jobs for total in given if total.what is what)
        assert sum(n for at, n in found.items() if ("what", what.value) in at) == expected


def test_the_last_pair_that_fits_has_its_own_label() -> None:
    found = told(totals=totals(1, MOST_PAIRS))["holdfast_jobs_total"]
    assert not any(("task", OTHERS) in at for at in found)
    found = told(totals=totals(1, MOST_PAIRS + 1))["holdfast_jobs_total"]
    assert found[by(queue="q00000", task=OTHERS, what="enqueued")] == MOST_PAIRS + 1


@given(st.permutations(totals(4, 4)), st.integers(0, 32), st.integers(0, 32))
def test_no_counter_goes_down_when_new_queues_and_tasks_come(
    many: list[Total], first: int, second: int
) -> None:
    """In whatever order they come; also what is added up beyond the bound."""
    with patch.object(of_store, "MOST_PAIRS", 3):
        before, after = (
            told(totals=many[:count]).get("holdfast_jobs_total", {})
            for count in sorted((first, second))
        )
    assert [at for at, number in before.items() if after.get(at, number) < number] == []
    assert sum(before.values()) <= sum(after.values())


def test_queues_beyond_the_bound_share_the_worst_value() -> None:
    queues = [queue(f"q{n:05}", oldest_ready_age=float(n)) for n in range(MOST_PAIRS + 5)]
    tallies = [Tally(one.name, "t", JobState.READY, 2) for one in queues]
    found = told(queues=queues, tallies=tallies)
    lag = found["holdfast_queue_lag_seconds"]
    assert (len(lag), lag[by(queue=OTHERS)]) == (MOST_PAIRS + 1, MOST_PAIRS + 4)
    ready = found["holdfast_queue_jobs"][by(queue=OTHERS, state="ready")]
    assert ready == 5 * 2


def pair_times(queue: str, task: str, *runs: float) -> PairTimes:
    return PairTimes(queue, task, JobTimes(Sketch.of([0.5]), Sketch.of(runs), Sketch.of(runs)))


def test_times_are_told_as_histograms_whose_buckets_are_exact() -> None:
    runs = (0.0005, 0.25, 0.2500001, 3.0, 100_000.0)
    found = told(times=[pair_times("mail", "send", *runs)])
    buckets = found["holdfast_job_run_seconds_bucket"]
    for bound in metrics.BOUNDS:
        expected = sum(seconds <= bound for seconds in runs)
        assert buckets[by(queue="mail", task="send", le=repr(bound))] == expected
    assert buckets[by(queue="mail", task="send", le="+Inf")] == 5
    assert found["holdfast_job_run_seconds_count"] == {by(queue="mail", task="send"): 5}
    [total] = found["holdfast_job_run_seconds_sum"].values()
    assert total == pytest.approx(sum(runs), abs=1e-5)
    assert found["holdfast_job_wait_seconds_count"] == {by(queue="mail", task="send"): 1}
    assert found["holdfast_job_total_seconds_count"] == {by(queue="mail", task="send"): 5}


def test_the_times_of_pairs_beyond_the_bound_are_added_up() -> None:
    """Also those that a worker has measured under the others itself."""
    many = [pair_times("mail", f"task-{n:05}", 1.0) for n in range(MOST_PAIRS + 3)]
    found = told(times=[*many, pair_times("mail", OTHERS, 1.0)])["holdfast_job_run_seconds_count"]
    assert len(found) == MOST_PAIRS + 1
    assert found[by(queue="mail", task=OTHERS)] == 4


# Of a worker -----------------------------------------------------------------------------------

HEALTH: dict[str, Any] = {
    "live": True,
    "ready": False,
    "started": True,
    "leaving": "",
    "worker": "w",
    "slots": 10,
    "busy": 3,
    "stuck": 1,
    "running": 5,
    "unwritten": 2,
    "claimed": 40,
    "ended": 30,
    "refused": 1,
    "discarded": 0,
    "telemetry_dropped": 6,
    "handed_back": 4,
    "loop_lag": 0.25,
    "last_beat_age": 1.5,
    "last_claim_age": 0.5,
    "store_out_of_reach_for": 0.0,
    "reconcilers": {
        "promotion": {"mended": 7, "refused": 0, "failed": 1, "skipped": 0, "errors": 2}
    },
}


def test_a_worker_tells_of_itself() -> None:
    found = read(to_text(worker_families(HEALTH)))
    assert found.keys() == {metric.name for metric in WORKER_METRICS}
    assert found["holdfast_worker_live"] == {(): 1}
    assert found["holdfast_worker_ready"] == {(): 0}
    assert found["holdfast_worker_slots"] == {
        by(state="busy"): 3,
        by(state="stuck"): 1,
        by(state="free"): 6,
    }
    assert found["holdfast_worker_claims_total"] == {(): 40}
    assert found["holdfast_worker_loop_lag_seconds"] == {(): 0.25}
    items = found["holdfast_worker_reconciler_items_total"]
    assert items[by(reconciler="promotion", result="mended")] == 7
    assert found["holdfast_worker_reconciler_errors_total"] == {by(reconciler="promotion"): 2}
    assert FIELDS.keys() < set(WORKER_METRICS)


def test_a_worker_that_has_not_started_tells_that_it_lives() -> None:
    starting = {"live": True, "ready": False, "started": False}
    found = read(to_text(worker_families(starting)))
    assert found.keys() == {"holdfast_build_info", "holdfast_worker_live", "holdfast_worker_ready"}


def test_processes_of_a_group_are_told_apart() -> None:
    group = {"live": True, "ready": True, "processes": {1: HEALTH, 2: HEALTH | {"claimed": 2}}}
    found = read(to_text(worker_families(group)))
    assert found["holdfast_worker_claims_total"] == {by(process="1"): 40, by(process="2"): 2}


# To scale by ------------------------------------------------------------------------------------


def test_a_scaler_hears_what_workers_could_do_now() -> None:
    counts = {JobState.READY: 7, JobState.RUNNING: 2, JobState.SCHEDULED: 100}
    some = figures(
        queues=[
            queue("a", counts=counts, oldest_ready_age=0.5),
            queue("b", counts=counts, oldest_ready_age=9.5, paused=True),
        ],
        workers=[worker({"a": 10})],
    )
    both = scale(some)
    assert both["queues"]["a"] == {
        "ready": 7,
        "running": 2,
        "work": 9,
        "lag": 0.5,
        "paused": False,
        "slots": 10,
    }
    assert both["queues"]["b"]["work"] == 2, "a paused queue needs no more workers"
    assert (both["ready"], both["running"], both["work"], both["lag"]) == (14, 4, 11, 9.5)
    assert scale(some, "a") == both["queues"]["a"]
    assert scale(some, "new")["work"] == 0, "a queue whose first job is still to come"


def test_the_unused_name_is_no_legal_name() -> None:
    from holdfast.errors import BadOption
    from holdfast.job.checks import check_name

    with pytest.raises(BadOption):
        check_name("task name", OTHERS)
    assert metrics.JOBS.labels == ("queue", "task", "what")
