"""`holdfast queues|tasks|schedules pause|resume|delete NAME…`: a command for each row on names."""

from __future__ import annotations

import difflib

import click

from holdfast.cli.asking import confirm
from holdfast.cli.command import Group
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.client.client import Client
from holdfast.insights.actions import Noun, Verb
from holdfast.operations.rows import NameVerb
from holdfast.operations.verbs import NAME_VERBS
from holdfast.store.contract.queues import EVERY_QUEUE

NAMES_SHOWN = 8

creating = click.option(
    "--create", is_flag=True, help="Also what nobody knows yet: make it ahead of time."
)


async def require_known(
    client: Client,
    noun: Noun,
    names: tuple[str, ...],
    *,
    may_create: bool = True,
    reads: bool = False,
) -> None:
    """An operator who misspelt the name of a queue or task must hear of it, because what was meant
    goes on. Nothing is changed if one of several names is not known."""
    match noun:
        case Noun.QUEUES:
            all_known = {one.name for one in await client.queues.all()}
            missing = [name for name in names if name not in all_known]
        case Noun.TASKS:
            all_known = await client.tasks.known()
            missing = await client.tasks.unknown(*names)
        case _:
            return  # a verb on schedules says so itself
    if missing:
        close = difflib.get_close_matches(missing[0], all_known, NAMES_SHOWN) or sorted(all_known)
        some = ", ".join(close[:NAMES_SHOWN]) or "none"
        rest = "" if len(all_known) <= NAMES_SHOWN else f", of {len(all_known):,}"
        instead = f"; add --create for a {noun[:-1]} that is to come" if may_create else ""
        unchanged = "" if reads else ", and nothing was changed"
        said = f"no {noun[:-1]} {missing[0]!r} is known{unchanged}"
        raise UsageProblem(f"{said}; known: {some}{rest}{instead}")


def add_name_commands(group: Group, noun: Noun) -> None:
    """Add the commands of one noun to its group."""
    for row in NAME_VERBS.values():
        if row.noun is noun:
            _add(group, row)


def _add(group: Group, row: NameVerb) -> None:
    async def body(
        session: CommandSession, names: tuple[str, ...], yes: bool = True, create: bool = False
    ) -> None:
        confirm(session, f"{row.verb} {', '.join(names)} with their history", yes)
        await _apply(session, row, names, create)

    if row.noun is Noun.QUEUES:
        _add_with_all(group, row)
        return
    asking = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
    naming = click.argument("names", metavar="NAME...", nargs=-1, required=True)
    body = asking(body) if row.danger else body
    body = creating(body) if _may_create(row) else body
    group.command(row.verb, help=row.about)(naming(body))


def _add_with_all(group: Group, row: NameVerb) -> None:
    """A verb on queues knows all of them at once, also those that do not exist yet."""

    async def body(
        session: CommandSession, names: tuple[str, ...], every: bool, create: bool = False
    ) -> None:
        if bool(names) == every:
            raise UsageProblem("give names of queues, or --all")
        if names:
            await _apply(session, row, names, create)
            return
        async with session.client() as client:
            verbs = {Verb.PAUSE: client.queues.pause_all, Verb.RESUME: client.queues.resume_all}
            await verbs[row.verb](by=session.by)
        session.answer({row.done: [EVERY_QUEUE]}, lambda: [f"{row.done} all queues"])

    naming = click.argument("names", metavar="[NAME]...", nargs=-1)
    every = click.option("--all", "every", is_flag=True, help="All queues, also those to come.")
    body = creating(every(body)) if _may_create(row) else every(body)
    group.command(row.verb, help=row.about)(naming(body))


def _may_create(row: NameVerb) -> bool:
    """What nobody knows yet may be paused ahead of time; there is nothing to resume."""
    return row.verb is Verb.PAUSE and row.noun is not Noun.SCHEDULES


async def _apply(
    session: CommandSession, row: NameVerb, names: tuple[str, ...], create: bool
) -> None:
    async with session.client() as client:
        if not create:
            await require_known(client, row.noun, names, may_create=_may_create(row))
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
