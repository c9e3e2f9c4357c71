"""One table for people, one JSON file for programs."""

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

from bench.measure import Figure, Result

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("holdfast", "asyncpg", "uvloop", "msgspec")


def table(results: Sequence[Result]) -> Table:
    shown = Table(title="Holdfast beside its floors", title_justify="left")
    for column in ("workload", "store", "contender"):
        shown.add_column(column)
    for column in ("best", "spread", "÷ floor"):
        shown.add_column(column, justify="right")
    shown.add_column("wanted")
    for result in results:
        shown.add_row(*_cells(result), style=None if result.met is not False else "red")
    return shown


def _cells(result: Result) -> tuple[str, ...]:
    best = result.best
    if result.workload.figure is Figure.RATE:
        figure = f"{best['rate']:,.0f}/s"
    else:
        figure = " / ".join(f"{best[name]:.1f}" for name in ("p50", "p95", "p99")) + " ms"
    judged = {None: "", True: "✓ ", False: "✗ "}[result.met]
    return (
        result.workload.name,
        result.workload.store,
        result.contender,
        figure,
        f"{result.spread:.0%}",
        "" if result.ratio is None else f"{result.ratio:.2f}",
        judged + result.workload.wanted if result.contender == "holdfast" else "",
    )


def save(results: Sequence[Result], settings: dict[str, Any]) -> Path:
    now = datetime.now(UTC)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%dT%H%M%S}.json"
    record = {
        "date": now.isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "settings": settings,
        "results": [result.as_json() for result in results],
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
