"""Before and during a large change: the question to the person, and the bar that shows progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from holdfast.cli.output import make_console
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.client.selection import OnProgress


def confirm(session: CommandSession, what: str, yes: bool, *, instead: str = "") -> None:
    """Ask before doing `what`. Where nobody can answer, the call is wrong without `--yes`."""
    if yes:
        return
    if session.as_json or not sys.stdin.isatty():
        other = f", or {instead}" if instead else ""
        raise UsageProblem(f"this would {what}: add --yes to do it without a question{other}")
    if not click.confirm(f"{what}?", err=True):
        raise click.exceptions.Exit(1)


@contextmanager
def progress_bar(session: CommandSession, what: str, total: int) -> Iterator[OnProgress | None]:
    """A bar on standard error, if standard error is a terminal."""
    if session.as_json or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress("{task.description}", *columns, console=make_console(stderr=True)) as bar:
        work = bar.add_task(what, total=total)
        yield lambda done, of: bar.update(work, completed=done, total=of)
