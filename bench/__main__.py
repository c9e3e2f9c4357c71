"""`python -m bench`: every workload on every store, or those asked for."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from bench.draining import SLOTS
from bench.measure import Contest, Workload, alternate
from bench.peers import ALL, contenders
from bench.peers.roster import FLOWS, LIMITS, STEPS
from bench.places import STORES, Place, places
from bench.program import on_fast_loop
from bench.report import figures, save, verdicts
from bench.scale import LONG, USUAL
from bench.targets import judge
from bench.workloads import WORKLOADS

WIDTH = 140  # of a log, which has none of its own
MET_BY_PEERS = ("single", "bulk", "drain", "pickup", "two workers")
FLOWS_ON = "valkey"  # all peers that have flows run there; they stand beside Holdfast on any store


def main() -> None:
    chosen = _parsed()
    with places(chosen.store or STORES) as found:
        on_fast_loop(run(chosen, found))


def _parsed() -> Namespace:
    parser = ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--store", action="append", choices=STORES, help="only this one")
    parser.add_argument(
        "--workload", action="append", choices=WORKLOADS, type=_spaced, help="only this one"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", action="store_true", help="a million jobs, a minute of load")
    parser.add_argument(
        "--peers", nargs="?", const="fastest", choices=("fastest", "all"), help="other queues too"
    )
    parser.add_argument("--peer", action="append", choices=sorted(ALL), help="this one too")
    return parser.parse_args()


def _spaced(name: str) -> str:
    return name.replace("-", " ")


async def run(chosen: Namespace, found: Sequence[Place]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    settings: dict[str, Any] = {"slots": SLOTS, "rounds": chosen.rounds, "long": chosen.long}
    contests: list[Contest] = []
    with console.status("starting") as status:
        for place in found:
            settings[place.name] = await place.describe()
            contests += [
                await alternate(workload, chosen.rounds, status.update)
                for workload in _workloads(chosen, place, found)
            ]
    judgements = judge(contests)
    console.print(figures(contests))
    console.print(verdicts(judgements))
    console.print(f"saved as {save(contests, judgements, settings)}", highlight=False)
    if any(entry.failure and not entry.peer for contest in contests for entry in contest.entries):
        sys.exit("some of Holdfast's own figures could not be measured")


def _workloads(chosen: Namespace, place: Place, found: Sequence[Place]) -> list[Workload]:
    scale = LONG if chosen.long else USUAL
    names = [name for name in WORKLOADS if name in (chosen.workload or WORKLOADS)]
    workloads = [workload for name in names for workload in WORKLOADS[name](place, scale)]
    if not (chosen.peers or chosen.peer):
        return workloads
    peers = chosen.peer or (ALL if chosen.peers == "all" else None)
    return [_with_peers(workload, place, found, peers) for workload in workloads]


def _with_peers(
    workload: Workload, place: Place, found: Sequence[Place], names: Collection[str] | None
) -> Workload:
    if workload.name in FLOWS:
        places = [one for one in found if one.name == FLOWS_ON]
    else:
        places = [place] if workload.name in (*MET_BY_PEERS, *STEPS, *LIMITS) else []
    peers = [peer for one in places for peer in contenders(one, workload.name, names)]
    return replace(workload, contenders=(*workload.contenders, *peers))


if __name__ == "__main__":
    main()
