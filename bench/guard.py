"""`python -m bench.guard`: fails when a ratio to the floor got more than 20% worse.

Short runs of bulk, drain and pickup on every store, compared with `recorded.json`, which
`--record` writes anew. Ratios of two servers, such as Redis 6.2 and Valkey 9.1, are not compared:
the guard says which server they were recorded with, and does not fail.

A busy moment on a small machine can hit one contender alone, so where a ratio looks worse up to
twice as many rounds are added before it is believed; all of them are taken at once for what is
recorded, which must not be one lucky moment.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.measure import (
    FLOOR,
    HOLDFAST,
    MORE_IS_BETTER,
    Contest,
    InotifyChanges,
    Workload,
    alternate,
)
from bench.places import STORES, Place, places
from bench.program import on_fast_loop
from bench.scale import BRIEF
from bench.workloads.bulk import bulk
from bench.workloads.drain import drain
from bench.workloads.pickup import across

RECORDED = Path(__file__).parent / "recorded.json"
ROUNDS, TRIES = 3, 3
TOLERANCE = 0.20


@dataclass(frozen=True, slots=True)
class Recorded:
    """What `recorded.json` holds: ratios by workload and store, and the server of each store."""

    ratios: Mapping[str, float]
    servers: Mapping[str, str]

    @classmethod
    def load(cls) -> Recorded:
        return cls(**json.loads(RECORDED.read_text())) if RECORDED.exists() else cls({}, {})

    def save(self) -> None:
        kept = {"ratios": self.ratios, "servers": self.servers}
        RECORDED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")

    def compared(self, workload: Workload, ratio: float, server: str) -> Guarded:
        name, known = f"{workload.name} {workload.store}", self.servers.get(workload.store)
        other = None if known == server else known
        return Guarded(name, workload.figure, ratio, self.ratios.get(name), other)


@dataclass(frozen=True, slots=True)
class Guarded:
    """One ratio to the floor, now and as it was recorded. `other_server` is the server that it was
    recorded with, if this is another one."""

    name: str
    figure: str
    ratio: float
    recorded: float | None
    other_server: str | None = None

    @property
    def change(self) -> float:
        """By what share it got better; worse is negative."""
        if self.recorded is None or self.other_server is not None:
            return 0.0
        if self.figure in MORE_IS_BETTER:
            return self.ratio / self.recorded - 1
        return 1 - self.ratio / self.recorded

    @property
    def fell(self) -> bool:
        return self.change < -TOLERANCE

    def __str__(self) -> str:
        now = f"{self.name:<18} {self.ratio:.3f} of the floor"
        if self.recorded is None:
            return f"{now}, nothing recorded"
        if self.other_server is not None:
            return f"{now}, recorded {self.recorded:.3f} with {self.other_server}: not compared"
        fell = f"  more than {TOLERANCE:.0%} worse" if self.fell else ""
        return f"{now}, recorded {self.recorded:.3f}, {self.change:+.0%}{fell}"


def main() -> None:
    parser = ArgumentParser(prog="python -m bench.guard", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep today's ratios for later")
    parser.add_argument("--store", action="append", choices=STORES, help="only this one")
    chosen = parser.parse_args()
    with places(chosen.store or STORES) as found:
        on_fast_loop(guard(found, record=chosen.record))


async def guard(found: Sequence[Place], *, record: bool) -> None:
    console = Console(highlight=False)
    recorded, guarded = Recorded.load(), list[Guarded]()
    servers = {place.name: (await place.describe())["server"] for place in found}
    console.print(f"with {', '.join(servers.values())}")
    with console.status("starting") as status:
        for workload in _workloads(found):
            server = servers[workload.store]
            one = await _measured(workload, recorded, server, record, status.update)
            console.print(str(one), style="red" if one.fell else None)
            guarded.append(one)
    if record:
        ratios = {one.name: round(one.ratio, 3) for one in guarded}
        Recorded({**recorded.ratios, **ratios}, {**recorded.servers, **servers}).save()
    elif fallen := [one.name for one in guarded if one.fell]:
        sys.exit(f"slower than recorded: {', '.join(fallen)}; profile it, or record why it may be")


def _workloads(found: Sequence[Place]) -> Iterator[Workload]:
    for place in found:
        yield from bulk(place, BRIEF)
        yield from drain(place, BRIEF)
        yield across(place, BRIEF)


async def _measured(
    workload: Workload, recorded: Recorded, server: str, thoroughly: bool, told: InotifyChanges
) -> Guarded:
    contest = await alternate(workload, ROUNDS, told)
    for _ in range(TRIES - 1):
        if thoroughly or _compared(contest, recorded, server).fell:
            contest = contest.and_then(await alternate(workload, ROUNDS, told))
    return _compared(contest, recorded, server)


def _compared(contest: Contest, recorded: Recorded, server: str) -> Guarded:
    workload = contest.workload
    ratio = contest.ratio(HOLDFAST, FLOOR, workload.figure)
    if ratio is None:
        failures = "; ".join(entry.failure for entry in contest.entries if entry.failure)
        sys.exit(f"{workload.name} on {workload.store}: {failures}")
    return recorded.compared(workload, ratio, server)


if __name__ == "__main__":
    main()
