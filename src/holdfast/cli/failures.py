"""`holdfast failures list|show|redrive|mute|unmute|note`: errors by cause."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.bulk import Manner, apply_to_all, manner_options
from holdfast.cli.filters import due_option, moment_option, wait_option
from holdfast.cli.jobs_view import draw_error
from holdfast.cli.output import ago_text, indented, make_text, time_text
from holdfast.cli.program import failures_group
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.cli.words import JOB_COMMANDS
from holdfast.client.client import Client
from holdfast.client.failures import MUTED_FOR, FailurePage
from holdfast.client.selection import FilterWords
from holdfast.clock import utcnow
from holdfast.insights.actions import Verb
from holdfast.job.fingerprint import places
from holdfast.job.state import JobState
from holdfast.job.text import counted
from holdfast.store.contract.failures import DEAD_COUNTED, Failure

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_WIDTH = 120

fingerprint_argument = click.argument("fingerprint", metavar="FINGERPRINT")


@failures_group.command("list")
@moment_option("--since", help="Seen since: '2h' (ago) or an ISO time.")
@click.option("--task", "-t", help="Only of this task.")
@click.option("--muted", is_flag=True, help="With those that are muted.")
@click.option("--limit", metavar="N", default=25, help="At most this many.")
@click.option("--cursor", help="Go on after an earlier page.")
async def list_failures(
    session: CommandSession,
    since: datetime | None,
    task: str | None,
    muted: bool,
    limit: int,
    cursor: str | None,
) -> None:
    """List errors by cause, last seen first."""
    async with session.client() as client:
        page = await client.failures.page(
            since=since, task=task, muted=muted, limit=limit, cursor=cursor
        )
        shown = tuple(await client.shown.failures(page.failures))
        page = msgspec.structs.replace(page, failures=shown)
    document = {
        "failures": [_document(failure) for failure in page.failures],
        "next_cursor": page.next_cursor,
    }
    session.answer(document, lambda: _draw_list(page))


async def _get(client: Client, fingerprint: str) -> Failure:
    """The failure as it may be shown: its sample may repeat arguments."""
    [shown] = await client.shown.failures([await client.failures.get(fingerprint)])
    return shown


def _document(failure: Failure) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(failure)
    return document


def _draw_list(page: FailurePage) -> Iterator[RenderableType]:
    if not page.failures:
        yield "no failures"
        return
    heads = ("fingerprint", "times", "dead", "last seen", "first seen", "task")
    yield make_text(_line(*heads), "bold")
    for one in page.failures:
        times = (ago_text(one.last_at), ago_text(one.first_at))
        yield _line(one.fingerprint, f"{one.count:,}", _dead(one), *times, one.task)
        yield indented(_headline(one), "red")
        if _is_muted(one):
            yield indented(f"muted until {time_text(one.muted_until)}", "dim")
        if one.note is not None:
            yield indented(f"note: {one.note}", "yellow")
    if page.next_cursor is not None:
        yield make_text(f"more: --cursor {page.next_cursor}", "dim")


def _line(fingerprint: str, times: str, dead: str, last: str, first: str, task: str) -> str:
    return f"{fingerprint:16} {times:>7} {dead:>6}  {last:11} {first:11} {task}"


def _dead(failure: Failure) -> str:
    return f"{DEAD_COUNTED:,}+" if failure.dead >= DEAD_COUNTED else str(failure.dead)


def _is_muted(failure: Failure) -> bool:
    return failure.muted_until is not None and failure.muted_until > utcnow()


def _headline(failure: Failure) -> str:
    line = " ".join(f"{failure.kind}: {failure.sample.message}".split())
    return line if len(line) <= LINE_WIDTH else line[: LINE_WIDTH - 1] + "…"


@failures_group.command("show")
@fingerprint_argument
async def show_failure(session: CommandSession, fingerprint: str) -> None:
    """Show one of the errors, where it happens, and what can be done."""
    async with session.client() as client:
        failure = await _get(client, fingerprint)
        dead = await client.count(fingerprint=fingerprint)
    found = places(failure.sample.traceback or "")
    jobs = dead.get(JobState.FAILED, 0)
    document = _document(failure) | {"dead": jobs, "places": found}
    session.answer(document, lambda: _draw(failure, jobs, found))


def _draw(failure: Failure, dead: int, found: list[str]) -> Iterator[RenderableType]:
    name = failure.fingerprint
    yield make_text(f"{failure.kind} in {failure.task}", "bold")
    yield f"{counted(failure.count, 'attempt')} failed, {counted(dead, 'job')} dead"
    yield f"last seen   {time_text(failure.last_at)}"
    yield f"first seen  {time_text(failure.first_at)}"
    if _is_muted(failure):
        yield f"muted until {time_text(failure.muted_until)}"
    if failure.note is not None:
        yield make_text(f"note: {failure.note}", "yellow")
    if found:
        yield f"where: {', called from '.join(found)}"
    yield ""
    yield from draw_error(failure.sample)
    yield ""
    yield f"this job:  holdfast jobs show {failure.job_id}"
    if dead:
        yield f"all jobs:  holdfast jobs list --where fingerprint:{name}"
        yield f"run again: holdfast failures redrive {name} --canary 10"
    if not _is_muted(failure):
        yield f"be quiet:  holdfast failures mute {name} --for 7d"


@failures_group.command("redrive")
@fingerprint_argument
@manner_options
async def redrive(session: CommandSession, fingerprint: str, manner: Manner) -> None:
    """Run all jobs again that failed with this error, with all their attempts."""
    async with session.client() as client:
        failure = await client.failures.get(fingerprint)
        command = JOB_COMMANDS[Verb.REQUEUE]
        words: FilterWords = {"fingerprint": failure.fingerprint, "state": JobState.FAILED}
        await apply_to_all(session, client, command, words, manner)


@failures_group.command("mute")
@fingerprint_argument
@wait_option("--for", "duration", help="How long: 90s, 15m, 2h, 7d.  [default: 7d]")
@due_option("--until", help="An ISO time, local unless it says otherwise.")
async def mute(
    session: CommandSession, fingerprint: str, duration: float | None, until: datetime | None
) -> None:
    """Leave a failure out of the list for a while. It is counted all the same."""
    if duration is not None and until is not None:
        raise UsageProblem("give --for or --until, not both")
    async with session.client() as client:
        wait = MUTED_FOR if duration is None else duration
        await client.failures.mute(fingerprint, wait, until=until, by=session.by)
        muted = await _get(client, fingerprint)
    shown = f"{fingerprint} muted until {time_text(muted.muted_until)}"
    session.answer(_document(muted), lambda: [shown])


@failures_group.command("unmute")
@fingerprint_argument
async def unmute(session: CommandSession, fingerprint: str) -> None:
    """Show a muted failure in the list again."""
    async with session.client() as client:
        await client.failures.unmute(fingerprint, by=session.by)
        failure = await _get(client, fingerprint)
    session.answer(_document(failure), lambda: [f"{fingerprint} unmuted"])


@failures_group.command("note")
@fingerprint_argument
@click.argument("text", required=False)
@click.option("--remove", is_flag=True, help="Remove the note.")
async def note(session: CommandSession, fingerprint: str, text: str | None, remove: bool) -> None:
    """Write a note on a failure, for whoever looks next."""
    if (text is None) != remove:
        raise UsageProblem("give the text of the note, or --remove")
    async with session.client() as client:
        await client.failures.note(fingerprint, text, by=session.by)
        failure = await _get(client, fingerprint)
    session.answer(_document(failure), lambda: [f"{fingerprint} noted"])
