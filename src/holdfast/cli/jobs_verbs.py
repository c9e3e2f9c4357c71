"""`holdfast jobs retry|cancel|…`: changing jobs, by id or all that match.

Each verb is one row: how it is applied to one job, how to many. `--all` counts
first, asks, and only then works; `--dry-run` stops after counting.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from holdfast.cli.command import add_command
from holdfast.cli.filters import (
    ErrorFilter,
    QueueFilter,
    SinceFilter,
    StateFilter,
    TagFilter,
    TaskFilter,
    UntilFilter,
    filter_words,
)
from holdfast.cli.output import counted, make_console, make_text, redact, state_text
from holdfast.cli.target import Session, UsageProblem
from holdfast.client.client import Client
from holdfast.client.selection import BulkReport, OnProgress
from holdfast.errors import BadOption, HoldfastError, StoreError
from holdfast.job.checks import check_job_id
from holdfast.job.state import JobState

if TYPE_CHECKING:
    from rich.console import RenderableType

Ids = Annotated[list[str] | None, typer.Argument(help="Ids of jobs.", metavar="ID")]
All = Annotated[bool, typer.Option("--all", help="All jobs that match the filters.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what would change.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before changing many.")]


@dataclass(frozen=True, slots=True)
class Verb:
    """How a verb is applied: `one(client, id)` and `many(client, **words)`."""

    name: str
    done: str
    one: Callable[[Client, str], Awaitable[object]]
    many: Callable[..., Awaitable[BulkReport]]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which jobs a verb is meant for, and how careful to be."""

    ids: list[str]
    everything: bool
    dry_run: bool
    yes: bool
    words: dict[str, Any]

    def __post_init__(self) -> None:
        if bool(self.ids) == self.everything:
            got = "both" if self.ids else "neither"
            raise UsageProblem(f"give ids of jobs, or --all with filters; got {got}")
        if self.ids and (self.words or self.dry_run):
            raise UsageProblem("filters and --dry-run go with --all, not with ids")


Apply = Callable[[Session, Verb, Choice], Awaitable[None]]


def register(group: typer.Typer) -> None:
    for verb, about in (
        (Verb("retry", "requeued", Client.requeue, Client.requeue_all),
         "Run ended jobs again, with all their attempts (with --all: failed ones)."),
        (Verb("cancel", "cancelled", Client.cancel, Client.cancel_all),
         "Cancel live jobs: waiting ones end now, running ones are told to."),
        (Verb("resume", "resumed", Client.resume, Client.resume_all),
         "Let suspended jobs go on now."),
        (Verb("run-now", "made ready", _run_now, _run_all_now),
         "Make scheduled jobs ready now."),
        (Verb("delete", "deleted", Client.delete, Client.delete_all),
         "Remove ended jobs with their history."),
    ):  # fmt: skip
        add_command(group, verb.name, _plain_verb(verb, about))
    add_command(group, "move", move_jobs)
    add_command(group, "reprioritise", reprioritise_jobs)


async def _run_now(client: Client, job_id: str) -> None:
    await client.reschedule(job_id, 0)


async def _run_all_now(client: Client, **words: Any) -> BulkReport:
    return await client.reschedule_all(0, **words)


def _plain_verb(verb: Verb, about: str) -> Callable[..., Any]:
    async def command(
        session: Session,
        ids: Ids = None,
        everything: All = False,
        queue: QueueFilter = None,
        state: StateFilter = None,
        task: TaskFilter = None,
        tag: TagFilter = None,
        since: SinceFilter = None,
        until: UntilFilter = None,
        error: ErrorFilter = None,
        dry_run: DryRun = False,
        yes: Yes = False,
    ) -> None:
        words = filter_words(queue, state, task, tag, since, until, error)
        await _apply(session, verb, Choice(ids or [], everything, dry_run, yes, words))

    command.__doc__ = about
    return command


async def move_jobs(
    session: Session,
    to: Annotated[str, typer.Option(help="The queue to put them in.", metavar="QUEUE")],
    ids: Ids = None,
    everything: All = False,
    queue: QueueFilter = None,
    state: StateFilter = None,
    task: TaskFilter = None,
    tag: TagFilter = None,
    since: SinceFilter = None,
    until: UntilFilter = None,
    error: ErrorFilter = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Put waiting jobs in another queue."""
    words = filter_words(queue, state, task, tag, since, until, error)
    verb = Verb(
        "move",
        f"moved to {to}",
        lambda client, job_id: client.move(job_id, to),
        lambda client, **which: client.move_all(to, **which),
    )
    await _apply(session, verb, Choice(ids or [], everything, dry_run, yes, words))


async def reprioritise_jobs(
    session: Session,
    to: Annotated[int, typer.Option(help="The new priority: lower runs first.")],
    ids: Ids = None,
    everything: All = False,
    queue: QueueFilter = None,
    state: StateFilter = None,
    task: TaskFilter = None,
    tag: TagFilter = None,
    since: SinceFilter = None,
    until: UntilFilter = None,
    error: ErrorFilter = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Give waiting jobs another priority."""
    words = filter_words(queue, state, task, tag, since, until, error)
    verb = Verb(
        "reprioritise",
        f"given priority {to}",
        lambda client, job_id: client.reprioritise(job_id, to),
        lambda client, **which: client.reprioritise_all(to, **which),
    )
    await _apply(session, verb, Choice(ids or [], everything, dry_run, yes, words))


async def _apply(session: Session, verb: Verb, choice: Choice) -> None:
    async with session.client() as client:
        if choice.everything:
            await _apply_to_all(session, verb, choice, client)
        else:
            await _apply_to_each(session, verb, choice.ids, client)


async def _apply_to_each(session: Session, verb: Verb, ids: list[str], client: Client) -> None:
    """Every id is tried: one that cannot be changed does not keep the others from it.

    What is no id at all is a wrong call, and refused before any job is changed.
    """
    for job_id in ids:
        check_job_id(job_id)
    results = [await _one(verb, client, job_id) for job_id in ids]
    session.answer({"results": results}, lambda: _draw_each(verb, results))
    if not all(result["ok"] for result in results):
        raise typer.Exit(1)


async def _one(verb: Verb, client: Client, job_id: str) -> dict[str, Any]:
    try:
        await verb.one(client, job_id)
        state = None if verb.name == "delete" else (await client.get(job_id)).state
    except (StoreError, BadOption):
        raise
    except HoldfastError as error:
        return {"id": job_id, "ok": False, "state": None, "error": redact(str(error))}
    return {"id": job_id, "ok": True, "state": state, "error": None}


def _draw_each(verb: Verb, results: list[dict[str, Any]]) -> Iterator[RenderableType]:
    from rich.text import Text

    for result in results:
        if not result["ok"]:
            yield make_text(f"refused: {result['error']}", "red")
        elif result["state"] is None:
            yield f"{result['id']} {verb.done}"
        else:
            done = _done(verb, result["state"])
            yield Text.assemble(f"{result['id']} {done}, now ", state_text(result["state"]))


def _done(verb: Verb, state: JobState) -> str:
    """A running job is not cancelled yet: its handler has been told, and may still return."""
    running = verb.name == "cancel" and state is JobState.RUNNING
    return "told to cancel" if running else verb.done


async def _apply_to_all(session: Session, verb: Verb, choice: Choice, client: Client) -> None:
    report = await verb.many(client, dry_run=True, **choice.words)
    if report.matched and not choice.dry_run:
        _confirm(session, verb, report.matched, choice.yes)
        with _progress(session, verb, report.matched) as on_progress:
            report = await verb.many(client, on_progress=on_progress, **choice.words)
    document = msgspec.to_builtins(msgspec.structs.replace(report, dry_run=choice.dry_run))
    session.answer(document, lambda: [_told_bulk(verb, report, choice.dry_run)])


def _told_bulk(verb: Verb, report: BulkReport, dry_run: bool) -> str:
    if dry_run:
        return f"{counted(report.matched, 'job')} would be {verb.done}"
    return f"{report.changed:,} of {counted(report.matched, 'job')} {verb.done}"


def _confirm(session: Session, verb: Verb, matched: int, yes: bool) -> None:
    if yes:
        return
    if session.as_json or not sys.stdin.isatty():
        raise UsageProblem(
            f"this would {verb.name} {counted(matched, 'job')}: add --yes to do it without a "
            "question, or --dry-run to only count"
        )
    if not typer.confirm(f"{verb.name} {counted(matched, 'job')}?", err=True):
        raise typer.Exit(1)


@contextmanager
def _progress(session: Session, verb: Verb, matched: int) -> Iterator[OnProgress | None]:
    """A bar on standard error, where somebody watches."""
    if session.as_json or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress("{task.description}", *columns, console=make_console(stderr=True)) as bar:
        work = bar.add_task(verb.name, total=matched)
        yield lambda done, total: bar.update(work, completed=done, total=total)
