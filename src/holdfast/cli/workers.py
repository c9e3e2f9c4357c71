"""`holdfast workers list`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli.output import ago_text, duration_text, make_table, make_text
from holdfast.cli.program import workers_group
from holdfast.cli.target import CommandSession
from holdfast.store.contract.records import WorkerInfo

if TYPE_CHECKING:
    from rich.console import RenderableType


@workers_group.command("list")
async def list_workers(session: CommandSession) -> None:
    """List workers, live or lapsed but not yet swept, oldest first."""
    async with session.client() as client:
        workers = await client.workers.all()
    document = {"workers": [_document(worker) for worker in workers]}
    session.answer(document, lambda: _draw(workers))


def _document(worker: WorkerInfo) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(worker)
    return document | {"alive": worker.alive}


def _running_text(worker: WorkerInfo) -> str:
    stuck = sum(worker.stuck.values())
    return f"{worker.running} (+{stuck} stuck)" if stuck else str(worker.running)


def _draw(workers: list[WorkerInfo]) -> Iterator[RenderableType]:
    if not workers:
        yield "no workers"
        return
    table = make_table("worker", "queues", ">running", ">tasks", "=started", "=heartbeat", "=lease")
    for worker in workers:
        left = worker.expires_in or 0.0
        lease = (
            make_text(f"{duration_text(left)} left", "green")
            if worker.alive
            else make_text(f"lapsed {duration_text(-left)} ago", "red")
        )
        table.add_row(
            worker.name,
            ", ".join(f"{queue}:{slots}" for queue, slots in worker.queues.items()),
            _running_text(worker),
            str(len(worker.tasks)),
            ago_text(worker.started_at),
            ago_text(worker.heartbeat_at),
            lease,
        )
    yield table
