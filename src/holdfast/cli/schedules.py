"""`holdfast schedules list|show|preview|history`: what is read about schedules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.filters import moment_option, when_option
from holdfast.cli.output import every_field, with_values
from holdfast.cli.program import schedules_group
from holdfast.cli.schedules_view import draw_history, draw_list, draw_preview, draw_schedule
from holdfast.cli.target import CommandSession
from holdfast.clock import utcnow
from holdfast.errors import BadOption, Unreadable
from holdfast.job.json_text import shown_text
from holdfast.job.policy import decode_policy
from holdfast.schedule.model import LedgerEntry, Schedule
from holdfast.schedule.status import contested, has_ended, next_due, rule_text, undeclared
from holdfast.store.contract.workers import WorkerInfo

if TYPE_CHECKING:
    from rich.console import RenderableType

name_argument = click.argument("name")
limit_option = click.option(
    "--limit",
    "-n",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=20,
    help="At most so many.",
)


@schedules_group.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1)
async def list_schedules(session: CommandSession, names: tuple[str, ...]) -> None:
    """List schedules with their next plan and what is wrong with them."""
    async with session.store() as store:
        now, workers = await store.now(), await store.workers.find()
        shown = session.redaction(store)
        found = [await shown.schedule(one) for one in await store.schedules.find(names)]
    documents = [document_of(schedule, workers, now) for schedule in found]
    session.answer({"schedules": documents}, lambda: draw_list(documents, now))


@schedules_group.command("show")
@name_argument
async def show_schedule(session: CommandSession, name: str) -> None:
    """Everything about one schedule, with its newest plans."""
    async with session.client() as client:
        found = await client.schedules.get(name)
        workers = await client.workers.all()
        rows = await client.schedules.history(name, limit=5)
        rows = await client.shown.history(found, rows)
        found = await client.shown.schedule(found)
    document = document_of(found, workers, utcnow())
    document["newest"] = [entry_document(row) for row in rows]

    def draw() -> Iterator[RenderableType]:
        yield from draw_schedule(document)
        if rows:
            yield ""
            yield from draw_history(document["newest"])

    session.answer(document, draw)


@schedules_group.command("preview")
@name_argument
@when_option("--from", "since", help="From: an ISO time, '2h' (ago) or '+7d'.")
@when_option("--to", "until", help="Until: an ISO time, '2h' (ago) or '+7d'.")
@limit_option
async def preview_plans(
    session: CommandSession, name: str, since: datetime | None, until: datetime | None, limit: int
) -> None:
    """Plan times in local time and UTC; times that a change of clocks moves are marked."""
    async with session.client() as client:
        plans = await client.schedules.preview(name, since, until, limit=limit)
    document = {"schedule": name, "plans": msgspec.to_builtins(plans)}
    session.answer(document, lambda: draw_preview(plans))


@schedules_group.command("history")
@name_argument
@click.option("--scope", help="Only this scope.")
@moment_option("--before", help="Plans before: an ISO time or '2h' (ago).")
@limit_option
async def show_history(
    session: CommandSession, name: str, scope: str | None, before: datetime | None, limit: int
) -> None:
    """What was decided about each plan and what became of its job, newest first."""
    async with session.client() as client:
        rows = await client.schedules.history(name, scope=scope, limit=limit, before=before)
        rows = await client.shown.history(await client.schedules.get(name), rows)
    documents = [entry_document(row) for row in rows]
    session.answer({"schedule": name, "history": documents}, lambda: draw_history(documents))


def document_of(schedule: Schedule, workers: list[WorkerInfo], now: datetime) -> dict[str, Any]:
    definition = every_field(schedule.definition)
    definition["args"] = shown_text(schedule.definition.args)
    definition["policy"], unreadable = _policy(schedule.definition.policy)
    problem = schedule.error
    due, ended = None, False
    try:
        due, ended = next_due(schedule, now), has_ended(schedule, now)
    except BadOption as error:
        problem = problem or str(error)
    problem = problem or unreadable
    document: dict[str, Any] = msgspec.to_builtins(schedule)
    return document | {
        "definition": definition,
        "rule": rule_text(schedule),
        "next_due": due,
        "ended": ended,
        "error": problem,
        "undeclared": undeclared(schedule, workers, now),
        "contested": contested(schedule, now),
    }


def _policy(text: str) -> tuple[Any, str | None]:
    """The policy with all its fields. One that this program cannot read is shown as it is stored,
    with what is wrong."""
    try:
        return every_field(decode_policy(text)), None
    except Unreadable as error:
        return shown_text(text), str(error)


def entry_document(entry: LedgerEntry) -> dict[str, Any]:
    """A row of the ledger as a document, with three fields added: the job's duration, the kind of
    its error, and `rows_affected` of its result."""
    document, result = with_values(entry), entry.result
    took = (
        (entry.finished_at - entry.claimed_at).total_seconds()
        if entry.finished_at is not None and entry.claimed_at is not None
        else None
    )
    return document | {
        "at": entry.at,
        "duration": took,
        "error_code": None if entry.error is None else entry.error.partition(":")[0],
        "rows_affected": result.get("rows_affected") if isinstance(result, dict) else None,
    }
