"""What Holdfast wants to reach, as data: one line for each row of the table in the docs.

A target is a figure of one contender, most often in units of another's from the same run, and a
bound for it. One whose figure was not measured (no peers, a short run) is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.measure import FASTEST_PEER, FLOOR, HOLDFAST, Contest

STORES = ("postgres", "valkey", "sqlite")
ONE_WORKER = "holdfast, one worker"
HUNDRED_CALLERS = "holdfast, 100 callers"
PLAIN_DRAIN = "holdfast, no-op"
PLAIN_ENDS = "holdfast, plain jobs"
WITHOUT_KEYS = "holdfast, without keys"
PLAIN_BULK = "holdfast, no limits"
PLAIN_ONE = "holdfast, without limits"
PICKUP = "holdfast, pickup"
HUNDRED_PERMITS = "holdfast, 100 permits a call"
KEYS = {keys: f"holdfast, {keys:,} keys" for keys in (10, 1_000, 100_000)}


@dataclass(frozen=True, slots=True)
class Target:
    workload: str
    store: str
    bound: float
    figure: str = "rate"
    contender: str = HOLDFAST
    over: str | None = None
    at_most: bool = False

    @property
    def what(self) -> str:
        figure = "" if self.figure == "rate" else f" {self.figure}"
        return f"{self.contender}{figure}" + ("" if self.over is None else f" ÷ {self.over}")

    @property
    def wanted(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}"

    def is_met_by(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound


@dataclass(frozen=True, slots=True)
class Judgement:
    target: Target
    value: float

    @property
    def met(self) -> bool:
        return self.target.is_met_by(self.value)

    def as_json(self) -> dict[str, Any]:
        target = self.target
        return {
            "workload": target.workload,
            "store": target.store,
            "what": target.what,
            "value": self.value,
            "wanted": target.wanted,
            "met": self.met,
        }


def _on_each_store(workload: str, *bounds: float | None, **rest: Any) -> Iterator[Target]:
    """Bounds in the order of STORES; None where a store has no such target."""
    for store, bound in zip(STORES, bounds, strict=True):
        if bound is not None:
            yield Target(workload, store, bound, **rest)


TARGETS: Sequence[Target] = (
    *_on_each_store("single", 1, 0.8, 2, over=FASTEST_PEER),
    *_on_each_store("single", 8, 5, 3, contender=HUNDRED_CALLERS, over=HOLDFAST),
    *_on_each_store("bulk", 1.5, 3, 10, over=FASTEST_PEER),
    *_on_each_store("drain", 2, 5, 6, over=FASTEST_PEER),
    *_on_each_store("drain", 0.55, 0.30, 0.12, over=FLOOR),
    *_on_each_store("pickup", 1, 1.5, 0.5, figure="p50", over=FASTEST_PEER, at_most=True),
    *_on_each_store("pickup", 1, 1.5, 0.5, figure="p99", over=FASTEST_PEER, at_most=True),
    *_on_each_store("two workers", 0.95, 0.95, 0.9, over=ONE_WORKER),
    *_on_each_store("two workers", 1.4, None, None, over=FASTEST_PEER),
    *_on_each_store("two busy workers", 1.6, 1.6, 1.6, over=ONE_WORKER),
    *_on_each_store("growth", 1.3, 1.3, 1.3, figure="waiting_1m", at_most=True),
    *_on_each_store("growth", 1.3, 1.3, 1.3, figure="finished_1m", at_most=True),
    *_on_each_store("realistic", 0.5, 0.5, 0.5, over=PLAIN_DRAIN),
    *_on_each_store("snapshot", 0.8, None, None, figure="kept"),
    *_on_each_store("idle", 0.5, 0.5, 0.5, figure="cpu_percent", at_most=True),
    *_on_each_store("idle", 3, 3, 3, figure="statements", at_most=True),
    *_on_each_store("flow drain", 0.5, 0.45, 0.45, over=PLAIN_DRAIN),
    *_on_each_store("flow groups", 12, 12, 12, over=FASTEST_PEER),
    *_on_each_store("flow pipelines", 4, 4, 4, over=FASTEST_PEER),
    *_on_each_store("flow start", 0.3, 0.3, 0.3, over=FLOOR),
    *_on_each_store("hop", 2.5, 2.5, 2.5, figure="p50", over=FLOOR, at_most=True),
    *_on_each_store("hop", 10, 10, 10, figure="p99", at_most=True),
    *_on_each_store("map", 1 / 2.2, 1 / 2.2, 1 / 2.2, over=PLAIN_DRAIN),
    *_on_each_store("hop beside a map", 100, 100, 100, figure="p99", at_most=True),
    *_on_each_store("lone ends", 0.2, 0.2, 0.2, over=PLAIN_ENDS),
    *_on_each_store("large flow", 2, 4, 2, figure="start", at_most=True),
    *_on_each_store("large flow", 1, 1, 1, figure="explain", at_most=True),
    *_on_each_store("large flow", 1, 1, 1, figure="graph", at_most=True),
    *_on_each_store("large flow", 2, 2, 2, figure="grown_mib", at_most=True),
    *_on_each_store("suspended", 0.5, 0.5, 0.5, figure="cpu_percent", at_most=True),
    *_on_each_store("suspended", 1.5, 1.5, 1.5, figure="ratio", at_most=True),
    *_on_each_store("suspended", 1, 1, 1, figure="instant_per_1000", at_most=True),
    *_on_each_store("ten steps", 0.15, 0.10, 0.12, over=FLOOR),
    *_on_each_store("ten steps", 20, None, 20, over=FASTEST_PEER),
    *_on_each_store("one step", 15, None, 40, over=FASTEST_PEER),
    *_on_each_store("steps in sequence", 0.5, 0.5, 0.5, over=FLOOR),
    *_on_each_store("steps in sequence", 4, None, None, over=FASTEST_PEER),
    *_on_each_store("50 streams", 50, 50, 100, figure="p95", at_most=True),
    *_on_each_store("200 streams", 50, 50, 50, figure="p50", at_most=True),
    *_on_each_store("200 streams", 25, 25, None, figure="server", at_most=True),
    *_on_each_store("encrypted", 0.6, 0.6, 0.6, over=WITHOUT_KEYS),
    *_on_each_store("limited drain", 0.65, 0.8, 0.65, contender=KEYS[10], over=PLAIN_DRAIN),
    *_on_each_store("limited drain", 0.45, 0.5, 0.35, contender=KEYS[1_000], over=PLAIN_DRAIN),
    *_on_each_store("limited drain", 0.25, 0.35, 0.25, contender=KEYS[100_000], over=PLAIN_DRAIN),
    *_on_each_store("one limit", 1.5, None, None, over=FASTEST_PEER),
    *_on_each_store("hundred limits", 4, None, None, over=FASTEST_PEER),
    *_on_each_store("shared limit", 0.7, 0.8, 0.8, over=ONE_WORKER),
    *_on_each_store("limited bulk", 0.5, 0.5, 0.5, contender=KEYS[1_000], over=PLAIN_BULK),
    *_on_each_store("limited bulk", 0.33, 0.33, 0.33, contender=KEYS[100_000], over=PLAIN_BULK),
    *_on_each_store("many keys", 1.5, 1.5, 1.5, figure="ratio", at_most=True),
    *_on_each_store("parked", 1.3, 1.3, 1.3, figure="ratio", at_most=True),
    *_on_each_store("parked", 1, 1, 1, figure="explain", at_most=True),
    *_on_each_store("one at a time", 0.55, 0.6, 0.5, over=PLAIN_ONE),
    *_on_each_store("freed permit", 2, 2, 2, figure="p99", over=PICKUP, at_most=True),
    *_on_each_store("take", 3_000, 10_000, 5_000),
    *_on_each_store("take", 3e5, 1e6, 3e5, contender=HUNDRED_PERMITS),
    *_on_each_store("limited snapshot", 0.5, None, None, figure="kept"),
)


def judge(contests: Iterable[Contest]) -> list[Judgement]:
    return [
        Judgement(target, value)
        for contest in contests
        for target in TARGETS
        if (target.workload, target.store) == (contest.workload.name, contest.workload.store)
        if (value := contest.ratio(target.contender, target.over, target.figure)) is not None
    ]
