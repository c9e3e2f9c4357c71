"""Finisher.is_behind: whether ends that were decided before a moment are still to be written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from holdfast.background.outage import Outage
from holdfast.background.replicas import Replicas
from holdfast.events import Events
from holdfast.handlers.registry import Registry
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict
from holdfast.worker.finisher import Finisher
from holdfast.worker.meter import Meter
from holdfast.worker.options import WorkerOptions
from holdfast.worker.setup import WorkerSetup
from tests.support.waiting import wait_until


class SlowJobs:
    """Answers each flush when the test says so."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Event] = []

    async def finish(self, batch: Sequence[Transition]) -> list[Verdict]:
        answer = asyncio.Event()
        self.answers.append(answer)
        await answer.wait()
        return [Verdict(end.id, True) for end in batch]


def finisher_on(jobs: SlowJobs) -> Finisher:
    events = Events()
    store = cast("Any", SimpleNamespace(jobs=jobs))
    options = WorkerOptions({"default": 1}, batch=10, max_unwritten=100)
    setup = WorkerSetup(store, Registry(), options, events, Outage(events), Replicas())
    return Finisher(setup, Meter(store, events))


def end(name: str) -> Transition:
    return Transition(JobId(name), 1, JobState.SUCCEEDED, spend=1)


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_end_is_behind_until_the_store_has_answered() -> None:
    jobs = SlowJobs()
    finisher = finisher_on(jobs)
    before = time.monotonic()
    assert not finisher.is_behind(before)
    finisher.add(None, end("a"))
    after = time.monotonic()
    assert not finisher.is_behind(before - 1)
    assert finisher.is_behind(after)
    await turn()
    assert finisher.is_behind(after), "it is on its way"
    jobs.answers[0].set()
    await finisher.settled()
    assert not finisher.is_behind(time.monotonic())


async def test_later_ends_do_not_hold_back_what_is_said_of_earlier_ones() -> None:
    """Else a busy worker would never be heard to have caught up."""
    jobs = SlowJobs()
    finisher = finisher_on(jobs)
    finisher.add(None, end("a"))
    await turn()
    between = time.monotonic()
    await asyncio.sleep(0.002)
    finisher.add(None, end("b"))
    jobs.answers[0].set()
    await turn()
    assert not finisher.is_behind(between)
    assert finisher.is_behind(time.monotonic())
    jobs.answers[1].set()
    await finisher.settled()


class OddJobs:
    """Meets one end with an error that nobody knows, until `over` is set."""

    def __init__(self, odd: str) -> None:
        self.odd = odd
        self.over = asyncio.Event()
        self.tried = 0

    async def finish(self, batch: Sequence[Transition]) -> list[Verdict]:
        if any(end.id == self.odd for end in batch) and not self.over.is_set():
            self.tried += 1
            raise KeyError("a defect")
        return [Verdict(end.id, True) for end in batch]


async def test_an_end_that_is_kept_back_stays_behind_while_later_ends_are_written() -> None:
    jobs = OddJobs("a")
    finisher = finisher_on(cast("SlowJobs", jobs))
    finisher.add(None, end("a"))
    first = time.monotonic()
    for number in range(20):
        await asyncio.sleep(0.02)
        finisher.add(None, end(f"b{number}"))
        assert finisher.is_behind(first)
    await wait_until(lambda: finisher.unwritten == 1, 10, "the others are written")
    assert jobs.tried > 3
    assert finisher.is_behind(first)
    jobs.over.set()
    await wait_until(lambda: finisher.unwritten == 0, 10, "all are written")
    assert not finisher.is_behind(time.monotonic())
