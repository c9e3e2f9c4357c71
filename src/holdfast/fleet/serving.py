"""Who serves which queues and tasks, and what nobody serves."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.job.serving import choice_of, is_pattern
from holdfast.job.state import JobState
from holdfast.store.contract.telemetry import Tally
from holdfast.store.contract.workers import WorkerInfo


class Serving:
    """The workers that may claim, by the queues that they name and by their patterns: there may be
    hundreds of both, and each queue is asked about."""

    def __init__(self, workers: Iterable[WorkerInfo]) -> None:
        self._by_name: dict[str, list[WorkerInfo]] = {}
        self._by_pattern: dict[str, list[WorkerInfo]] = {}
        for choices, alike in _by_choices(workers).items():
            for choice in choices:
                found = self._by_pattern if is_pattern(choice) else self._by_name
                found.setdefault(choice, []).extend(alike)

    def of(self, queue: str) -> list[WorkerInfo]:
        """The workers that may claim its jobs."""
        fitting = {
            worker.id: worker
            for pattern, workers in self._by_pattern.items()
            if choice_of(queue, (pattern,))
            for worker in workers
        }
        others = [worker for worker in fitting.values() if queue not in worker.queues]
        return [*self._by_name.get(queue, []), *others]


def _by_choices(workers: Iterable[WorkerInfo]) -> dict[tuple[str, ...], list[WorkerInfo]]:
    """The workers that may claim, by what they serve: most of them serve the same as others."""
    found: dict[tuple[str, ...], list[WorkerInfo]] = {}
    for worker in workers:
        if worker.available:
            found.setdefault(tuple(worker.queues), []).append(worker)
    return found


class Unserved(msgspec.Struct, frozen=True, order=True):
    """What no worker serves: a queue; a task that no worker of its queue knows; or jobs of a task
    which the workers that know it leave. They leave jobs that need `labels` which none of them has,
    jobs that need no label if all of them take `only` jobs that need some, and jobs whose arguments
    do not fit their code (`misfits`)."""

    queue: str
    task: str | None = None
    labels: bool = False
    only: bool = False
    misfits: bool = False


def unserved(tallies: Iterable[Tally], workers: Iterable[WorkerInfo]) -> dict[Unserved, int]:
    """What nobody serves although jobs are ready, with their number."""
    serving = Serving(workers)
    found: dict[Unserved, int] = {}
    for tally in tallies:
        if tally.state is not JobState.READY or not tally.jobs:
            continue
        able = serving.of(tally.queue)
        if any(tally.task in worker.tasks for worker in able):
            continue
        what = Unserved(tally.queue, tally.task if able else None)
        found[what] = found.get(what, 0) + tally.jobs
    return found


def left_by_only(
    tallies: Iterable[Tally], workers: Iterable[WorkerInfo]
) -> dict[tuple[str, str], int]:
    """The queues and tasks with so many ready jobs whose workers all take only jobs that need
    labels: those that need none are left."""
    serving = Serving(workers)
    found: dict[tuple[str, str], int] = {}
    for tally in tallies:
        if tally.state is JobState.READY and tally.jobs:
            able = [one for one in serving.of(tally.queue) if tally.task in one.tasks]
            if able and all(one.facts.only for one in able):
                found[tally.queue, tally.task] = tally.jobs
    return found


def lacking_labels(
    tallies: Iterable[Tally], workers: Iterable[WorkerInfo]
) -> dict[tuple[str, str], frozenset[str]]:
    """The queues and tasks with ready jobs that some worker takes, with all labels that such
    workers have: nobody takes a job that needs another label."""
    serving = Serving(workers)
    found: dict[tuple[str, str], frozenset[str]] = {}
    for tally in tallies:
        if tally.state is JobState.READY and tally.jobs:
            able = [one for one in serving.of(tally.queue) if tally.task in one.tasks]
            if able:
                labels = frozenset(label for one in able for label in one.facts.labels)
                found[tally.queue, tally.task] = labels
    return found
