"""`holdfast workers drain`."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.output import complain, duration_text
from holdfast.cli.program import workers_group
from holdfast.cli.target import CommandSession
from holdfast.client.client import Client
from holdfast.job.text import counted
from holdfast.store.contract.workers import WorkerInfo


@workers_group.command("drain")
@click.argument("workers", metavar="NAME|ID...", nargs=-1, required=True)
@click.option("--wait", "waits", is_flag=True, help="Return when they have left.")
async def drain_workers(session: CommandSession, workers: tuple[str, ...], waits: bool) -> None:
    """Tell workers to claim no more, finish what runs, and leave.

    What still runs after the worker's grace is handed back and loses no attempt. Its process ends
    with exit code 0, and of several processes (--processes) none takes its place. With --wait the
    exit code is 1 if one of them is not heard of any more.
    """
    async with session.client() as client:
        told = await _tell(client, workers, session.by)
        lapsed = [one for one in told if not one.alive]
        if waits:
            complain(f"waiting for {counted(len(told), 'worker')} to leave")
            lapsed = await client.workers.left([one.id for one in told])
    document: dict[str, Any] = {"draining": [{"id": one.id, "name": one.name} for one in told]}
    document["lapsed"] = [one.id for one in lapsed]
    verb = "drained" if waits else "draining"
    left = [one for one in told if one.id not in {one.id for one in lapsed}]
    session.answer(
        document,
        lambda: [
            *([f"{verb} {', '.join(one.name for one in left)}"] if left else []),
            *(_lapsed_text(one) for one in lapsed),
        ],
    )
    if waits and lapsed:
        raise click.exceptions.Exit(1)


async def _tell(client: Client, workers: tuple[str, ...], by: str) -> list[WorkerInfo]:
    """A worker that is named twice is told once. A name that nobody has is refused before
    anybody is told."""
    told: dict[str, WorkerInfo] = {}
    known = {word for one in await client.workers.all() for word in (one.id, one.name)}
    for worker in sorted(workers, key=lambda word: word in known):
        told |= {one.id: one for one in await client.workers.drain(worker, by=by)}
    return list(told.values())


def _lapsed_text(worker: WorkerInfo) -> str:
    since = duration_text(-(worker.expires_in or 0.0))
    return f"{worker.name} lapsed {since} ago: it hears of this if it ever beats again"
