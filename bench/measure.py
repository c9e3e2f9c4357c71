"""Contenders take turns; the best round of each counts, and the spread is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Sample = dict[str, float]


class Figure(StrEnum):
    """What a workload is judged by."""

    RATE = "rate"  # jobs per second: more is better
    P50 = "p50"  # milliseconds: less is better


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    measure: Callable[[], Awaitable[Sample]]


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing measured on one store. The first contender named `floor` is the yardstick;
    `wanted` says what Holdfast should reach, in words, and `met` judges it."""

    name: str
    store: str
    figure: Figure
    contenders: Sequence[Contender]
    wanted: str = ""
    met: Callable[[Sample, float | None], bool] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """All rounds of one contender."""

    workload: Workload
    contender: str
    samples: Sequence[Sample]
    ratio: float | None

    @property
    def best(self) -> Sample:
        return _best(self.workload.figure, self.samples)

    @property
    def spread(self) -> float:
        """How far the worst round is from the best, as a share of the best."""
        values = [sample[self.workload.figure] for sample in self.samples]
        return (max(values) - min(values)) / self.best[self.workload.figure]

    @property
    def met(self) -> bool | None:
        if self.contender != "holdfast" or self.workload.met is None:
            return None
        return self.workload.met(self.best, self.ratio)

    def as_json(self) -> dict[str, Any]:
        return {
            "workload": self.workload.name,
            "store": self.workload.store,
            "contender": self.contender,
            "best": self.best,
            "spread": self.spread,
            "ratio_to_floor": self.ratio,
            "wanted": self.workload.wanted,
            "met": self.met,
            "rounds": list(self.samples),
        }


async def alternate(workload: Workload, rounds: int, told: Callable[[str], None]) -> list[Result]:
    """Every contender once per round, so that a noisy minute hits all of them."""
    samples: dict[str, list[Sample]] = {contender.name: [] for contender in workload.contenders}
    for number in range(rounds):
        for contender in workload.contenders:
            told(f"{workload.name} on {workload.store}: {contender.name}, round {number + 1}")
            samples[contender.name].append(await contender.measure())
    best = {name: _best(workload.figure, taken)[workload.figure] for name, taken in samples.items()}
    floor = best.get("floor")
    return [
        Result(workload, name, taken, floor and best[name] / floor)
        for name, taken in samples.items()
    ]


def _best(figure: Figure, samples: Sequence[Sample]) -> Sample:
    choose = max if figure is Figure.RATE else min
    return choose(samples, key=lambda sample: sample[figure])
