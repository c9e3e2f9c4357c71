"""`holdfast schedules create|edit|trigger|pause|resume|delete|backfill`: changing schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from holdfast.cli.asking import confirm, progress_bar
from holdfast.cli.command import add_command
from holdfast.cli.filters import wait
from holdfast.cli.name_verbs import add_name_commands
from holdfast.cli.output import counted
from holdfast.cli.schedules import Name, when
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.client.client import Client
from holdfast.insights.actions import Noun
from holdfast.schedule.backfill import BackfillReport
from holdfast.schedule.definition import rule_of
from holdfast.schedule.model import NO_SCOPE, Definition

if TYPE_CHECKING:
    from holdfast.task import Task

Cron = Annotated[str | None, typer.Option(help="5 or 6 fields, or @daily.", metavar="EXPRESSION")]
Every = Annotated[str | None, typer.Option(help="Instead of --cron: 90s, 15m, 2h.", metavar="TIME")]
Zone = Annotated[str | None, typer.Option(help="An IANA name.", metavar="ZONE")]
Time = Annotated[str | None, typer.Option(metavar="TIME")]
Args = Annotated[str | None, typer.Option(help="The arguments as a JSON object.", metavar="JSON")]
Word = Annotated[str | None, typer.Option()]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def register(group: typer.Typer) -> None:
    add_command(group, "create", create_schedule)
    add_command(group, "edit", edit_schedule)
    add_command(group, "trigger", trigger_schedule)
    add_name_commands(group, Noun.SCHEDULES)
    add_command(group, "backfill", backfill_schedule)


async def create_schedule(
    session: CommandSession,
    name: Name,
    task: Annotated[str, typer.Option("--task", "-t", help="The task its jobs run.")],
    cron: Cron = None,
    every: Every = None,
    timezone: Zone = None,
    args: Args = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q")] = None,
    delay: Time = None,
    jitter: Time = None,
    catch_up: Word = None,
    window: Time = None,
    cap: Annotated[int | None, typer.Option()] = None,
    lateness: Time = None,
    overlap: Word = None,
    on_crash: Word = None,
) -> None:
    """Add a schedule. With an app (--app, HOLDFAST_APP) the arguments are checked first."""
    words = _words(locals())
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
        made = await client.schedules.create(name, definition, actor=session.actor)
    session.answer(msgspec.to_builtins(made), lambda: [f"created {name}"])


async def edit_schedule(
    session: CommandSession,
    name: Name,
    cron: Cron = None,
    every: Every = None,
    timezone: Zone = None,
    args: Args = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q")] = None,
    delay: Time = None,
    jitter: Time = None,
    catch_up: Word = None,
    window: Time = None,
    cap: Annotated[int | None, typer.Option()] = None,
    lateness: Time = None,
    overlap: Word = None,
) -> None:
    """Change a schedule; from then on, code that declares it does not overwrite it."""
    changes = _words(locals())
    if cron is not None:
        changes["cron"] = cron
    if args is not None:
        changes["args"] = _json_object(args)
    if not changes:
        raise UsageProblem("nothing to change: give at least one option")
    async with session.client() as client:
        made = await client.schedules.edit(name, actor=session.actor, **changes)
    session.answer(msgspec.to_builtins(made), lambda: [f"edited {name}"])


async def trigger_schedule(
    session: CommandSession,
    name: Name,
    scope: Annotated[str, typer.Option(help="The scope, for a scoped schedule.")] = NO_SCOPE,
) -> None:
    """Start a job of the schedule now, whatever its rule says."""
    async with session.client() as client:
        job_id = await client.schedules.trigger(name, scope, actor=session.actor)
    session.answer({"schedule": name, "job": job_id}, lambda: [f"started job {job_id}"])


async def backfill_schedule(
    session: CommandSession,
    name: Name,
    since: Annotated[str, typer.Option("--from", help="An ISO time or '2h'.", metavar="WHEN")],
    until: Annotated[str, typer.Option("--to", help="An ISO time or '2h'.", metavar="WHEN")] = "0s",
    scope: Annotated[list[str] | None, typer.Option(help="Only this scope (repeatable).")] = None,
    cap: Annotated[int, typer.Option(help="At most so many plans.")] = 1_000,
    forgotten: Annotated[
        bool, typer.Option("--forgotten", help="Also plans whose rows were pruned.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    yes: Yes = False,
) -> None:
    """Fire plans of the past that have not fired. Counts first, asks, then works."""
    start, end = when("--from", since), when("--to", until)
    assert start is not None, "--from is required"
    assert end is not None, "--to has a default"
    async with _client(session) as client:
        fire = partial(
            client.schedules.backfill, name, start, end, scopes=scope, cap=cap, forgotten=forgotten
        )
        report = await fire(dry_run=True)
        if report.planned and not dry_run:
            confirm(session, f"fire {counted(report.planned, 'plan')} of {name}", yes)
            with progress_bar(session, "backfill", report.planned) as on_progress:
                report = await fire(on_progress=on_progress, actor=session.actor)
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


RULE = ("every", "timezone", "delay", "jitter")
TIMES = ("every", "delay", "jitter", "window", "lateness")
WORDS = (*RULE, "queue", "catch_up", "window", "cap", "lateness", "overlap", "on_crash")


def _words(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, by name, with times as seconds."""
    words = {key: given[key] for key in WORDS if given.get(key) is not None}
    return {
        key: wait(f"--{key.replace('_', '-')}", value) if key in TIMES else value
        for key, value in words.items()
    }


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UsageProblem(f"--args must be a JSON object: {error}; got {text!r}") from None
    if not isinstance(found, dict):
        raise UsageProblem(f"--args must be a JSON object, got {text!r}")
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
