"""`holdfast queues|schedules pause|resume|delete NAME…`: one command for each row on names."""

from __future__ import annotations

import click

from holdfast.cli.asking import confirm
from holdfast.cli.command import Group
from holdfast.cli.target import CommandSession
from holdfast.client.client import Client
from holdfast.client.verbs import NAME_VERBS, NameVerb
from holdfast.insights.actions import Noun


def add_name_commands(group: Group, noun: Noun) -> None:
    """Add the commands of one noun to its group."""
    for row in NAME_VERBS.values():
        if row.noun is noun:
            _add(group, row)


def _add(group: Group, row: NameVerb) -> None:
    async def body(session: CommandSession, names: tuple[str, ...], yes: bool = True) -> None:
        confirm(session, f"{row.verb} {', '.join(names)} with their history", yes)
        await _apply(session, row, names)

    asking = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
    naming = click.argument("names", metavar="NAME...", nargs=-1, required=True)
    group.command(row.verb, help=row.about)(naming(asking(body) if row.destroys else body))


async def _apply(session: CommandSession, row: NameVerb, names: tuple[str, ...]) -> None:
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
