"""`holdfast schedules create|edit|trigger|pause|resume|delete|backfill`: changing schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.asking import confirm, progress_bar
from holdfast.cli.filters import all_of, wait_option, when_option
from holdfast.cli.name_verbs import add_name_commands
from holdfast.cli.program import schedules_group
from holdfast.cli.schedules import name_argument
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.client.client import Client
from holdfast.insights.actions import Noun
from holdfast.job.text import counted
from holdfast.schedule.backfill import BackfillReport
from holdfast.schedule.definition import rule_of
from holdfast.schedule.model import NO_SCOPE, Definition

if TYPE_CHECKING:
    from holdfast.task import Task

definition_options = all_of(
    click.option("--cron", metavar="EXPRESSION", help="5 or 6 fields, or @daily."),
    wait_option("--every", help="Instead of --cron: 90s, 15m, 2h."),
    click.option("--timezone", metavar="ZONE", help="An IANA name."),
    click.option("--args", metavar="JSON", help="The arguments as a JSON object."),
    click.option("--queue", "-q", help="The queue of its jobs."),
    when_option("--start", help="No plan before: an ISO time or '+7d'."),
    when_option("--end", help="No plan after: an ISO time or '+7d'."),
    wait_option("--delay", help="Each plan fires so much later."),
    wait_option("--jitter", help="Each plan fires up to so much later, by chance."),
    click.option("--catch-up", help="Plans that nobody fired in time: none, latest or all."),
    wait_option("--window", help="How far back plans are caught up."),
    click.option("--cap", type=int, help="At most so many plans are caught up."),
    wait_option("--lateness", help="A plan that is later is not fired."),
    click.option(
        "--overlap", help="While a job of the schedule lives: allow, skip, queue_one or replace."
    ),
)
"""What a schedule is; `create` and `edit` take the same words."""


@schedules_group.command("create")
@name_argument
@click.option("--task", "-t", required=True, help="The task its jobs run.")
@definition_options
@click.option("--on-crash", help="After its worker was lost: retry or fail.")
async def create_schedule(
    session: CommandSession,
    name: str,
    task: str,
    cron: str | None,
    args: str | None,
    **options: Any,
) -> None:
    """Add a schedule. With an app (--app, HOLDFAST_APP) the arguments are checked first."""
    words = _given(options)
    given = "{}" if args is None else msgspec.json.encode(_json_object(args)).decode()
    if session.locator is None:
        words.setdefault("queue", "default")
        rule = rule_of(cron, {k: v for k, v in words.items() if k in RULE})
        rest = {k: v for k, v in words.items() if k not in RULE}
        plain = {**rest, "rule": msgspec.to_builtins(rule), "task": task, "args": given}
        try:
            definition = msgspec.convert(plain, Definition)
        except msgspec.ValidationError as error:
            raise UsageProblem(f"not a schedule: {error}") from None
    else:
        known: Task[..., Any] = session.app().tasks[session.app().registry[task].name]
        definition = known.scheduled(cron, args=given, **words)
    async with session.client() as client:
        made = await client.schedules.create(name, definition, by=session.by)
        made = await client.shown.schedule(made)
    session.answer(msgspec.to_builtins(made), lambda: [f"created {name}"])


@schedules_group.command("edit")
@name_argument
@definition_options
async def edit_schedule(
    session: CommandSession, name: str, args: str | None, **options: Any
) -> None:
    """Change a schedule; from then on, code that declares it does not overwrite it."""
    changes = _given(options)
    if args is not None:
        changes["args"] = _json_object(args)
    if not changes:
        raise UsageProblem("nothing to change: give at least one option")
    async with session.client() as client:
        made = await client.schedules.edit(name, by=session.by, **changes)
        made = await client.shown.schedule(made)
    session.answer(msgspec.to_builtins(made), lambda: [f"edited {name}"])


@schedules_group.command("trigger")
@name_argument
@click.option("--scope", default=NO_SCOPE, help="The scope, for a scoped schedule.")
async def trigger_schedule(session: CommandSession, name: str, scope: str) -> None:
    """Start a job of the schedule now, whatever its rule says."""
    async with session.client() as client:
        job_id = await client.schedules.trigger(name, scope, by=session.by)
    session.answer({"schedule": name, "job": job_id}, lambda: [f"started job {job_id}"])


add_name_commands(schedules_group, Noun.SCHEDULES)


@schedules_group.command("backfill")
@name_argument
@when_option("--from", "since", required=True, help="An ISO time or '2h'.")
@when_option("--to", "until", default="0s", help="An ISO time or '2h'.")
@click.option("--scope", "scopes", multiple=True, help="Only this scope (repeatable).")
@click.option("--cap", default=1_000, help="At most so many plans.")
@click.option("--forgotten", is_flag=True, help="Also plans whose rows were pruned.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
async def backfill_schedule(
    session: CommandSession,
    name: str,
    since: datetime,
    until: datetime,
    scopes: tuple[str, ...],
    cap: int,
    forgotten: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Fire plans of the past that have not fired. Counts first, asks, then works."""
    async with _client(session) as client:
        fire = partial(
            client.schedules.backfill,
            name,
            since,
            until,
            scopes=scopes or None,
            cap=cap,
            forgotten=forgotten,
        )
        report = await fire(dry_run=True)
        if report.planned and not dry_run:
            confirm(session, f"fire {counted(report.planned, 'plan')} of {name}", yes)
            with progress_bar(session, "backfill", report.planned) as on_progress:
                report = await fire(on_progress=on_progress, by=session.by)
    document = {"schedule": name, **msgspec.to_builtins(report)}
    session.answer(document, lambda: [_summary(report)])


def _summary(report: BackfillReport) -> str:
    more = "; the cap leaves more for another call" if report.capped else ""
    if report.forgotten_from is not None and report.forgotten_until is not None:
        ends = f"{report.forgotten_from.isoformat()} to {report.forgotten_until.isoformat()}"
        more += f"; plans from {ends} were left out: they may have fired (--forgotten fires them)"
    if report.dry_run:
        return f"{counted(report.planned, 'plan')} would fire{more}"
    return f"{report.fired:,} of {counted(report.planned, 'plan')} fired{more}"


RULE = ("every", "timezone", "start", "end", "delay", "jitter")


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageProblem(f"--args must be a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise UsageProblem(f"--args must be a JSON object, got {type(found).__name__}")
    return found


@asynccontextmanager
async def _client(session: CommandSession) -> AsyncIterator[Client]:
    """A client that knows the app's scope providers, if an app was named."""
    if session.locator is None:
        async with session.client() as client:
            yield client
        return
    app = session.app()
    with session.on_store(app):
        async with app:
            yield app.client
