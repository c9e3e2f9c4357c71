"""`holdfast doctor`: what is wrong with this store, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.advice import advice_text, command_text
from holdfast.cli.output import make_text
from holdfast.cli.program import program
from holdfast.cli.target import CommandSession, require_store_file
from holdfast.insights.diagnosis import Diagnosis
from holdfast.insights.doctor import examine
from holdfast.job.redaction import redact
from holdfast.job.text import counted
from holdfast.store.contract.health import Severity
from holdfast.store.open import open_store

if TYPE_CHECKING:
    from rich.console import RenderableType

MARKS = {
    Severity.OK: ("✓", "green"),
    Severity.WARNING: ("!", "yellow"),
    Severity.PROBLEM: ("✗", "bold red"),
}


@program.command("doctor")
@click.option("--deep", is_flag=True, help="Read every job and flow, and recount the books.")
@click.option("--fix", is_flag=True, help="As --deep, and correct wrong lists, books and flows.")
async def doctor(session: CommandSession, deep: bool, fix: bool) -> None:
    """Check schema, clock, workers, queues, stuck jobs and flows.

    The exit code is 1 if there is a problem.
    """
    url = session.url
    require_store_file(url)
    store = open_store(url, may_create=False)
    findings = await examine(store, deep=deep, fix=fix, by=session.by, tell=_tell)
    problems = sum(finding.severity is Severity.PROBLEM for finding in findings)
    document = {"healthy": not problems, "findings": [_document(each) for each in findings]}
    session.answer(document, lambda: _draw(findings))
    if problems:
        raise click.exceptions.Exit(1)


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _document(diagnosis: Diagnosis) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(diagnosis)
    return document | {"commands": [command_text(action) for action in diagnosis.actions]}


def _draw(findings: list[Diagnosis]) -> Iterator[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for finding in findings:
        mark, style = MARKS[finding.severity]
        saw = Text(redact(finding.saw))
        if advice := advice_text(finding.advice, finding.actions):
            saw.append(f"\n→ {redact(advice)}", style="cyan")
        grid.add_row(make_text(mark, style), finding.check, saw)
    yield grid
    yield _verdict(findings)


def _verdict(findings: list[Diagnosis]) -> RenderableType:
    problems = sum(finding.severity is Severity.PROBLEM for finding in findings)
    warnings = sum(finding.severity is Severity.WARNING for finding in findings)
    if problems:
        return make_text(
            f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}", "bold red"
        )
    if warnings:
        return make_text(f"no problem, {counted(warnings, 'warning')}", "yellow")
    return make_text("all is well", "green")
