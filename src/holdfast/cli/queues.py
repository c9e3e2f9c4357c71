"""`holdfast queues list|pause|resume|tune`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.filters import wait
from holdfast.cli.name_verbs import add_name_commands, creating, require_known
from holdfast.cli.output import duration_text, every_field, make_table, make_text
from holdfast.cli.program import queues_group
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.fleet.serving import Serving
from holdfast.insights.actions import Noun
from holdfast.job.state import JobState
from holdfast.store.contract.queues import QueueInfo

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


@queues_group.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1)
async def list_queues(session: CommandSession, names: tuple[str, ...]) -> None:
    """List queues with what waits in them: all, or those named."""
    async with session.client() as client:
        if names:
            await require_known(client, Noun.QUEUES, names, may_create=False, reads=True)
        queues = await client.queues.all(*names)
        all_paused = await client.queues.all_paused()
        workers = Serving(await client.workers.all())
    serving = {queue.name for queue in queues if workers.of(queue.name)}
    shown = [_document(queue, queue.name in serving) for queue in queues]
    document = {"queues": shown, "all_paused": all_paused}
    session.answer(document, lambda: _draw(queues, serving, all_paused))


def _document(queue: QueueInfo, served: bool) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(queue)
    return document | {"settings": every_field(queue.settings), "served": served}


def _draw(queues: list[QueueInfo], serving: set[str], all_paused: bool) -> Iterator[RenderableType]:
    if all_paused:
        yield make_text("every queue is paused: holdfast queues resume --all", "yellow")
    if not queues:
        yield "no queues yet"
        return
    table = make_table("=queue", ">ready", ">running", ">scheduled", ">suspended", ">lag", "")
    for queue in queues:
        states = (JobState.READY, JobState.RUNNING, JobState.SCHEDULED, JobState.SUSPENDED)
        numbers = [f"{queue.counts.get(state, 0):,}" for state in states]
        lag = duration_text(queue.oldest_ready_age)
        table.add_row(queue.name, *numbers, lag, _standing(queue, queue.name in serving))
    yield table


def _standing(queue: QueueInfo, served: bool) -> Text:
    if queue.paused:
        return make_text("paused", "yellow")
    if queue.cooling_for is not None:
        return make_text(f"cooling for {duration_text(queue.cooling_for)}", "yellow")
    if not served:
        return make_text("no live worker", "red" if queue.counts.get(JobState.READY) else "dim")
    total = queue.settings.max_running
    if total is not None and queue.counts.get(JobState.RUNNING, 0) >= total:
        return make_text(f"all {total:,} run", "yellow")
    return make_text("served" if total is None else f"served, at most {total:,} run", "green")


add_name_commands(queues_group, Noun.QUEUES)


@queues_group.command("tune")
@click.argument("name")
@click.option("--throttle-base", metavar="TIME", help="The first pause after a Throttled.")
@click.option("--throttle-cap", metavar="TIME", help="The longest pause after a Throttled.")
@click.option("--retain-succeeded", metavar="TIME", help="Keep succeeded jobs so long.")
@click.option("--retain-failed", metavar="TIME", help="Keep failed jobs so long.")
@click.option("--retain-other", metavar="TIME", help="Keep other ended jobs so long.")
@click.option("--max-running", metavar="N", help="So many run at once, in all workers together.")
@click.option("--aging", metavar="TIME", help="So long a wait counts as one step of priority.")
@creating
async def tune_queue(session: CommandSession, name: str, create: bool, **given: str | None) -> None:
    """Change settings of a queue: seconds, or 15m, 2h, 7d; 'none' leaves it to the jobs, or takes a
    total or the aging away."""
    changes: dict[str, Any] = {
        option: _value(option, text) for option, text in given.items() if text is not None
    }
    if not changes:
        options = ", ".join(f"--{option.replace('_', '-')}" for option in given)
        raise UsageProblem(f"nothing to change: give one of {options}")
    async with session.client() as client:
        if not create:
            await require_known(client, Noun.QUEUES, (name,))
        settings = await client.queues.tune(name, by=session.by, **changes)
    document = every_field(settings)
    session.answer(
        {"queue": name, "settings": document},
        lambda: [
            f"queue {name}",
            *(f"  {key} = {_shown(key, value)}" for key, value in document.items()),
        ],
    )


def _value(option: str, text: str) -> float | None:
    if option == "max_running" and text != "none":
        if not text.isdecimal():
            raise UsageProblem(f"--max-running must be a whole number or 'none', got {text!r}")
        return int(text)
    if text == "none":
        if option.startswith("throttle"):
            raise UsageProblem(f"--{option.replace('_', '-')} needs a time, got 'none'")
        return None
    return wait(f"--{option.replace('_', '-')}", text)


def _shown(key: str, value: float | None) -> str:
    if key in ("max_running", "aging") and value is None:
        return "none"
    if key == "max_running":
        return f"{value:,}"
    return "as the job says" if value is None else duration_text(value)
