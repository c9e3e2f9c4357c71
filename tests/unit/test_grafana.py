"""The dashboard, the alerts and the reference page name metrics and labels that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import yaml

from holdfast.job.state import JobState
from holdfast.job.what import IN_PLACE, What
from holdfast.store.contract.workers import WorkerStanding
from holdfast.telemetry.metrics import STORE_METRICS, WORKER_METRICS, Kind, Metric
from holdfast.telemetry.of_store import RESULTS
from tests.support.source import ROOT

GRAFANA = ROOT / "docs/grafana"
SUFFIXES = ("_bucket", "_sum", "_count")
KNOWN = {metric.name: metric for metric in (*STORE_METRICS, *WORKER_METRICS)}
SAMPLES = {
    name: metric
    for metric in KNOWN.values()
    for name in (
        [metric.name + suffix for suffix in SUFFIXES]
        if metric.kind is Kind.HISTOGRAM
        else [metric.name]
    )
}
"""The metrics by the names of their samples, which expressions name."""
NAME = re.compile(r"\bholdfast_\w+")
SELECTED = re.compile(r"(holdfast_\w+)(?:\{([^}]*)\})?(\[)?")
MATCHER = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
SET_BY_PROMETHEUS = {"instance", "job"}
VALUES = {
    "what": {what.value for what in set(What) - IN_PLACE},
    "result": set(RESULTS),
}
STATES = {
    "holdfast_queue_jobs": {state.value for state in JobState},
    "holdfast_workers": {standing.value for standing in WorkerStanding},
    "holdfast_slots": {"used", "free", "stuck"},
    "holdfast_worker_slots": {"busy", "free", "stuck"},
}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GRAFANA / "dashboard.json").read_text("utf-8"))
    return found


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((GRAFANA / "alerts.yml").read_text("utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"]
    for rule in rules():
        yield f"alert {rule['alert']}", rule["expr"]


EACH = list(expressions())


@pytest.mark.parametrize(("where", "expression"), EACH, ids=[where for where, _ in EACH])
def test_an_expression_names_only_what_there_is(where: str, expression: str) -> None:
    assert expression.count("(") == expression.count(")")
    found = SELECTED.findall(expression)
    assert found
    assert {name for name, *_ in found} <= SAMPLES.keys()
    for name, matchers, ranged in found:
        metric = SAMPLES[name]
        assert bool(ranged) == (metric.kind is not Kind.GAUGE), "a counter is read by its rate"
        for label, how, value in MATCHER.findall(matchers):
            assert label in metric.labels
            if value != "$queue":
                one_of = STATES[name] if label == "state" else VALUES[label]
                assert set(value.split("|") if "~" in how else [value]) <= one_of
    grouped = {one.strip() for group in GROUPED.findall(expression) for one in group.split(",")}
    labels = {label for name, *_ in found for label in SAMPLES[name].labels}
    of_buckets = {"le"} if "_bucket" in expression else set()
    assert grouped - {""} <= labels | SET_BY_PROMETHEUS | of_buckets


def test_each_trouble_has_its_alert() -> None:
    """Lag, failures, an unserved queue, no worker, a lapsed one, a late schedule, refused writes,
    and a store that is down."""
    named = {name for rule in rules() for name in NAME.findall(rule["expr"])}
    assert named >= {
        *("holdfast_queue_lag_seconds", "holdfast_jobs_total", "holdfast_queue_unserved"),
        *("holdfast_workers", "holdfast_schedule_lateness_seconds", "holdfast_store_up"),
        "holdfast_refused_writes_total",
    }
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        labels = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert labels <= set(re.findall(r"\w+", " ".join(GROUPED.findall(rule["expr"]))))


def test_the_dashboard_is_whole() -> None:
    found = dashboard()
    ids = [panel["id"] for panel in found["panels"]]
    assert len(ids) == len(set(ids))
    places = [tuple(panel["gridPos"][side] for side in "xy") for panel in found["panels"]]
    assert len(places) == len(set(places)), "no panel lies on another"
    variables = {one["name"] for one in found["templating"]["list"]}
    text = json.dumps(found)
    assert set(re.findall(r"\$\{?([a-z]+)", text)) <= variables
    asked = NAME.findall(" ".join(one.get("definition", "") for one in found["templating"]["list"]))
    assert set(asked) <= KNOWN.keys()


def test_every_metric_of_the_store_is_on_the_dashboard_or_told_why_not() -> None:
    shown = {SAMPLES[name].name for _, each in EACH for name in NAME.findall(each)}
    unused = {metric.name for metric in STORE_METRICS} - shown
    assert unused == {"holdfast_build_info"}, "it says what answers, and nothing to watch"


# The reference -----------------------------------------------------------------------------------


def table(metrics: Iterable[Metric]) -> str:
    lines = ["| metric | kind | labels | what it says |", "|---|---|---|---|"]
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.about} |")
    return "\n".join(lines)


@pytest.mark.parametrize("metrics", [STORE_METRICS, WORKER_METRICS], ids=["store", "worker"])
def test_the_reference_has_the_table_as_it_is(metrics: tuple[Metric, ...]) -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text("utf-8")
    assert table(metrics) in page, f"docs/reference/metrics.md must have:\n\n{table(metrics)}"


def test_the_reference_explains_every_word_by_which_moves_are_counted() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text("utf-8")
    explained = set(re.findall(r"^\| `(\w+)` \| [^|]+\|$", page, re.MULTILINE))
    counted = {what.value for what in set(What) - IN_PLACE}
    assert counted == explained & {what.value for what in What}
    assert set(NAME.findall(page)) <= KNOWN.keys() | SAMPLES.keys()
