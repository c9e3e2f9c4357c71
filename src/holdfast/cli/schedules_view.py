"""Schedules and their plans, drawn for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli.output import (
    ago_text,
    duration_text,
    make_table,
    make_text,
    state_text,
)
from holdfast.job.state import JobState
from holdfast.schedule.model import Decision
from holdfast.schedule.preview import Previewed

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

DECISION_STYLES = {
    Decision.FIRED: "green",
    Decision.COALESCED: "dim",
    Decision.SKIPPED: "yellow",
    Decision.MISSED: "red",
    Decision.FAILED: "bold red",
    Decision.WAITING: "cyan",
}
NOTES = {
    "gap": "gap: the wall clock skips its time; it fires when the gap ends",
    "fold 1": "fold: the first of two passes",
    "fold 2": "fold: the second of two passes",
}
HIDDEN = ("rule", "task", "queue", "args", "policy")


def draw_list(schedules: list[dict[str, Any]], now: datetime) -> Iterator[RenderableType]:
    if not schedules:
        yield "no schedules"
        return
    table = make_table("=schedule", "=rule", "=task", "=next", "")
    for each in schedules:
        table.add_row(
            each["name"],
            each["rule"],
            each["definition"]["task"],
            ago_text(each["next_due"], now),
            standing_text(each),
        )
    yield table


def standing_text(schedule: Mapping[str, Any]) -> Text:
    if schedule["error"]:
        return make_text(schedule["error"], "bold red")
    notes = [
        ("ended", schedule["ended"]),
        ("paused", schedule["paused"]),
        ("no longer declared by code", schedule["undeclared"]),
        (schedule["contested"], schedule["contested"] is not None),
        ("edited", schedule["edited"] and schedule["declared_at"] is not None),
        ("made at run time", schedule["declared_at"] is None),
    ]
    standing = ", ".join(note for note, holds in notes if holds)
    alerts = (schedule["paused"], schedule["undeclared"], schedule["contested"])
    return make_text(standing, "yellow" if any(alerts) else "dim")


def draw_schedule(schedule: Mapping[str, Any]) -> Iterator[RenderableType]:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    definition = schedule["definition"]
    grid.add_row("schedule", schedule["name"])
    grid.add_row("rule", schedule["rule"])
    grid.add_row("next", "–" if schedule["next_due"] is None else _utc(schedule["next_due"]))
    standing = standing_text(schedule)
    if standing.plain:
        grid.add_row("standing", standing)
    grid.add_row("task", f"{definition['task']} in queue {definition['queue']}")
    grid.add_row("arguments", msgspec.json.encode(definition["args"]).decode())
    for name, value in definition.items():
        if name not in HIDDEN and value not in (None, (), ""):
            grid.add_row(name, str(value))
    yield grid


def draw_preview(plans: list[Previewed]) -> Iterator[RenderableType]:
    if not plans:
        yield "no plans"
        return
    table = make_table("=local", "=UTC", "=due", "")
    for plan in plans:
        late = (plan.due - plan.at).total_seconds()
        due = f"{duration_text(late)} later" if late else ""
        note = make_text(NOTES.get(plan.note, plan.note), "yellow")
        table.add_row(f"{plan.local:%a %Y-%m-%d %H:%M:%S %z}", _utc(plan.at), due, note)
    yield table


def draw_history(rows: list[dict[str, Any]]) -> Iterator[RenderableType]:
    if not rows:
        yield "no plan was due yet"
        return
    scoped = any(row["scope"] for row in rows)
    heads = ["=plan", *(["=scope"] if scoped else []), "=decision", "=job", ">attempts", ">took"]
    table = make_table(*heads, ">rows", "")
    for row in rows:
        job = state_text(JobState(row["state"])) if row["state"] else row["job_id"] or ""
        note = row["error"] or row["reason"]
        table.add_row(
            _utc(row["at"]),
            *([row["scope"]] if scoped else []),
            make_text(row["decision"], DECISION_STYLES[Decision(row["decision"])]),
            job,
            "" if row["attempts"] is None else str(row["attempts"]),
            duration_text(row["duration"]) if row["duration"] is not None else "",
            "" if row["rows_affected"] is None else str(row["rows_affected"]),
            " ".join(str(note).split()),
        )
    yield table


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
