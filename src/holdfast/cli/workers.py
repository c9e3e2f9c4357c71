"""`holdfast workers list|show`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.output import (
    ago_text,
    duration_text,
    every_field,
    has_room_for_tables,
    indented,
    make_table,
    make_text,
)
from holdfast.cli.program import workers_group
from holdfast.cli.sizes import size_text
from holdfast.cli.target import CommandSession
from holdfast.job.text import counted
from holdfast.store.contract.facts import SlotFacts
from holdfast.store.contract.workers import WorkerInfo, WorkerStanding

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

COLOURS = {
    WorkerStanding.ALIVE: "green",
    WorkerStanding.DRAINING: "yellow",
    WorkerStanding.LAPSED: "red",
}


@workers_group.command("list")
async def list_workers(session: CommandSession) -> None:
    """List workers, live or lapsed but not yet swept, oldest first."""
    async with session.client() as client:
        workers = await client.workers.all()
    document = {"workers": [document_of(worker) for worker in workers]}
    session.answer(document, lambda: _draw(workers))


@workers_group.command("show")
@click.argument("worker", metavar="NAME|ID")
async def show_worker(session: CommandSession, worker: str) -> None:
    """Show what a worker says of itself: slots, load, what its reconcilers did."""
    async with session.client() as client:
        workers = await client.workers.named(worker)
    document = {"workers": [document_of(one) for one in workers]}
    session.answer(document, lambda: (part for one in workers for part in draw_worker(one)))


def document_of(worker: WorkerInfo) -> dict[str, Any]:
    """The worker for programs. Ages are by the store's clock."""
    document: dict[str, Any] = msgspec.to_builtins(worker)
    facts = {field: getattr(worker.facts, field) for field in worker.facts.__struct_fields__}
    facts["slots"] = {choice: _slots(slots) for choice, slots in slots_of(worker).items()}
    facts["reconcilers"] = worker.facts.reconcilers
    return document | {
        "facts": facts,
        "alive": worker.alive,
        "standing": worker.standing,
        "heartbeat_age": worker.heartbeat_age,
    }


def _slots(slots: SlotFacts) -> dict[str, int | None]:
    return every_field(slots)


def slots_of(worker: WorkerInfo) -> Mapping[str, SlotFacts]:
    """What it said of its slots; of a worker that said nothing, those it registered."""
    told = worker.facts.slots
    if told is not None:
        return told
    return {choice: SlotFacts(free=slots) for choice, slots in worker.queues.items()}


def _draw(workers: list[WorkerInfo]) -> Iterator[RenderableType]:
    if not workers:
        yield "no workers"
        return
    yield from _as_table(workers) if has_room_for_tables() else _stacked(workers)
    yield make_text(_sum(workers), "dim")


def _as_table(workers: list[WorkerInfo]) -> Iterator[RenderableType]:
    table = make_table(
        *("worker", "queues", ">running", ">cpu", ">memory", ">loop lag", "=release", "=started"),
        *("=heartbeat", "=state"),
    )
    for worker in workers:
        facts = worker.facts
        table.add_row(
            worker.name,
            _slots_of_queues(worker),
            _running_text(worker),
            cpu_text(facts.cpu),
            size_text(facts.memory),
            duration_text(facts.loop_lag),
            worker.version,
            ago_text(worker.started_at, worker.read_at),
            f"{duration_text(worker.heartbeat_age)} ago",
            standing_text(worker),
        )
    yield table


def _stacked(workers: list[WorkerInfo]) -> Iterator[RenderableType]:
    """Workers below each other, for a terminal so narrow that a table would break every word."""
    from rich.text import Text

    for worker in workers:
        facts = worker.facts
        yield Text.assemble(worker.name, "  ", standing_text(worker))
        parts = (
            _slots_of_queues(worker),
            f"{_running_text(worker)} running",
            f"cpu {cpu_text(facts.cpu)}",
            f"memory {size_text(facts.memory)}",
            f"loop lag {duration_text(facts.loop_lag)}",
            f"release {worker.version}",
            f"started {ago_text(worker.started_at, worker.read_at)}",
            f"heartbeat {duration_text(worker.heartbeat_age)} ago",
        )
        yield indented(" · ".join(parts), "dim")


def _slots_of_queues(worker: WorkerInfo) -> str:
    only = worker.facts.only
    labels = [f"+{label}" for label in worker.facts.labels if label not in only]
    labels += [f"only +{label}" for label in only]
    slots = ", ".join(slots_text(choice, one) for choice, one in slots_of(worker).items())
    return " ".join([slots, *labels])


def _sum(workers: list[WorkerInfo]) -> str:
    """Lapsed workers are never counted among the live ones."""
    of = {each: sum(one.standing is each for one in workers) for each in WorkerStanding}
    return ", ".join(f"{number} {each}" for each, number in of.items() if number)


def slots_text(choice: str, slots: SlotFacts) -> str:
    """Used slots of all, such as `mail 3/10`, and `mail 3/10 (share 4)` where the queue has a total
    that workers share."""
    text = f"{choice} {slots.used}/{slots.used + slots.free + slots.stuck}"
    if slots.share is not None:
        text += f" (share {slots.share})"
    return f"{text} ({slots.stuck} stuck)" if slots.stuck else text


def cpu_text(cores: float | None) -> str:
    return "–" if cores is None else f"{cores * 100:.0f}%"


def _running_text(worker: WorkerInfo) -> str:
    stuck = sum(worker.facts.stuck.values())
    return f"{worker.running} (+{stuck} stuck)" if stuck else str(worker.running)


def standing_text(worker: WorkerInfo) -> Text:
    left = worker.expires_in or 0.0
    words = {
        WorkerStanding.ALIVE: f"alive, {duration_text(left)} left",
        WorkerStanding.DRAINING: "draining",
        WorkerStanding.LAPSED: f"lapsed {duration_text(-left)} ago",
    }
    return make_text(words[worker.standing], COLOURS[worker.standing])


def draw_worker(worker: WorkerInfo) -> Iterator[RenderableType]:
    from rich.table import Table

    facts = worker.facts
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    rows: dict[str, Text | str] = {
        "worker": f"{worker.name}  {worker.id}",
        "state": standing_text(worker),
        "where": f"{worker.host}, pid {worker.pid}, {facts.platform or '–'}",
        "release": f"holdfast {worker.version}, Python {facts.python or '–'}",
        "started": ago_text(worker.started_at, worker.read_at),
        "heartbeat": f"{duration_text(worker.heartbeat_age)} ago",
        "slots": _slots_of_queues(worker),
        "jobs": _jobs_text(worker),
        "process": f"cpu {cpu_text(facts.cpu)}, memory {size_text(facts.memory)}, "
        f"{facts.threads or '–'} threads, loop lag {duration_text(facts.loop_lag)}",
        "store": _store_text(worker),
        "tasks": ", ".join(worker.tasks),
    }
    for name, value in rows.items():
        grid.add_row(name, value)
    yield grid
    yield from _draw_reconcilers(worker)


def _jobs_text(worker: WorkerInfo) -> str:
    counts = worker.facts.counts
    words = {"claimed": "claimed", "ended": "ended", "handed_back": "handed back"}
    told = [f"{counts[name]:,} {word}" for name, word in words.items() if name in counts]
    return ", ".join([f"{_running_text(worker)} held", *told])


def _store_text(worker: WorkerInfo) -> str:
    facts, refused = worker.facts, worker.facts.counts.get("refused_writes", 0)
    out = facts.store_out_of_reach_for
    said = f"out of reach for {duration_text(out)}" if out else "answers"
    return f"{said}, {counted(facts.unwritten or 0, 'end')} unwritten, {refused:,} writes refused"


def _draw_reconcilers(worker: WorkerInfo) -> Iterator[RenderableType]:
    found = worker.facts.reconcilers
    if not found:
        return
    table = make_table(
        *("=reconciler", ">found", ">mended", ">refused", ">failed", ">skipped", ">errors"),
        "last error",
    )
    for name, one in found.items():
        numbers = (one.found, one.mended, one.refused, one.failed, one.skipped, one.errors)
        table.add_row(name, *(f"{number:,}" for number in numbers), one.last_error or "")
    yield ""
    yield table
