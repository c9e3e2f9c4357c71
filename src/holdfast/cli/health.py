"""`holdfast health`: a probe that needs no port, for Docker and cron."""

from __future__ import annotations

import platform
import re

import click

from holdfast.cli.output import duration_text
from holdfast.cli.program import program
from holdfast.cli.target import CommandSession
from holdfast.job.text import counted
from holdfast.store.contract.workers import WorkerInfo


@program.command("health")
@click.option("--name", help="Only the worker of this name, or its processes NAME-1, NAME-2, …")
@click.option("--host", help="Where it must run. Default: this host, or any with --name.")
async def health(session: CommandSession, name: str | None, host: str | None) -> None:
    """Ask the store whether a worker is alive: exit code 0, or 1 with the reason.

    Alive means that its lease has not lapsed. Without options any worker of this host counts.
    """
    if host is None and name is None:
        host = platform.node() or "localhost"
    async with session.client() as client:
        found = [one for one in await client.workers.all() if _is_meant(one, name, host)]
    alive = [worker.name for worker in found if worker.alive]
    said = _said(found, alive, name, host)
    session.answer({"alive": alive, "says": said}, lambda: [said])
    if not alive:
        raise click.exceptions.Exit(1)


def _is_meant(worker: WorkerInfo, name: str | None, host: str | None) -> bool:
    named = name is None or re.fullmatch(rf"{re.escape(name)}(-\d+)?", worker.name) is not None
    return named and host in (None, worker.host)


def _said(found: list[WorkerInfo], alive: list[str], name: str | None, host: str | None) -> str:
    whose = f"{f' named {name!r}' if name else ''}{f' on host {host!r}' if host else ''}"
    if alive:
        return f"{counted(len(alive), 'worker')}{whose} alive"
    if not found:
        return f"no worker{whose} is registered"
    last = min((one.heartbeat_age for one in found if one.heartbeat_age is not None), default=None)
    return f"no worker{whose} is alive: the last heartbeat was {duration_text(last)} ago"
