"""`holdfast jobs list|show|life|steps|explain`: what is read about jobs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.advice import advice_text, command_text
from holdfast.cli.filters import JobFilters, job_filters
from holdfast.cli.jobs_view import draw_job, job_note
from holdfast.cli.life_view import draw_life, life_document
from holdfast.cli.output import (
    ago_text,
    has_room_for_tables,
    indented,
    job_document,
    make_table,
    make_text,
    most_text,
    state_text,
    time_text,
)
from holdfast.cli.program import jobs_group
from holdfast.cli.steps_view import draw_steps, steps_document
from holdfast.cli.streams import stream_documents, stream_lines, streams_of
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.client.selection import job_filter
from holdfast.insights.causes import end_text
from holdfast.job.state import JobState
from holdfast.job.text import counted
from holdfast.job.ties import Tie
from holdfast.store.contract.records import Page

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.insights.explain import Explanation
    from holdfast.insights.reasons import Reason

job_id_argument = click.argument("job_id", metavar="ID")


@jobs_group.command("list")
@job_filters
@click.option("--limit", metavar="N", default=25, help="At most this many.")
@click.option("--cursor", metavar="ID", help="Go on where the page before ended.")
@click.option("--look", metavar="N", type=int, help="Look at no more jobs than this.")
async def list_jobs(
    session: CommandSession,
    filters: JobFilters,
    limit: int,
    cursor: str | None,
    look: int | None,
) -> None:
    """List jobs, newest first."""
    words = filters.words
    async with session.client() as client:
        page = await client.page(limit=limit, cursor=cursor, look=look, **words)
        page = await client.shown.page(page)
        counts = await client.count(**words) if job_filter(**words).is_tallied else None
    document = {
        "jobs": [job_document(job) for job in page.jobs],
        "next_cursor": page.next_cursor,
        "looked_at": page.looked_at,
        "reached": page.reached,
        "complete": page.complete,
        "unsearched": page.unsearched,
        "counts": counts,
    }
    session.answer(document, lambda: _draw_page(page, counts, is_first=cursor is None))


def _draw_page(
    page: Page, counts: dict[JobState, int] | None, *, is_first: bool
) -> Iterator[RenderableType]:
    """Jobs that only a walk over all of them could count are not counted."""
    if page.unsearched:
        closed = f"{counted(page.unsearched, 'job')} or more of these are encrypted"
        advice = "without their keys (HOLDFAST_KEYS) the filter cannot see into them"
        yield make_text(f"{closed}: {advice}", "yellow")
    if page.jobs:
        yield from _as_table(page) if has_room_for_tables() else _stacked(page)
    elif page.complete:
        yield "no jobs match" if is_first else "no more jobs"
        return
    if page.jobs and counts is not None:
        shown = ", ".join(f"{number:,} {state}" for state, number in sorted(counts.items()))
        all_jobs = counted(sum(counts.values()), "job")
        yield make_text(f"{len(page.jobs)} of {all_jobs}: {shown}", "dim")
    if not page.complete:
        back = "" if page.reached is None else f"searched back to {time_text(page.reached)}, "
        looked = f"{back}{page.looked_at:,} looked at"
        yield make_text(f"{looked}; go on with --cursor {page.next_cursor}", "dim")
    elif page.next_cursor is not None:
        yield make_text(f"more: --cursor {page.next_cursor}", "dim")


def _as_table(page: Page) -> Iterator[RenderableType]:
    table = make_table("=id", "task", "queue", "=state", ">tries", "=created", "note")
    for job in page.jobs:
        table.add_row(
            job.id,
            job.task,
            job.queue,
            state_text(job.state),
            f"{job.attempts}/{most_text(job)}",
            ago_text(job.created_at),
            job_note(job),
        )
    yield table


def _stacked(page: Page) -> Iterator[RenderableType]:
    """Jobs below each other, for a terminal so narrow that a table would break every word."""
    from rich.text import Text

    for job in page.jobs:
        yield Text.assemble(job.id, "  ", state_text(job.state))
        tried = f"{job.attempts}/{most_text(job)} tries"
        facts = (job.task, job.queue, tried, ago_text(job.created_at), job_note(job))
        yield indented(" · ".join(filter(None, facts)), "dim")


@jobs_group.command("show")
@job_id_argument
@click.option("--reveal", is_flag=True, help="Also what is hidden; the audit keeps it.")
@click.option("--reason", help="Why it is revealed, for the audit.")
async def show_job(session: CommandSession, job_id: str, reveal: bool, reason: str | None) -> None:
    """Show everything that is known about a job, with its error history. Values that are secret
    are hidden, unless they are revealed."""
    if reveal != (reason is not None):
        raise UsageProblem("--reveal and --reason go together")
    async with session.client() as client:
        if reason is None:
            job = await client.shown.job(await client.get(job_id))
        else:
            job = await client.reveal(job_id, reason=reason, by=session.by)
        called = await client.flows.called_by(job.id) if job.ties & (Tie.PARENT | Tie.UNDO) else []
        streams = await streams_of(client, job)
    flows = [{"id": flow.id, "name": flow.name, "state": flow.state} for flow in called]
    document = job_document(job) | {"flows": flows, "streams": stream_documents(streams)}
    session.answer(document, lambda: draw_job(job, called, stream_lines(streams)))


@jobs_group.command("life")
@job_id_argument
async def tell_life(session: CommandSession, job_id: str) -> None:
    """Tell everything that happened to a job, in order, and who did it."""
    async with session.client() as client:
        life = await client.shown.life(await client.life(job_id))
    session.answer(life_document(life), lambda: draw_life(life))


@jobs_group.command("steps")
@job_id_argument
async def show_steps(session: CommandSession, job_id: str) -> None:
    """Show what a job has recorded: its steps and sleeps, in order."""
    async with session.client() as client:
        job = await client.get(job_id)
        steps = await client.shown.steps(job, await client.steps(job_id))
        shown = await client.shown.job(job)
    session.answer(steps_document(shown, steps), lambda: draw_steps(shown, steps))


@jobs_group.command("explain")
@job_id_argument
async def explain_job(session: CommandSession, job_id: str) -> None:
    """Say why a job is not running now, and who can change it."""
    async with session.client() as client:
        explanation = await client.shown.explanation(await client.explain(job_id))
        streams = await streams_of(client, explanation.job)
    document: dict[str, Any] = {
        "job": job_document(explanation.job),
        "reasons": [_reason_document(reason) for reason in explanation.reasons],
        "cause": msgspec.to_builtins(explanation.cause),
        "streams": stream_documents(streams),
    }
    lines = stream_lines(streams)
    session.answer(document, lambda: draw_explanation(explanation, lines))


def _reason_document(reason: Reason) -> dict[str, Any]:
    """The reason with its action as data, and with the command that carries the action out."""
    document: dict[str, Any] = msgspec.to_builtins(reason)
    return document | {"command": None if reason.action is None else command_text(reason.action)}


def draw_explanation(
    explanation: Explanation, streams: Sequence[tuple[str, str]] = ()
) -> Iterator[RenderableType]:
    from rich.text import Text

    job = explanation.job
    yield Text.assemble(f"job {job.id} ({job.task}) is ", state_text(job.state))
    if not explanation.reasons:
        yield indented(f"attempt {job.attempts + 1}, started {ago_text(job.claimed_at)}")
    for reason in explanation.reasons:
        yield indented(reason.fact, "bold", mark="• ")
        yield indented(f"who can change it: {reason.who}", "dim")
        actions = [] if reason.action is None else [reason.action]
        if advice := advice_text(reason.advice, actions):
            yield indented(f"what to do: {advice}", "dim")
    if (cause := explanation.cause) is not None:
        why = f": {cause.reason}" if cause.reason else ""
        yield indented(f"it began with {cause.name!r}, which {end_text(cause, is_first=True)}{why}")
        yield indented(f"more about that: holdfast jobs show {cause.job_id}", "dim")
    for name, kept in streams:
        command = shlex.join(["holdfast", "jobs", "stream", job.id, name, "--follow"])
        yield indented(f"stream {name!r}: {kept}; to see it: {command}", "dim")
