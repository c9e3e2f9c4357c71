"""`holdfast operations list|show|stop|go-on|undo`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from holdfast.cli.following import document_of, follow, left_lines, lines_of
from holdfast.cli.output import ago_text, has_room_for_tables, indented, make_table, make_text
from holdfast.cli.program import operations_group
from holdfast.cli.target import CommandSession
from holdfast.cli.words import JOB_COMMANDS
from holdfast.client.client import Client
from holdfast.insights.actions import Verb
from holdfast.job.redaction import redact, redact_value
from holdfast.job.text import counted
from holdfast.operations.pages import words_of
from holdfast.store.contract.operations import Operation, OperationState

if TYPE_CHECKING:
    from rich.console import RenderableType

COLOURS = {
    OperationState.RUNNING: "cyan",
    OperationState.WAITING: "yellow",
    OperationState.STOPPED: "yellow",
    OperationState.DONE: "green",
}

operation_argument = click.argument("operation_id", metavar="ID")
detach_option = click.option(
    "--detach", is_flag=True, help="Return at once: a worker does the work."
)


@operations_group.command("list")
@click.option("--state", "-s", help="Only this state: running, waiting, stopped, done.")
@click.option("--limit", metavar="N", default=25, help="At most this many.")
@click.option("--before", metavar="ID", help="Go on behind this operation.")
async def list_operations(
    session: CommandSession, state: str | None, limit: int, before: str | None
) -> None:
    """List operations, newest first."""
    async with session.client() as client:
        found = await client.operations.all(state=state, limit=limit, before=before)
    document = {"operations": [document_of(operation) for operation in found]}
    session.answer(document, lambda: _draw_list(found))


def _draw_list(found: list[Operation]) -> Iterator[RenderableType]:
    if not found:
        yield "no operations"
        return
    yield from _as_table(found) if has_room_for_tables() else _stacked(found)


def _as_table(found: list[Operation]) -> Iterator[RenderableType]:
    table = make_table("=id", "=verb", "jobs", "=state", ">done", ">left", "=begun", "by")
    for one in found:
        table.add_row(
            one.id,
            _word(one),
            _meant(one),
            make_text(one.state.value, COLOURS[one.state]),
            f"{one.progress.changed:,}/{one.request.matched:,}",
            f"{one.progress.failed:,}",
            ago_text(one.begun_at),
            one.request.by or "",
        )
    yield table


def _stacked(found: list[Operation]) -> Iterator[RenderableType]:
    """Operations below each other, for a terminal so narrow that a table would break every word."""
    from rich.text import Text

    for one in found:
        done = f"{one.progress.changed:,} of {one.request.matched:,} done"
        yield Text.assemble(one.id, "  ", (one.state.value, COLOURS[one.state]), f"  {done}")
        left = f"{one.progress.failed:,} left" if one.progress.failed else ""
        facts = (f"{_word(one)} {_meant(one)}", left, ago_text(one.begun_at), one.request.by)
        yield indented(" · ".join(filter(None, facts)), "dim")


@operations_group.command("show")
@operation_argument
async def show_operation(session: CommandSession, operation_id: str) -> None:
    """Show how far an operation has come, how its first jobs ended, and what can be done."""
    async with session.client() as client:
        operation = await client.operations.get(operation_id)
        outcomes = await client.operations.outcomes(operation_id)
    document = document_of(operation) | {"outcomes": outcomes}
    session.answer(document, lambda: _draw(operation, outcomes))


def _draw(operation: Operation, outcomes: dict[str, int]) -> Iterator[RenderableType]:
    request, progress = operation.request, operation.progress
    yield make_text(f"{_word(operation)} {_meant(operation)}", "bold")
    done = f"{progress.changed:,} of {counted(request.matched, 'job')} changed"
    yield f"{operation.state}, {done}, begun {ago_text(operation.begun_at)}"
    if request.by or request.reason:
        why = f": {redact(request.reason)}" if request.reason else ""
        yield f"by {request.by or 'a program'}{why}"
    if outcomes:
        shown = ", ".join(f"{number:,} {state}" for state, number in outcomes.items())
        yield f"its first jobs are now: {shown}"
    yield from left_lines(operation)
    yield from lines_of(operation)


@operations_group.command("stop")
@operation_argument
async def stop_operation(session: CommandSession, operation_id: str) -> None:
    """Stop an operation before its next page."""
    async with session.client() as client:
        await client.operations.stop(operation_id, by=session.by)
        stopped = await client.operations.get(operation_id)
    session.answer(document_of(stopped), lambda: lines_of(stopped))


@operations_group.command("go-on")
@operation_argument
@detach_option
async def go_on(session: CommandSession, operation_id: str, detach: bool) -> None:
    """Let an operation run that was stopped, or that waits after its canary."""
    async with session.client() as client:
        await client.operations.go_on(operation_id, by=session.by)
        await _work(session, client, await client.operations.get(operation_id), detach)


@operations_group.command("undo")
@operation_argument
@click.option("--reason", help="Why, for the audit.")
@detach_option
async def undo(
    session: CommandSession, operation_id: str, reason: str | None, detach: bool
) -> None:
    """Give the jobs that an operation changed back what they had."""
    async with session.client() as client:
        undoing = await client.operations.undo(operation_id, reason=reason, by=session.by)
        await _work(session, client, undoing, detach)


async def _work(
    session: CommandSession, client: Client, operation: Operation, detach: bool
) -> None:
    if not detach:
        operation = await follow(session, client, operation)
    session.answer(document_of(operation), lambda: _came_to(operation))


def _came_to(operation: Operation) -> Iterator[RenderableType]:
    if operation.state is OperationState.RUNNING:
        yield f"operation {operation.id} runs: holdfast operations show {operation.id}"
        return
    changed = f"{operation.progress.changed:,} of {counted(operation.request.matched, 'job')}"
    yield f"{changed} {JOB_COMMANDS[Verb(operation.request.verb)].row.done}"
    yield from left_lines(operation)
    yield from lines_of(operation)


def _word(operation: Operation) -> str:
    """The verb; that of a newer release as it is."""
    return operation.request.verb


def _meant(operation: Operation) -> str:
    request = operation.request
    if request.undoes is not None:
        return f"(takes back {request.undoes})"
    shown = redact_value(words_of(request))
    words = [f"{word}={_text(value)}" for word, value in shown.items()]
    return " ".join([*words, *([f"to {request.value}"] if request.value else [])])


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
