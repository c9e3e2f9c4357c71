"""The metrics of a store, from one reading of it.

Queues and tasks may be many: a queue for each customer, a task for each report. So labels are
bounded. What is beyond the bound is added up under `OTHERS`, so that sums stay exact. Which queues
and tasks have names of their own is decided by the alphabet: a choice by size would change from
scrape to scrape, and a total under `OTHERS` would go down whenever a task left it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from holdfast.job.serving import choice_of
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.facts import SlotFacts, reconciled
from holdfast.store.contract.measures import MOST_PAIRS, OTHERS, JobTimes, Pair, PairTimes
from holdfast.store.contract.queues import Paused, QueueInfo
from holdfast.store.contract.telemetry import Tally, Total
from holdfast.store.contract.workers import WorkerInfo, WorkerStanding
from holdfast.telemetry import metrics
from holdfast.telemetry.build import build_info
from holdfast.telemetry.metrics import Family, Metric

RESULTS = ("mended", "refused", "failed", "skipped")
"""What may become of an item that a reconciler found (`Swept`)."""
SHOWN_AT_ZERO = (What.ENQUEUED, What.SUCCEEDED, What.FAILED)
"""Moves that are told before the first of them: a rate needs a value to start from."""


class ScheduleFigures(msgspec.Struct, frozen=True):
    """`lateness` is None where the schedule's own rule does not say when it is due."""

    lateness: float | None
    failing: bool


class Figures(msgspec.Struct, frozen=True):
    """What was read of a store. Each part is exact for the moment at which it was read."""

    kind: str
    totals: list[Total]
    tallies: list[Tally]
    queues: list[QueueInfo]
    paused: Paused
    workers: list[WorkerInfo]
    schedules: dict[str, ScheduleFigures]
    counts: dict[str, int]
    times: list[PairTimes]

    @property
    def alive(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.alive]

    @property
    def available(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.available]

    def is_paused(self, queue: QueueInfo) -> bool:
        return queue.paused or self.paused.everything

    @property
    def choices(self) -> set[str]:
        """The queues and patterns that workers serve. Most workers serve the same as others, so
        each queue is compared with these and not with every worker."""
        return {choice for worker in self.available for choice in worker.queues}


def store_families(kind: str, figures: Figures | None) -> list[Family]:
    """Without figures, because the store did not answer, only that is told."""
    up = [
        Family.of(metrics.STORE_UP, [((kind,), int(figures is not None))]),
        build_info(),
    ]
    return up if figures is None else [*up, *_families(figures)]


def _families(figures: Figures) -> Iterator[Family]:
    yield Family.of(metrics.JOBS, _moves(figures.totals))
    yield from _times(figures.times)
    yield Family.of(metrics.QUEUE_JOBS, _jobs(figures))
    queues, served = figures.queues, figures.choices
    label = _label(queue.name for queue in queues)
    for metric, values in (
        (metrics.QUEUE_LAG, [queue.oldest_ready_age or 0.0 for queue in queues]),
        (metrics.QUEUE_PAUSED, [int(figures.is_paused(queue)) for queue in queues]),
        (metrics.QUEUE_COOLING, [queue.cooling_for or 0.0 for queue in queues]),
        (metrics.QUEUE_UNSERVED, [int(choice_of(one.name, served) is None) for one in queues]),
    ):
        named = zip((queue.name for queue in queues), values, strict=True)
        yield _worst(metric, label, named)
    standing = Counter(worker.standing for worker in figures.workers)
    yield Family.of(metrics.WORKERS, [((each.value,), standing[each]) for each in WorkerStanding])
    yield Family.of(metrics.SLOTS, _slots(figures.alive))
    yield from _schedules(figures.schedules)
    yield from _counted(figures.counts)


def _moves(totals: Iterable[Total]) -> Iterator[tuple[tuple[str, ...], int]]:
    moves = list(totals)
    pairs = _pairs((total.queue, total.task) for total in moves)
    shown = Counter(
        {(*pair, what.value): 0 for pair in set(pairs.values()) for what in SHOWN_AT_ZERO}
    )
    for total in moves:
        shown[*pairs[total.queue, total.task], total.what.value] += total.jobs
    return iter(sorted(shown.items()))


def _times(times: Iterable[PairTimes]) -> Iterator[Family]:
    every = list(times)
    pairs = _pairs((one.queue, one.task) for one in every)
    sums: dict[Pair, JobTimes] = {}
    for one in every:
        sums.setdefault(pairs[one.queue, one.task], JobTimes.none()).merge(one.times)
    shown = sorted(sums.items())
    yield Family.of_times(metrics.JOB_WAIT, ((pair, one.wait) for pair, one in shown))
    yield Family.of_times(metrics.JOB_RUN, ((pair, one.run) for pair, one in shown))
    yield Family.of_times(metrics.JOB_TOTAL, ((pair, one.total) for pair, one in shown))


def _pairs(pairs: Iterable[Pair]) -> dict[Pair, Pair]:
    """The labels of each pair: its own for the first by the alphabet, then those of all others of
    its queue. A worker may have measured under `OTHERS` itself: that has no place of its own."""
    found = sorted(set(pairs))
    queues = _label(queue for queue, _ in found)
    own = [pair for pair in found if OTHERS not in pair][:MOST_PAIRS]
    return {pair: (queues[pair[0]], OTHERS) for pair in found} | {pair: pair for pair in own}


def _jobs(figures: Figures) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every state of every queue, also at 0: what is empty must be told apart from what is gone."""
    names = {queue.name for queue in figures.queues} | {one.queue for one in figures.tallies}
    label = _label(names)
    shown = Counter({(queue, state): 0 for queue in set(label.values()) for state in JobState})
    for tally in figures.tallies:
        shown[label[tally.queue], tally.state] += tally.jobs
    for queue, state in sorted(shown):
        yield (queue, state.value), shown[queue, state]


def _slots(alive: Iterable[WorkerInfo]) -> Iterator[tuple[tuple[str, ...], int]]:
    """By what each worker said with its last beat. Of a worker of another release, which says
    nothing of its slots, all are free."""
    each = [
        (choice, slots)
        for worker in alive
        for choice, slots in (worker.facts.slots or _untold(worker)).items()
    ]
    label = _label(choice for choice, _ in each)
    sums: Counter[tuple[str, str]] = Counter()
    for choice, slots in each:
        for state in ("used", "free", "stuck"):
            sums[label[choice], state] += getattr(slots, state)
    return iter(sorted(sums.items()))


def _untold(worker: WorkerInfo) -> dict[str, SlotFacts]:
    return {choice: SlotFacts(free=slots) for choice, slots in worker.queues.items()}


def _counted(counts: Mapping[str, int]) -> Iterator[Family]:
    """What workers have counted, those that left too: the store keeps it, so no restart of a worker
    makes a counter go down."""
    yield Family.single(metrics.REFUSED_WRITES, counts.get("refused_writes", 0))
    found = reconciled(counts)
    items = [
        ((name, result), getattr(one, result)) for name, one in found.items() for result in RESULTS
    ]
    yield Family.of(metrics.RECONCILER_ITEMS, items)
    yield Family.of(
        metrics.RECONCILER_ERRORS, [((name,), one.errors) for name, one in found.items()]
    )


def _schedules(schedules: Mapping[str, ScheduleFigures]) -> Iterator[Family]:
    label = _label(schedules)
    late = [(name, one.lateness) for name, one in schedules.items()]
    told = ((name, seconds) for name, seconds in late if seconds is not None)
    yield _worst(metrics.LATENESS, label, told)
    failing = ((name, int(one.failing)) for name, one in schedules.items())
    yield _worst(metrics.FAILING, label, failing)


def _worst(metric: Metric, label: Mapping[str, str], values: Iterable[tuple[str, float]]) -> Family:
    """The largest value of each label: an alert must see the worst of those that share one."""
    worst: dict[str, float] = {}
    for name, value in values:
        worst[label[name]] = max(value, worst.get(label[name], value))
    return Family.of(metric, [((name,), worst[name]) for name in worst])


def _label(names: Iterable[str]) -> dict[str, str]:
    """The label of each name: the name itself for the first by the alphabet, then `OTHERS`."""
    found = sorted(set(names))
    return {name: name if at < MOST_PAIRS else OTHERS for at, name in enumerate(found)}
