"""`holdfast queues|schedules pause|resume|delete NAME…`: one command for each row on names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from holdfast.cli.asking import confirm
from holdfast.cli.command import add_command
from holdfast.cli.target import CommandSession
from holdfast.client.client import Client
from holdfast.client.verbs import NAME_VERBS, NameVerb
from holdfast.insights.actions import Noun

Names = Annotated[list[str], typer.Argument(metavar="NAME")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def add_name_commands(group: typer.Typer, noun: Noun) -> None:
    """Add the commands of one noun to its group."""
    for row in NAME_VERBS.values():
        if row.noun is noun:
            add_command(group, row.verb, _body(row))


def _body(row: NameVerb) -> Callable[..., Any]:
    async def plain(session: CommandSession, names: Names) -> None:
        await _apply(session, row, names)

    async def asking(session: CommandSession, names: Names, yes: Yes = False) -> None:
        confirm(session, f"{row.verb} {', '.join(names)} with their history", yes)
        await _apply(session, row, names)

    body = asking if row.destroys else plain
    body.__doc__ = row.about
    return body


async def _apply(session: CommandSession, row: NameVerb, names: list[str]) -> None:
    async with session.client() as client:
        for name in names:
            await _apply_to(client, row, name, session.actor)
    session.answer({row.done: names}, lambda: [f"{row.done} {', '.join(names)}"])


async def _apply_to(client: Client, row: NameVerb, name: str, actor: str) -> None:
    match row.noun:
        case Noun.QUEUES:
            await client.queues.apply(row, name, actor=actor)
        case Noun.SCHEDULES:
            await client.schedules.apply(row, name, actor=actor)
        case Noun.JOBS | Noun.WORKERS:
            raise ValueError(f"no {row.noun} are called by a name")
