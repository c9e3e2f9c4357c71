"""The figures of a run as SVG, for docs/benchmarks.md: `python -m bench.charts RESULT.json`.

One file for each workload that has a rate or a latency, with a panel for each store; one for
growth. Written by hand: a few rectangles and labels do not warrant a plotting library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.charts.bars import Bar, Panel, bar_chart
from bench.charts.lines import Line, line_chart

STORES = {"postgres": "Postgres", "valkey": "Valkey / Redis", "sqlite": "SQLite"}
SHOWN_PEERS = 4


@dataclass(frozen=True, slots=True)
class Bars:
    """How one workload is drawn."""

    workload: str
    title: str
    figure: str
    unit: str


BARS = (
    Bars("single", "Enqueue, one job after the other", "rate", "jobs per second, more is better"),
    Bars("bulk", "Enqueue 20,000 jobs in bulk", "rate", "jobs per second, more is better"),
    Bars("drain", "Drain 20,000 waiting jobs", "rate", "jobs per second, more is better"),
    Bars("two workers", "Drain by two workers", "rate", "jobs per second, more is better"),
    Bars("pickup", "Pickup by an idle worker, median", "p50", "milliseconds, less is better"),
)

Record = Mapping[str, Any]
Entry = Mapping[str, Any]


def charts(record: Record) -> dict[str, str]:
    """File names and what goes into them; a workload that was not measured has no chart."""
    entries: Sequence[Entry] = record["results"]
    drawn: dict[str, str] = {}
    for bars in BARS:
        found = [entry for entry in entries if entry["workload"] == bars.workload]
        if panels := [panel for store in STORES if (panel := _panel(bars, store, found))]:
            name = f"bench-{bars.workload.replace(' ', '-')}.svg"
            drawn[name] = bar_chart(bars.title, bars.unit, panels, _source(record))
    if lines := [_growth(entry) for entry in entries if _has_grown(entry)]:
        title = "Claim and finish as the backlog grows"
        unit = "microseconds per job, by jobs waiting; less is better"
        drawn["bench-growth.svg"] = line_chart(title, unit, lines, _source(record))
    return drawn


def _panel(bars: Bars, store: str, entries: Sequence[Entry]) -> Panel | None:
    """Best first. Of the peers only the fastest few are drawn: the table has them all."""
    measured = [
        Bar(entry["contender"], entry["best"][bars.figure], _role(entry))
        for entry in entries
        if entry["store"] == store and "best" in entry
    ]
    measured.sort(key=lambda bar: bar.value, reverse=bars.figure == "rate")
    peers = [bar for bar in measured if bar.role == "peer"][:SHOWN_PEERS]
    shown = tuple(bar for bar in measured if bar.role != "peer" or bar in peers)
    return Panel(STORES[store], shown) if shown else None


def _role(entry: Entry) -> str:
    if entry.get("peer"):
        return "peer"
    return "floor" if entry["contender"].startswith("floor") else "holdfast"


def _has_grown(entry: Entry) -> bool:
    return entry["workload"] == "growth" and "best" in entry


def _growth(entry: Entry) -> Line:
    """The figures named us_SIZE: what a job cost with that many waiting."""
    points = sorted(
        (int(size), value)
        for name, value in entry["best"].items()
        if name.startswith("us_") and (size := name.removeprefix("us_")).isdigit()
    )
    return Line(STORES[entry["store"]], tuple(points))


def _source(record: Record) -> str:
    """When, on what and with which versions: a figure without them says nothing."""
    machine, settings = record["machine"], record["settings"]
    said = [
        str(record["date"])[:10],
        f"{machine['cores']} cores, {machine['memory_gib']} GiB",
        f"Python {record['versions']['python']}",
    ]
    for store, name in STORES.items():
        if about := settings.get(store):
            told = str(about.get("server_version") or about.get("version"))
            said.append(f"{name} {told.split()[0]}")  # a packager's own version follows it
    return " · ".join(said)
