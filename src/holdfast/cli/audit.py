"""`holdfast audit list`: who changed what."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.filters import moment_option
from holdfast.cli.output import ago_text, indented, make_text
from holdfast.cli.program import audit_group
from holdfast.cli.target import CommandSession
from holdfast.job.json_text import shown_value
from holdfast.job.redaction import redact, redact_value
from holdfast.operations.verbs import VERBS
from holdfast.store.contract.audit import ActOutcome, AuditEntry, AuditPage

if TYPE_CHECKING:
    from rich.console import RenderableType

COLOURS = {
    ActOutcome.DONE: "green",
    ActOutcome.REFUSED: "yellow",
    ActOutcome.FAILED: "red",
    ActOutcome.INTERRUPTED: "red",
    ActOutcome.UNDER_WAY: "cyan",
}


@audit_group.command("list")
@click.option("--by", help="Only acts of this operator, such as ann@desk.")
@click.option(
    "--verb",
    help="Only this verb, such as jobs.cancel.",
    shell_complete=lambda ctx, param, begun: [
        row.word for row in VERBS.values() if row.word.startswith(begun)
    ],
)
@click.option("--target", help="Only acts on this id or name.")
@moment_option("--since", help="Begun after: '2h' (ago) or an ISO time.")
@moment_option("--until", help="Begun before: '2h' (ago) or an ISO time.")
@click.option("--limit", metavar="N", default=25, help="At most this many.")
@click.option("--cursor", metavar="ID", help="Go on where the page before ended.")
async def list_acts(
    session: CommandSession,
    by: str | None,
    verb: str | None,
    target: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List what operators did, newest first: who, what, on what, how many, and how it ended."""
    async with session.client() as client:
        page = await client.audit.page(
            by=by, verb=verb, target=target, since=since, until=until, limit=limit, cursor=cursor
        )
    document = {
        "acts": [_document(entry) for entry in page.entries],
        "next_cursor": page.next_cursor,
    }
    session.answer(document, lambda: _draw(page))


def _document(entry: AuditEntry) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(entry)
    error = None if entry.error is None else redact(entry.error)
    values = {"which": _value(entry.which), "arguments": _value(entry.arguments)}
    return document | values | {"error": error}


def _value(text: str | None) -> Any:
    return redact_value(shown_value(text))


def _draw(page: AuditPage) -> Iterator[RenderableType]:
    from rich.text import Text

    if not page.entries:
        yield "no acts match"
        return
    for entry in page.entries:
        yield Text.assemble(
            f"{ago_text(entry.begun_at)}  {entry.by}  ",
            (entry.verb, "bold"),
            f" {_aim(entry)}  ",
            (entry.outcome.value, COLOURS[entry.outcome]),
            f", {entry.changed:,} changed",
        )
        if entry.arguments is not None:
            yield indented(_words(entry.arguments), "dim")
        if entry.error is not None:
            yield indented(redact(entry.error), "red")
    if page.next_cursor is not None:
        yield make_text(f"more: --cursor {page.next_cursor}", "dim")


def _aim(entry: AuditEntry) -> str:
    if entry.which is None:
        return entry.target
    return _words(entry.which) or "every job"


def _words(text: str) -> str:
    """A JSON object as `name=value` words."""
    words = _value(text)
    if not isinstance(words, dict):
        return str(words)  # damaged: it spoils its own line alone
    return " ".join(f"{name}={_word(value)}" for name, value in words.items())


def _word(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(_word, value))
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
