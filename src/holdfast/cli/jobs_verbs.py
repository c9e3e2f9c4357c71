"""`holdfast jobs retry|cancel|…`: changing jobs, by id or all that match.

There is one command for each verb of the client's table. `--all` counts first, asks, and then works
on an operation; `--dry-run` stops after counting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.bulk import Manner, apply_to_all, manner_options
from holdfast.cli.enqueue import read_arguments
from holdfast.cli.filters import JobFilters, all_of, due_option, job_filters, wait_option
from holdfast.cli.output import make_text, state_text
from holdfast.cli.program import jobs_group
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.cli.words import JOB_COMMANDS, JobCommand
from holdfast.errors import BadOption, HoldfastError, StoreError
from holdfast.insights.actions import Verb
from holdfast.job.checks import check_job_id
from holdfast.job.redaction import redact
from holdfast.job.state import ENDED, JobState
from holdfast.operations.job_verbs import RESCHEDULE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.client.client import Client


class Choice(msgspec.Struct, frozen=True):
    """The options that say which jobs a verb is meant for, and how to go about it."""

    filters: JobFilters
    ids: tuple[str, ...]
    matching: bool
    everything: bool
    manner: Manner

    def __post_init__(self) -> None:
        chosen = (bool(self.ids), self.matching, self.everything)
        if sum(chosen) != 1:
            got = "several of them" if any(chosen) else "none of them"
            raise UsageProblem(
                f"give ids of jobs, or --all with filters, or --everything; got {got}"
            )
        if self.ids and (self.filters.words or not self.manner.is_plain):
            raise UsageProblem(
                "filters, --dry-run, --canary, --pace, --reason and --detach go with --all, not "
                "with ids"
            )
        if self.matching and not self.filters.words:
            raise UsageProblem(
                "--all needs a filter such as --queue or --state; every job of the store is "
                "--everything"
            )


chosen = all_of(
    job_filters,
    click.argument("ids", metavar="[ID]...", nargs=-1),
    click.option("--all", "matching", is_flag=True, help="All jobs that match the filters."),
    click.option("--everything", is_flag=True, help="All jobs of the store, without a filter."),
    manner_options,
)


def _add(command: JobCommand) -> None:
    async def body(session: CommandSession, to: object = None, **choice: Any) -> None:
        given = command if to is None else command.with_value(to)
        await _apply(session, given, Choice(**choice))

    parameter, usual = command.row.parameter, ", ".join(sorted(command.row.by_default))
    value: list[click.Parameter] = []
    if parameter is not None and command.asks_value:
        value = [click.Option(["--to"], type=parameter.kind, required=True, help=parameter.about)]
    unless = f" With --all: {usual} ones, unless --state is given." if usual else ""
    jobs_group.command(command.word, params=value, help=f"{command.about}{unless}")(chosen(body))


for _command in JOB_COMMANDS.values():
    _add(_command)


@jobs_group.command("reschedule", help=RESCHEDULE.about)
@wait_option("--delay", help="From now: 90s, 15m, 2h.")
@due_option("--at", help="An ISO time, local unless it says otherwise.")
@chosen
async def reschedule(
    session: CommandSession, delay: float | None, at: datetime | None, **choice: Any
) -> None:
    if (delay is None) == (at is None):
        raise UsageProblem("give --delay or --at")
    command = JobCommand(RESCHEDULE, "reschedule", RESCHEDULE.about, RESCHEDULE.done, at or delay)
    await _apply(session, command, Choice(**choice))


@jobs_group.command("edit")
@click.argument("job_id", metavar="ID")
@click.option("--arg", "-a", multiple=True, metavar="NAME=VALUE", help="Replace one argument.")
@click.option("--tag", "tags", multiple=True, help="Instead of its tags (repeatable).")
@click.option("--no-tags", is_flag=True, help="Remove its tags.")
async def edit(
    session: CommandSession, job_id: str, arg: tuple[str, ...], tags: tuple[str, ...], no_tags: bool
) -> None:
    """Change arguments or tags of a waiting job. With an app (--app, HOLDFAST_APP) the arguments
    are checked."""
    if not (arg or tags or no_tags) or (tags and no_tags):
        raise UsageProblem("give --arg NAME=VALUE, --tag or --no-tags")
    app = None if session.locator is None else session.app()
    async with session.client(app) as client:
        known = None if app is None else app.tasks.get((await client.get(job_id)).task)
        changes: dict[str, Any] = {"args": read_arguments(None, arg, known)} if arg else {}
        if tags or no_tags:
            changes["tags"] = tags
        await client.edit(job_id, by=session.by, **changes)
    session.answer({"id": job_id, "edited": sorted(changes)}, lambda: [f"{job_id} edited"])


async def _apply(session: CommandSession, command: JobCommand, choice: Choice) -> None:
    async with session.client() as client:
        if choice.ids:
            await _apply_to_each(session, command, choice.ids, client)
        else:
            words, every = choice.filters.words, choice.everything
            await apply_to_all(session, client, command, words, choice.manner, everything=every)


async def _apply_to_each(
    session: CommandSession, command: JobCommand, ids: Sequence[str], client: Client
) -> None:
    """Try every id: a job that cannot be changed does not keep the others from their change.

    A text that is no id at all is a wrong call, and refused before any job is changed.
    """
    for job_id in ids:
        check_job_id(job_id)
    results = [await _one(session, command, client, job_id) for job_id in ids]
    session.answer({"results": results}, lambda: _draw_each(command, results))
    if not all(result["ok"] for result in results):
        raise click.exceptions.Exit(1)


async def _one(
    session: CommandSession, command: JobCommand, client: Client, job_id: str
) -> dict[str, Any]:
    try:
        await client.apply(command.row, job_id, command.value, by=session.by)
        deleted = command.row.verb is Verb.DELETE
        state = None if deleted else (await client.get(job_id)).state
    except (StoreError, BadOption):
        raise
    except HoldfastError as error:
        return {"id": job_id, "ok": False, "state": None, "error": redact(str(error))}
    return {"id": job_id, "ok": True, "state": state, "error": None}


def _draw_each(command: JobCommand, results: list[dict[str, Any]]) -> Iterator[RenderableType]:
    from rich.text import Text

    for result in results:
        if not result["ok"]:
            yield make_text(f"refused: {result['error']}", "red")
        elif result["state"] is None:
            yield f"{result['id']} {command.done}"
        elif _came_too_late(command, result["state"]):
            said = f"{result['id']} is not cancelled: it has ended as "
            yield Text.assemble(said, state_text(result["state"]))
        else:
            done = _done(command, result["state"])
            yield Text.assemble(f"{result['id']} {done}, now ", state_text(result["state"]))


def _came_too_late(command: JobCommand, state: JobState) -> bool:
    """A cancel of a job that has ended otherwise changes nothing, and is no error."""
    return command.row.verb is Verb.CANCEL and state in ENDED - {JobState.CANCELLED}


def _done(command: JobCommand, state: JobState) -> str:
    """A running job is not cancelled yet: its handler was told to stop, and may still return."""
    running = command.row.verb is Verb.CANCEL and state is JobState.RUNNING
    return "told to cancel" if running else command.done
