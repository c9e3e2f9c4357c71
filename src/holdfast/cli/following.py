"""Working on an operation while its progress is shown. Ctrl-C stops it in good order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.cli.asking import progress_bar
from holdfast.cli.output import complain
from holdfast.cli.target import CommandSession
from holdfast.errors import Refused
from holdfast.job.redaction import redact, redact_value
from holdfast.job.text import counted
from holdfast.operations.pages import is_readable, row_of, words_of
from holdfast.store.contract.operations import Operation, OperationState

if TYPE_CHECKING:
    from holdfast.client.client import Client


async def follow(session: CommandSession, client: Client, operation: Operation) -> Operation:
    """Work on the operation, or watch whoever does, until it no longer runs. A person who
    interrupts the command wants the work to stop; a command that is killed leaves it to the
    workers."""
    with progress_bar(session, operation.request.verb, operation.request.matched) as show:

        def on_move(now: Operation) -> None:
            if show is not None:
                show(now.progress.changed + now.progress.failed, now.request.matched)

        try:
            return await client.operations.follow(operation.id, on_move)
        except asyncio.CancelledError:
            await _stop(session, client, operation)
            raise


async def _stop(session: CommandSession, client: Client, operation: Operation) -> None:
    try:
        await client.operations.stop(operation.id, by=session.by)
    except Refused:
        return  # it ended just then
    stopped = await client.operations.get(operation.id)
    for line in lines_of(stopped):
        complain(line)


def document_of(operation: Operation) -> dict[str, Any]:
    """The operation for programs."""
    request, progress = operation.request, operation.progress
    document = {
        "id": operation.id,
        "verb": request.verb,
        "which": words_of(request) if request.undoes is None else None,
        "value": request.value,
        "by": request.by,
        "reason": request.reason,
        "undoes": request.undoes,
        "canary": request.canary,
        "pace": request.pace,
        "state": operation.state,
        "matched": request.matched,
        "changed": progress.changed,
        "failed": progress.failed,
        "errors": progress.errors,
        "begun_at": operation.begun_at,
        "advanced_at": operation.advanced_at,
    }
    shown: dict[str, Any] = redact_value(document)
    return shown


def lines_of(operation: Operation) -> list[str]:
    """What a person may do about the operation now, and why jobs were left as they were."""
    lines = []
    if operation.state is OperationState.WAITING:
        lines.append(f"operation {operation.id} waits: its canary is done")
        lines.append(f"  how it ended: holdfast operations show {operation.id}")
    if operation.state is OperationState.STOPPED:
        lines.append(f"operation {operation.id} is stopped after {_so_far(operation)}")
    if operation.state in (OperationState.WAITING, OperationState.STOPPED):
        lines.append(f"  go on: holdfast operations go-on {operation.id}")
    if operation.state is not OperationState.RUNNING and can_undo(operation):
        lines.append(f"  take it back: holdfast operations undo {operation.id}")
    return lines


def left_lines(operation: Operation) -> list[str]:
    progress = operation.progress
    if not progress.failed:
        return []
    more = progress.failed - len(progress.errors)
    were = "it was" if progress.failed == 1 else "they were"
    return [
        f"{counted(progress.failed, 'job')} left as {were}:",
        *(f"  {redact(error)}" for error in progress.errors),
        *([f"  and {more:,} more"] if more > 0 else []),
    ]


def can_undo(operation: Operation) -> bool:
    request = operation.request
    if not is_readable(request) or not request.keeps or request.undoes is not None:
        return False
    return row_of(request).undo is not None and operation.progress.changed > 0


def _so_far(operation: Operation) -> str:
    return f"{operation.progress.changed:,} of {counted(operation.request.matched, 'job')}"
