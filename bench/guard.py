"""`python -m bench.guard`: fails when Holdfast got slower than it was recorded to be.

Bulk, drain and pickup on every store beside their floors, all of them once in each round, compared
with `recorded.json`, which `--record` writes anew. What is compared first is the processor time of
a job, of client or worker and server together, in units of the floor's. Whatever
else the machine does can only add to it, so the least of all rounds counts: it varies by some
percent, where rates vary by a quarter. What only waits takes no processor time, so rates are
compared too, for what is gross, and p50 of a pickup, by the middle one of the ratios of all rounds.
On a busy machine what the clock says is not compared: the guard looks how long its processes were
ready to run and waited for a processor.

Where a ratio looks worse than it may, as many rounds more are added before that is believed. Ratios
of two servers, such as Redis 6.2 and Valkey 9.1, are not compared: the guard says which server they
were recorded with, and does not fail.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console

from bench import floors
from bench.draining import drained, numbered
from bench.measure import (
    FLOOR,
    HOLDFAST,
    MORE_IS_BETTER,
    Contender,
    Contest,
    Told,
    Workload,
    alternate,
)
from bench.places import STORES, Place, places
from bench.program import on_fast_loop
from bench.scale import BRIEF
from bench.workloads.bulk import bulk
from bench.workloads.pickup import across

RECORDED = Path(__file__).parent / "recorded.json"
ROUNDS = 5

TOLERATED: Mapping[str, Mapping[str, float]] = {
    "bulk": {"cpu": 0.15, "rate": 0.5},
    "drain": {"cpu": 0.15, "rate": 0.5},
    "pickup": {"p50": 0.2},
}
"""By what share a figure may be worse than recorded: about four times as much as it varies."""
BUSY = 0.5
"""Processes that waited for a processor for more than this share of the time they got one are not
alone."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What `recorded.json` holds: ratios by workload, store and figure, and the server of each
    store."""

    ratios: Mapping[str, float]
    servers: Mapping[str, str]

    @classmethod
    def load(cls) -> Recorded:
        return cls(**json.loads(RECORDED.read_text())) if RECORDED.exists() else cls({}, {})

    def save(self) -> None:
        kept = {"ratios": self.ratios, "servers": self.servers}
        RECORDED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")

    def compared(
        self, workload: Workload, figure: str, ratio: float, server: str, *, busy: bool = False
    ) -> Guarded:
        name, known = f"{workload.name} {workload.store} {figure}", self.servers.get(workload.store)
        unlike = None
        if known not in (None, server):
            unlike = f"with {known}"
        elif busy and figure != "cpu":
            unlike = "and others had the processors"
        tolerated = TOLERATED[workload.name][figure]
        return Guarded(name, figure, ratio, self.ratios.get(name), tolerated, unlike)


@dataclass(frozen=True, slots=True)
class Guarded:
    """One ratio to the floor, now and as it was recorded. `unlike` says why the two cannot be
    compared, if so."""

    name: str
    figure: str
    ratio: float
    recorded: float | None
    tolerated: float
    unlike: str | None = None

    @property
    def change(self) -> float:
        """By what share it got better; worse is negative. A rate that is halved and a time that
        is doubled are the same."""
        if self.recorded is None or self.unlike is not None:
            return 0.0
        if self.figure in MORE_IS_BETTER:
            return 1 - self.recorded / self.ratio
        return 1 - self.ratio / self.recorded

    @property
    def fell(self) -> bool:
        return self.change < -self.tolerated

    def __str__(self) -> str:
        now = f"{self.name:<20} {self.ratio:.3f} of the floor"
        if self.recorded is None:
            return f"{now}, nothing recorded"
        if self.unlike is not None:
            return f"{now}, recorded {self.recorded:.3f} {self.unlike}: not compared"
        fell = f"  more than {self.tolerated:.0%} worse" if self.fell else ""
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
    recorded = Recorded.load()
    servers = {place.name: (await place.describe())["server"] for place in found}
    console.print(f"with {', '.join(servers.values())}")
    with console.status("starting") as status:
        contests = await _rounds(list(_workloads(found)), status.update)
        for n, contest in enumerate(contests):
            if record or _fell(contest, recorded, servers):
                [more] = await _rounds([contest.workload], status.update)
                contests[n] = contest.and_then(more)
    guarded = [one for contest in contests for one in _compared(contest, recorded, servers)]
    for one in guarded:
        console.print(str(one), style="red" if one.fell else None)
    if record:
        ratios = {one.name: round(one.ratio, 3) for one in guarded}
        Recorded({**recorded.ratios, **ratios}, {**recorded.servers, **servers}).save()
    elif fallen := [one.name for one in guarded if one.fell]:
        sys.exit(f"slower than recorded: {', '.join(fallen)}; profile it, or record why it may be")


def _workloads(found: Sequence[Place]) -> Iterator[Workload]:
    for place in found:
        yield from bulk(place, BRIEF)
        yield _drain(place)
        yield across(place, BRIEF)


def _drain(place: Place) -> Workload:
    """Its worker is there before the jobs are let go: what it takes to start does not count."""
    contenders = (
        Contender(FLOOR, lambda: floors.drain(place, BRIEF.jobs)),
        Contender(HOLDFAST, lambda: drained(place, numbered(BRIEF.jobs), together=True)),
    )
    return Workload("drain", place.name, contenders)


async def _rounds(workloads: Sequence[Workload], told: Told) -> list[Contest]:
    """All workloads once in each round, so that a busy minute does not hit all rounds of one."""
    contests = [Contest(workload, ()) for workload in workloads]
    for number in range(ROUNDS):
        told(f"round {number + 1} of {ROUNDS}")
        contests = [one.and_then(await alternate(one.workload, 1, told)) for one in contests]
    return contests


def _fell(contest: Contest, recorded: Recorded, servers: Mapping[str, str]) -> bool:
    return any(one.fell for one in _compared(contest, recorded, servers))


def _compared(
    contest: Contest, recorded: Recorded, servers: Mapping[str, str]
) -> Iterator[Guarded]:
    workload = contest.workload
    if failures := "; ".join(entry.failure for entry in contest.entries if entry.failure):
        sys.exit(f"{workload.name} on {workload.store}: {failures}")
    server, busy = servers[workload.store], _others_ran(contest)
    for figure in TOLERATED[workload.name]:
        ratio = ratio_of(contest, figure)
        yield recorded.compared(workload, figure, ratio, server, busy=busy)


def _others_ran(contest: Contest) -> bool:
    [samples] = [entry.samples for entry in contest.entries if entry.contender == HOLDFAST]
    return median(sample["queued"] / sample["cpu"] for sample in samples) > BUSY


def ratio_of(contest: Contest, figure: str) -> float:
    """Holdfast's figure in units of the floor's."""
    if figure == "p50":
        return contest.median_of_pairs(HOLDFAST, FLOOR, figure)
    ratio = contest.ratio(HOLDFAST, FLOOR, figure)
    assert ratio is not None
    return ratio


if __name__ == "__main__":
    main()
