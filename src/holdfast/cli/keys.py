"""`holdfast keys generate|status`: keys for encryption, and which of them are still needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from holdfast.cli.output import make_table, make_text, time_text
from holdfast.cli.program import keys_group
from holdfast.cli.target import CommandSession
from holdfast.clock import utcnow
from holdfast.encryption.keyring import generate_key
from holdfast.job.text import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.insights.key_use import KeyStatus, KeyUse


@keys_group.command("generate")
@click.option("--id", "kid", metavar="ID", help="The id of the key. Default: this month.")
def generate(session: CommandSession, kid: str | None) -> None:
    """Print a new key, for HOLDFAST_KEYS or a file of secrets.

    It is shown this once and kept nowhere.
    """
    key = generate_key(kid or f"{utcnow():%Y-%m}")
    session.answer({"key": key}, lambda: iter([make_text(key)]))


@keys_group.command("status")
@click.option("--look", metavar="N", type=int, help="Look at no more jobs than this.")
@click.option("--cursor", metavar="ID", help="Go on where the last look ended.")
async def status(session: CommandSession, look: int | None, cursor: str | None) -> None:
    """Show which keys are still needed, and by how many jobs.

    A key that nothing needs any more may be removed from HOLDFAST_KEYS.
    """
    async with session.client() as client:
        found = await client.keys.status(look=look, cursor=cursor)
    ring = session.settings.keys
    document = msgspec.to_builtins(found) | {
        "complete": found.complete,
        "ring": [] if ring is None else list(ring.ids),
    }
    session.answer(document, lambda: _draw(found, document["ring"]))


def _draw(found: KeyStatus, ring: list[str]) -> Iterator[RenderableType]:
    if found.keys:
        table = make_table("=key", ">live", ">ended", "encrypted", "schedules", "=here")
        for use in found.keys:
            table.add_row(*_row(use, ring))
        yield table
    unneeded = [kid for kid in ring if kid not in {use.kid for use in found.keys}]
    if unneeded and found.complete:
        yield make_text(f"no job needs {', '.join(unneeded)}", "dim")
    yield make_text(f"{counted(found.plain, 'job')} without encryption", "dim")
    looked = f"{counted(found.looked_at, 'job')} looked at"
    if found.complete:
        yield make_text(f"{looked}: all there are", "dim")
    else:
        back = "" if found.reached is None else f", back to {time_text(found.reached)}"
        yield make_text(f"{looked}{back}; go on with --cursor {found.next_cursor}", "dim")


def _row(use: KeyUse, ring: list[str]) -> list[str]:
    texts = ", ".join(f"{number:,} {what}" for what, number in use.texts.items())
    role = "first: encrypts" if ring[:1] == [use.kid] else "opens" if use.kid in ring else "missing"
    return [use.kid, f"{use.live:,}", f"{use.ended:,}", texts, ", ".join(use.schedules), role]
