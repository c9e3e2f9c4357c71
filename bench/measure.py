"""Contenders take turns; the best round of each counts, and the spread is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import Any

Sample = dict[str, float]
Told = Callable[[str], None]

FLOOR = "floor"
HOLDFAST = "holdfast"
FASTEST_PEER = "fastest peer"
LONGEST = 900.0  # seconds for one round: something hangs
MORE_IS_BETTER = frozenset({"rate", "kept"})


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    measure: Callable[[], Awaitable[Sample]]
    peer: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing measured on one store. `figure` is what decides which round was best, `show`
    how a sample is written for people; `once` is for what takes long and repeats inside."""

    name: str
    store: str
    contenders: Sequence[Contender]
    figure: str = "rate"
    show: str = "{rate:,.0f}/s"
    once: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """All rounds of one contender; `failure` says why there are none."""

    contender: str
    peer: bool
    samples: Sequence[Sample]
    failure: str | None = None

    def best(self, figure: str) -> float | None:
        values = [sample[figure] for sample in self.samples if figure in sample]
        if self.failure or not values:
            return None
        return best_of(figure, values)


@dataclass(frozen=True, slots=True)
class Contest:
    """What came of one workload."""

    workload: Workload
    entries: Sequence[Entry]

    def best(self, contender: str, figure: str) -> float | None:
        """Of one contender, or of whichever peer was fastest; None where there is none."""
        found = [
            value
            for entry in self.entries
            if (entry.peer if contender == FASTEST_PEER else entry.contender == contender)
            if (value := entry.best(figure)) is not None
        ]
        return best_of(figure, found) if found else None

    def ratio(self, contender: str, over: str | None, figure: str) -> float | None:
        """One contender's best figure in units of another's; plain where `over` is None."""
        mine = self.best(contender, figure)
        if over is None or mine is None:
            return mine
        theirs = self.best(over, figure)
        return None if theirs is None else mine / theirs

    def median_of_pairs(self, contender: str, over: str, figure: str) -> float:
        """The middle one of the ratios of all rounds. The two contenders of a round run one after
        the other, so what slows both for a while cancels out."""
        samples = {entry.contender: entry.samples for entry in self.entries}
        pairs = zip(samples[contender], samples[over], strict=True)
        return median(mine[figure] / theirs[figure] for mine, theirs in pairs)

    def and_then(self, later: Contest) -> Contest:
        """Both runs of the same workload as one, with all their rounds."""
        if not self.entries:
            return later
        pairs = zip(self.entries, later.entries, strict=True)
        entries = [
            replace(one, samples=(*one.samples, *more.samples), failure=one.failure or more.failure)
            for one, more in pairs
        ]
        return Contest(self.workload, entries)

    def best_sample(self, entry: Entry) -> Sample:
        figure = self.workload.figure
        best = entry.best(figure)
        return next(sample for sample in entry.samples if sample[figure] == best)

    def spread(self, entry: Entry) -> float:
        """How far the worst round is from the best, as a share of the best."""
        values = [sample[self.workload.figure] for sample in entry.samples]
        return (max(values) - min(values)) / best_of(self.workload.figure, values)

    def as_json(self) -> list[dict[str, Any]]:
        return [self._entry_as_json(entry) for entry in self.entries]

    def _entry_as_json(self, entry: Entry) -> dict[str, Any]:
        said = {
            "workload": self.workload.name,
            "store": self.workload.store,
            "contender": entry.contender,
            "peer": entry.peer,
        }
        if entry.failure:
            return said | {"failure": entry.failure}
        return said | {
            "figure": self.workload.figure,
            "best": self.best_sample(entry),
            "spread": self.spread(entry),
            "ratio_to_floor": self.ratio(entry.contender, FLOOR, self.workload.figure),
            "ratio_to_fastest_peer": self.ratio(
                entry.contender, FASTEST_PEER, self.workload.figure
            ),
            "rounds": list(entry.samples),
        }


def best_of(figure: str, values: Iterable[float]) -> float:
    return max(values) if figure in MORE_IS_BETTER else min(values)


async def alternate(workload: Workload, rounds: int, told: Told) -> Contest:
    """Every contender once per round, so that a noisy minute hits all of them. One that fails
    is left out of the rounds after, and its failure is part of the result."""
    samples: dict[str, list[Sample]] = {contender.name: [] for contender in workload.contenders}
    failures: dict[str, str] = {}
    for number in range(1 if workload.once else rounds):
        for contender in workload.contenders:
            if contender.name in failures:
                continue
            told(f"{workload.name} on {workload.store}: {contender.name}, round {number + 1}")
            try:
                async with asyncio.timeout(LONGEST):
                    samples[contender.name].append(await contender.measure())
            except Exception as error:  # noqa: BLE001 - the other figures are still worth having
                failures[contender.name] = f"{type(error).__name__}: {error}"
    entries = [
        Entry(entrant.name, entrant.peer, samples[entrant.name], failures.get(entrant.name))
        for entrant in workload.contenders
    ]
    return Contest(workload, entries)


def percentiles(waits: Iterable[float]) -> Sample:
    """Of seconds, in milliseconds."""
    cuts = quantiles([1000 * wait for wait in waits], n=100, method="inclusive")
    return {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}
