"""A verb on many jobs: how many it would change, the question, and the operation that does it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.asking import confirm
from holdfast.cli.filters import Body, all_of
from holdfast.cli.following import document_of, follow, left_lines, lines_of
from holdfast.cli.output import ago_text, complain, indented, job_document
from holdfast.cli.target import CommandSession
from holdfast.cli.words import JobCommand
from holdfast.job.text import counted
from holdfast.store.contract.operations import Operation, OperationState

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.client.client import Client
    from holdfast.client.operations import Preview
    from holdfast.client.selection import FilterWords


class Manner(msgspec.Struct, frozen=True):
    """The options that say how an operation is to go about its jobs, and whether to ask first."""

    dry_run: bool
    canary: int | None
    pace: float | None
    reason: str | None
    detach: bool
    yes: bool

    @property
    def is_plain(self) -> bool:
        """Whether nothing was said that only an operation can heed."""
        given = (self.canary, self.pace, self.reason)
        return not (self.dry_run or self.detach) and all(value is None for value in given)


def manner_options(body: Body) -> Body:
    """Add the options of `Manner`; the body takes them as one argument `manner`."""

    @wraps(body)
    def gathered(session: object, **given: Any) -> Any:
        manner = {name: given.pop(name) for name in Manner.__struct_fields__}
        return body(session, manner=Manner(**manner), **given)

    return _options(gathered)


_options = all_of(
    click.option("--dry-run", is_flag=True, help="Only show what would change."),
    click.option("--canary", metavar="N", type=int, help="Change N jobs, then wait for go-on."),
    click.option("--pace", metavar="N", type=float, help="At most N jobs a second."),
    click.option("--reason", help="Why, for the audit."),
    click.option("--detach", is_flag=True, help="Return at once: a worker does the work."),
    click.option("--yes", "-y", is_flag=True, help="Do not ask before changing many."),
)


async def apply_to_all(
    session: CommandSession,
    client: Client,
    command: JobCommand,
    words: FilterWords,
    manner: Manner,
    *,
    everything: bool = False,
) -> None:
    """Show how many are meant, ask, and work on an operation until it is done or waits."""
    verb = command.row.verb
    preview = await client.operations.preview(verb, everything=everything, **words)
    if manner.dry_run or not preview.matched:
        samples = tuple(await client.shown.jobs(preview.samples))
        preview = msgspec.structs.replace(preview, samples=samples)
        session.answer(_preview_document(preview), lambda: _draw_preview(command, preview))
        return
    what = f"{command.word} {counted(preview.matched, 'job')}"
    for_good = "" if preview.can_undo else ", which cannot be undone"
    confirm(session, what + for_good, manner.yes, instead="--dry-run to only look")
    operation = await client.operations.begin(
        verb,
        command.value,
        everything=everything,
        canary=manner.canary,
        pace=manner.pace,
        reason=manner.reason,
        by=session.by,
        **words,
    )
    if not manner.detach:
        operation = await follow(session, client, operation)
    session.answer(_bulk_document(operation), lambda: _draw_bulk(command, operation))
    if not session.as_json:
        for line in lines_of(operation):
            complain(line)


def _preview_document(preview: Preview) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(preview)
    samples = [job_document(job) for job in preview.samples]
    return document | {"samples": samples, "changed": 0, "dry_run": True}


def _draw_preview(command: JobCommand, preview: Preview) -> Iterator[RenderableType]:
    yield f"{counted(preview.matched, 'job')} would be {command.done}"
    if not preview.matched:
        return
    for about, counts in (("state", preview.by_state), ("queue", preview.by_queue)):
        shown = ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items()))
        yield indented(f"by {about}: {shown}", "dim")
    for job in preview.samples:
        yield indented(f"{job.id} {job.task} in {job.queue}, {ago_text(job.created_at)}", "dim")
    if not preview.can_undo:
        yield indented("this cannot be undone", "yellow")


def _bulk_document(operation: Operation) -> dict[str, Any]:
    return document_of(operation) | {"operation": operation.id, "dry_run": False}


def _draw_bulk(command: JobCommand, operation: Operation) -> Iterator[RenderableType]:
    if operation.state is OperationState.RUNNING:
        yield f"operation {operation.id} runs: holdfast operations show {operation.id}"
        return
    matched, changed = operation.request.matched, operation.progress.changed
    yield f"{changed:,} of {counted(matched, 'job')} {command.done}"
    yield from left_lines(operation)
