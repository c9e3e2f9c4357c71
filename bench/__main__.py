"""`python -m bench`: every workload on every store, or those asked for."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from rich.console import Console

from bench import drain
from bench.drain import drain_on_postgres, drain_on_sqlite, drain_on_valkey
from bench.enqueue import bulk_enqueue, single_enqueue
from bench.measure import Result, Workload, alternate
from bench.pickup import pickup
from bench.places import OnPostgres, OnSqlite, OnValkey, Place
from bench.program import on_fast_loop
from bench.report import save, table
from holdfast.testing.servers import ThrowawayValkey, find_valkey, postgres_server

STORES = ("postgres", "sqlite", "valkey")
WORKLOADS = ("drain", "pickup", "enqueue")


def main() -> None:
    parser = ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--store", action="append", choices=STORES, help="only this one")
    parser.add_argument("--workload", action="append", choices=WORKLOADS, help="only this one")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with ExitStack() as stack:
        server = None
        if "postgres" in (chosen.store or STORES):
            server = OnPostgres(stack.enter_context(postgres_server(own=True, durable=True)))
        valkey = None
        if "valkey" in (chosen.store or STORES):
            own = ThrowawayValkey(find_valkey(), fsync="everysec")
            valkey = OnValkey(stack.enter_context(own))
        on_fast_loop(run(chosen, server, valkey))


async def run(chosen: Namespace, server: OnPostgres | None, valkey: OnValkey | None) -> None:
    console = Console()
    workloads: list[Workload] = []
    settings: dict[str, Any] = {"slots": drain.SLOTS, "jobs": drain.JOBS, "rounds": chosen.rounds}
    if server is not None:
        await server.tune()
        settings["postgres"] = await server.describe()
        workloads += _workloads(chosen, server, partial(drain_on_postgres, server))
    if "sqlite" in (chosen.store or STORES):
        files = OnSqlite()
        settings["sqlite"] = await files.describe()
        workloads += _workloads(chosen, files, partial(drain_on_sqlite, files))
    if valkey is not None:
        settings["valkey"] = await valkey.describe()
        workloads += _workloads(chosen, valkey, partial(drain_on_valkey, valkey))
    results: list[Result] = []
    with console.status("starting") as status:
        for workload in workloads:
            results += await alternate(workload, chosen.rounds, status.update)
    console.print(table(results))
    console.print(f"saved as {save(results, settings)}", highlight=False)


def _workloads(
    chosen: Namespace, place: Place, drain_there: Callable[[], Workload]
) -> list[Workload]:
    offered = {
        "drain": lambda: [drain_there()],
        "pickup": lambda: [pickup(place, across=False), pickup(place, across=True)],
        "enqueue": lambda: [single_enqueue(place), bulk_enqueue(place)],
    }
    return [workload for name in chosen.workload or WORKLOADS for workload in offered[name]()]


if __name__ == "__main__":
    main()
