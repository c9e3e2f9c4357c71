"""`holdfast waits answer`: the vote of a person whom a job has asked."""

from __future__ import annotations

import sys

import click
import msgspec

from holdfast.cli.program import waits_group
from holdfast.cli.target import CommandSession


@waits_group.command("answer")
@click.argument("token")
@click.argument("answer", type=click.Choice(["yes", "no"]))
@click.option("--note", help="What the job is told beside it.")
async def answer_wait(session: CommandSession, token: str, answer: str, note: str | None) -> None:
    """Answer as the person who was sent TOKEN.

    TOKEN may be -: then it is read from standard input, so that no list of processes and no history
    of a shell has it.
    """
    given = sys.stdin.readline().strip() if token == "-" else token
    answered = {"approve": answer == "yes", "note": note}
    async with session.client() as client:
        vote = await client.answer(given, answered, by=session.by)
    word = "yes" if vote.approve else "no"
    session.answer(msgspec.to_builtins(vote), lambda: [f"{vote.who} has answered {word}"])
