"""`holdfast top`: a store as it lives, in a terminal."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.filters import wait_option
from holdfast.cli.following import document_of as operation_document
from holdfast.cli.output import make_console
from holdfast.cli.program import program
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.cli.workers import document_of as worker_document
from holdfast.client.client import Client
from holdfast.errors import HoldfastError
from holdfast.insights.overview import Overview

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY_SECONDS = 2.0
LEAST_SECONDS = 0.1
FRAME_WIDTH, FRAME_LINES = 120, 40
"""The most columns of a frame that is printed, and about the lines of its overview."""


@program.command("top")
@wait_option("--every", help="How often to read the store. Default: 2 seconds.")
@click.option("--once", is_flag=True, help="Print one frame as plain text, and end.")
async def top(session: CommandSession, every: float | None, once: bool) -> None:
    """Watch queues, jobs, failures and workers, and act on them.

    Keys 1 to 6 or Tab choose the view, ? shows all keys, q quits. What a key does goes through the
    same verbs as the other commands, and into the same audit. It needs 'holdfast[top]', but for
    --once and --json, which print one frame.
    """
    seconds = EVERY_SECONDS if every is None else every
    if seconds < LEAST_SECONDS:
        raise UsageProblem(f"--every must be at least {LEAST_SECONDS:g} s, got {seconds:g} s")
    is_alone = once or session.as_json
    if not is_alone:
        require_screen()
    async with session.client() as client:
        if is_alone:
            seen = await client.shown.overview(await client.telemetry.overview())
            session.answer(_document(seen), lambda: _draw(seen))
        else:
            await _watch(client, session.by, seconds)


def require_screen() -> None:
    """Refuse where nothing could be drawn, and say what to do instead."""
    if not has_terminal():
        raise UsageProblem("top needs a terminal: --once prints one frame, --json a document")
    try:
        import textual  # noqa: F401 - only whether it is there
    except ModuleNotFoundError as missing:
        raise HoldfastError(
            "top needs textual: pip install 'holdfast[top]'; --once works without it"
        ) from missing


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()


async def _watch(client: Client, by: str, every: float) -> None:
    from holdfast.cli.top_app import TopApp

    spare_collector()
    await TopApp(client, by=by, every=every).run_async()


def spare_collector() -> None:
    """Let the garbage collector pass over the program and its libraries from now on: to look
    through them takes it longer than a redraw."""
    gc.collect()
    gc.freeze()


def _document(seen: Overview) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(seen)
    return document | {
        "workers": [worker_document(worker) for worker in seen.workers],
        "operations": [operation_document(operation) for operation in seen.operations],
    }


def _draw(seen: Overview) -> Iterator[RenderableType]:
    from holdfast.cli.top_sheets import worker_sheet
    from holdfast.cli.top_text import overview_lines, titled

    room = min(make_console().width, FRAME_WIDTH)
    yield from overview_lines(seen, room, FRAME_LINES)
    if seen.workers:
        yield from titled("workers", worker_sheet(seen), room)
