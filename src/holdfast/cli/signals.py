"""`holdfast jobs signal|signals` and `holdfast waits list|answer`: signals, and who waits."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.output import ago_text, make_table, make_text, time_text
from holdfast.cli.program import jobs_group, waits_group
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.job.signal import Sent, Signal, SignalWait
from holdfast.job.vote import read_vote_signal

if TYPE_CHECKING:
    from rich.console import RenderableType

VALUE_WIDTH = 80
TOLD = {
    Sent.WOKE: "the job waited for it, and goes on",
    Sent.KEPT: "it is kept until the job waits for it",
    Sent.DUPLICATE: "the job has had a signal with this key: nothing was changed",
}


@jobs_group.command("signal")
@click.argument("job_id", metavar="ID")
@click.argument("name")
@click.argument("value", required=False)
@click.option("--key", help="Of several signals with one key only the first counts.")
async def send_signal(
    session: CommandSession, job_id: str, name: str, value: str | None, key: str | None
) -> None:
    """Send a signal to a live job. VALUE is JSON: 42, '"yes"', '{"sum": 9}'."""
    given = None if value is None else _read(value)
    async with session.client() as client:
        sent = await client.signals.send(job_id, name, given, key=key, by=session.by)
    document = {"id": job_id, "signal": name, "sent": sent}
    session.answer(document, lambda: [f"signal {name!r}: {TOLD[sent]}"])


@jobs_group.command("signals")
@click.argument("job_id", metavar="ID")
async def show_signals(session: CommandSession, job_id: str) -> None:
    """Show what a job was sent, and what it has taken."""
    async with session.client() as client:
        job = await client.get(job_id)
        signals = await client.shown.signals(job, await client.signals.of(job_id))
    document = {"id": job_id, "signals": [_document(one) for one in signals]}
    session.answer(document, lambda: _draw_signals(signals))


@waits_group.command("list")
@click.option("--limit", type=int, default=50, help="At most so many.")
@click.option("--cursor", help="Go on where the last page ended.")
async def list_waits(session: CommandSession, limit: int, cursor: str | None) -> None:
    """List what suspended jobs wait for: signals and votes, by job."""
    async with session.client() as client:
        waits, following = await client.signals.waits(limit=limit, cursor=cursor)
    document = {"waits": [_wait_document(one) for one in waits], "next_cursor": following}
    session.answer(document, lambda: _draw_waits(waits, following))


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


def _read(value: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise UsageProblem(
            f"VALUE is JSON, and this is none ({error}); a text needs quotes of its own: '\"yes\"'"
        ) from None


def _document(signal: Signal) -> dict[str, Any]:
    return {
        "n": signal.n,
        "name": signal.name,
        "value": signal.value,
        "key": signal.key,
        "at": signal.at,
        "taken_by": signal.taken_by,
    }


def _wait_document(wait: SignalWait) -> dict[str, Any]:
    """A vote is told by the question and the person, as on the screen; `signal` stays as it is."""
    vote = read_vote_signal(wait.signal)
    told = None if vote is None else {"wait": vote.wait, "who": vote.who}
    return {**msgspec.structs.asdict(wait), "vote": told}


def _draw_signals(signals: Sequence[Signal]) -> Iterator[RenderableType]:
    if not signals:
        yield "it was sent no signals"
        return
    table = make_table(">n", "signal", "=how", "=sent", "key", "value")
    for one in signals:
        how = "kept" if one.taken_by is None else "taken"
        table.add_row(str(one.n), one.name, how, ago_text(one.at), one.key, _value(one))
    yield table


def _value(signal: Signal) -> str:
    if signal.taken_by is not None:
        return f"in step {signal.taken_by!r}"
    line = " ".join((signal.value_json or "").split())
    return line if len(line) <= VALUE_WIDTH else line[: VALUE_WIDTH - 1] + "…"


def _awaited(wait: SignalWait) -> str:
    vote = read_vote_signal(wait.signal)
    return wait.signal if vote is None else f"vote of {vote.who} on {vote.wait!r}"


def _draw_waits(waits: Sequence[SignalWait], following: str | None) -> Iterator[RenderableType]:
    if not waits:
        yield "no job waits for a signal"
        return
    table = make_table("=id", "task", "queue", "signal", "=since", "=until")
    for one in waits:
        until = "" if one.until is None else time_text(one.until)
        table.add_row(one.id, one.task, one.queue, _awaited(one), ago_text(one.since), until)
    yield table
    if following is not None:
        yield make_text(f"more: --cursor {following!r}", "dim")
