"""`holdfast queues|tasks|schedules pause|resume|delete NAME…`: a command for each row on names."""

from __future__ import annotations

import click

from holdfast.cli.asking import confirm
from holdfast.cli.command import Group
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.client.client import Client
from holdfast.insights.actions import Noun, Verb
from holdfast.operations.rows import NameVerb
from holdfast.operations.verbs import NAME_VERBS
from holdfast.store.contract.queues import EVERY_QUEUE


def add_name_commands(group: Group, noun: Noun) -> None:
    """Add the commands of one noun to its group."""
    for row in NAME_VERBS.values():
        if row.noun is noun:
            _add(group, row)


def _add(group: Group, row: NameVerb) -> None:
    async def body(session: CommandSession, names: tuple[str, ...], yes: bool = True) -> None:
        confirm(session, f"{row.verb} {', '.join(names)} with their history", yes)
        await _apply(session, row, names)

    if row.noun is Noun.QUEUES:
        _add_with_all(group, row)
        return
    asking = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
    naming = click.argument("names", metavar="NAME...", nargs=-1, required=True)
    group.command(row.verb, help=row.about)(naming(asking(body) if row.danger else body))


def _add_with_all(group: Group, row: NameVerb) -> None:
    """A verb on queues knows all of them at once, also those that do not exist yet."""

    async def body(session: CommandSession, names: tuple[str, ...], every: bool) -> None:
        if bool(names) == every:
            raise UsageProblem("give names of queues, or --all")
        if names:
            await _apply(session, row, names)
            return
        async with session.client() as client:
            verbs = {Verb.PAUSE: client.queues.pause_all, Verb.RESUME: client.queues.resume_all}
            await verbs[row.verb](by=session.by)
        session.answer({row.done: [EVERY_QUEUE]}, lambda: [f"{row.done} all queues"])

    naming = click.argument("names", metavar="[NAME]...", nargs=-1)
    every = click.option("--all", "every", is_flag=True, help="All queues, also those to come.")
    group.command(row.verb, help=row.about)(naming(every(body)))


async def _apply(session: CommandSession, row: NameVerb, names: tuple[str, ...]) -> None:
    async with session.client() as client:
        for name in names:
            await _apply_to(client, row, name, session.by)
    session.answer({row.done: names}, lambda: [f"{row.done} {', '.join(names)}"])


async def _apply_to(client: Client, row: NameVerb, name: str, by: str) -> None:
    match row.noun:
        case Noun.QUEUES:
            await client.queues.apply(row, name, by=by)
        case Noun.TASKS:
            await client.tasks.apply(row, name, by=by)
        case Noun.SCHEDULES:
            await client.schedules.apply(row, name, by=by)
        case Noun.JOBS | Noun.WORKERS | Noun.OPERATIONS | Noun.FAILURES | Noun.BOOKS:
            raise ValueError(f"no {row.noun} are called by a name")
