"""Two tables for people, what was measured and what was wanted; one JSON file for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.measure import FASTEST_PEER, FLOOR, Contest, Entry
from bench.targets import Judgement

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("holdfast", "asyncpg", "redis", "uvloop", "msgspec")


def figures(contests: Sequence[Contest]) -> Table:
    shown = Table(title="Measured", title_justify="left")
    for column in ("workload", "store", "contender"):
        shown.add_column(column)
    for column in ("best", "spread", "÷ floor", "÷ fastest peer"):
        shown.add_column(column, justify="right")
    for contest in contests:
        for entry in contest.entries:
            shown.add_row(*_cells(contest, entry), style="red" if entry.failure else None)
        shown.add_section()
    return shown


def _cells(contest: Contest, entry: Entry) -> tuple[str, ...]:
    named = (contest.workload.name, contest.workload.store, entry.contender)
    if entry.failure:
        return (*named, entry.failure.partition("\n")[0])
    ratios = [
        contest.ratio(entry.contender, over, contest.workload.figure)
        for over in (FLOOR, FASTEST_PEER)
    ]
    best = contest.workload.show.format(**contest.best_sample(entry))
    spread = "" if len(entry.samples) == 1 else f"{contest.spread(entry):.0%}"
    return (*named, best, spread, *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios))


def verdicts(judgements: Sequence[Judgement]) -> Table:
    shown = Table(title="Wanted", title_justify="left")
    for column in ("workload", "store", "what", "value", "target", "met"):
        shown.add_column(column, justify="right" if column == "value" else "left")
    for judgement in judgements:
        target, met = judgement.target, "yes" if judgement.met else "no"
        cells = (target.workload, target.store, target.what, f"{judgement.value:.2f}")
        shown.add_row(*cells, target.wanted, met, style=None if judgement.met else "red")
    return shown


def save(
    contests: Sequence[Contest], judgements: Sequence[Judgement], settings: dict[str, Any]
) -> Path:
    now = datetime.now(UTC)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%dT%H%M%S}.json"
    record = {
        "date": now.isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "settings": settings,
        "results": [entry for contest in contests for entry in contest.as_json()],
        "targets": [judgement.as_json() for judgement in judgements],
    }
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return path


def machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "load_at_end": os.getloadavg()[0],
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
