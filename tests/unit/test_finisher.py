"""worker/finisher.py: who is told of ends, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from holdfast.background.outage import Outage
from holdfast.background.replicas import Replicas
from holdfast.errors import RowRefused, StoreUnavailable
from holdfast.events import Event, Events
from holdfast.handlers.registry import Registry
from holdfast.job.ids import JobId
from holdfast.job.outcome import UNWRITABLE
from holdfast.job.state import JobState
from holdfast.job.step import StepRecord
from holdfast.job.ties import NO_TIES, Tie
from holdfast.job.transition import Transition
from holdfast.job.what import What
from holdfast.store.contract.records import Verdict
from holdfast.worker.attempt import Attempt
from holdfast.worker.finisher import Finisher
from holdfast.worker.meter import Meter
from holdfast.worker.options import WorkerOptions
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.sleeps import LATE_SECONDS
from tests.support.waiting import wait_until


class Jobs:
    """A store that accepts every end, but for what a test wants first."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.verdicts: dict[str, Verdict] = {}
        self.gate = asyncio.Event()
        self.gate.set()

        self.written: list[Transition] = []

    async def finish(self, batch: Sequence[Transition]) -> list[Verdict]:
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.written += batch
        return [self.verdicts.get(end.id, Verdict(end.id, True)) for end in batch]


class Scene:
    def __init__(self) -> None:
        self.jobs = Jobs()
        self.seen: list[Event] = []
        events = Events(self.seen.append)
        store = cast("Any", SimpleNamespace(jobs=self.jobs))
        options = WorkerOptions({"default": 1})
        setup = WorkerSetup(store, Registry(), options, events, Outage(events), Replicas())
        self.finisher = Finisher(setup, Meter(setup.store, setup.events))
        self.told: list[tuple[Attempt | None, Transition, Verdict]] = []
        self.stop_listening = self.finisher.listeners.add(self.listen)

    def listen(self, attempt: Attempt | None, transition: Transition, verdict: Verdict) -> None:
        self.told.append((attempt, transition, verdict))


def attempt(*, begun: bool = False, weight: int = 1) -> Attempt:
    job = SimpleNamespace(queue="default")
    return cast("Attempt", SimpleNamespace(begun=begun, weight=weight, job=job))


def end(name: str, ties: int = NO_TIES) -> Transition:
    return Transition(JobId(name), 1, JobState.SUCCEEDED, spend=1, ties=ties)


async def test_a_listener_is_told_of_attempt_transition_and_verdict() -> None:
    scene = Scene()
    mine, taken = attempt(), attempt()
    late = Verdict(JobId("b"), False, JobState.RUNNING, 2)
    scene.jobs.verdicts["b"] = late
    scene.finisher.add(mine, end("a"))
    scene.finisher.add(taken, end("b"))
    scene.finisher.add(None, end("c"))
    await scene.finisher.settled()
    assert scene.told == [
        (mine, end("a"), Verdict(JobId("a"), True)),
        (taken, end("b"), late),
        (None, end("c"), Verdict(JobId("c"), True)),
    ]


async def test_nobody_is_told_before_the_store_has_answered() -> None:
    scene = Scene()
    scene.jobs.gate.clear()
    scene.finisher.add(attempt(), end("a"))
    await asyncio.sleep(0.01)
    assert scene.told == []
    scene.jobs.gate.set()
    await scene.finisher.settled()
    assert len(scene.told) == 1


async def test_a_permit_is_held_until_the_end_that_gives_it_back_is_written() -> None:
    scene = Scene()
    here = Verdict(JobId("b"), False, JobState.RUNNING, 1)
    scene.jobs.verdicts["b"] = here  # somebody has locked the job: its end is written again
    scene.jobs.gate.clear()
    for name in "abc":
        scene.finisher.add(attempt(), end(name, Tie.PERMITS))
    scene.finisher.add(attempt(), end("plain"))
    assert (scene.finisher.permits_of("default"), scene.finisher.permits_of("other")) == (3, 0)
    scene.jobs.gate.set()
    await wait_until(lambda: scene.finisher.unwritten == 1, 5, "the others are written")
    assert scene.finisher.permits_of("default") == 1
    del scene.jobs.verdicts["b"]
    await scene.finisher.settled()
    assert scene.finisher.permits_of("default") == 0


async def test_an_end_that_was_written_although_its_answer_was_lost_is_told_as_accepted() -> None:
    scene = Scene()
    scene.jobs.failures = [StoreUnavailable("the answer is lost")]
    scene.jobs.verdicts["a"] = Verdict(JobId("a"), False, JobState.SUCCEEDED, 1)
    scene.finisher.add(None, end("a"))
    await scene.finisher.settled()
    assert [verdict.accepted for _, _, verdict in scene.told] == [True]


async def test_an_end_that_had_to_be_replaced_is_told_as_it_was_written() -> None:
    scene = Scene()
    scene.jobs.failures = [RowRefused("too large")]
    mine = attempt()
    scene.finisher.add(mine, end("a"))
    await scene.finisher.settled()
    [(told, transition, verdict)] = scene.told
    assert told is mine
    assert (transition.to, verdict.accepted) == (JobState.FAILED, True)
    assert (transition.reason or "").startswith(UNWRITABLE)


async def test_what_passes_before_a_sleep_is_written_counts_to_it() -> None:
    """An outage, or a long line of ends: the job wakes when it said, and not so much later."""
    scene = Scene()
    scene.jobs.failures = [StoreUnavailable("away for a moment")]
    scene.jobs.gate.clear()
    job = JobId("a")
    naps = (StepRecord(job, 1, "nap", 1, seconds=60.0), StepRecord(job, 1, "pay", 2, result="1"))
    asleep = Transition(job, 1, JobState.SUSPENDED, delay=60.0, why=What.SUSPENDED, steps=naps)
    retried = Transition(JobId("b"), 1, JobState.SCHEDULED, delay=60.0, why=What.RETRIED)
    for one in (asleep, retried, end("c")):
        scene.finisher.add(None, one)
    await asyncio.sleep(2 * LATE_SECONDS)
    scene.jobs.gate.set()
    await scene.finisher.settled()
    first, *others = scene.jobs.written
    assert 0 < (first.delay or 0) <= 60 - 2 * LATE_SECONDS
    assert [one.seconds for one in first.steps] == [first.delay, None]
    assert others == [retried, end("c")]


async def test_a_sleep_that_is_written_at_once_is_as_long_as_it_was_asked_for() -> None:
    scene = Scene()
    asleep = Transition(JobId("a"), 1, JobState.SUSPENDED, delay=60.0, why=What.SUSPENDED)
    scene.finisher.add(None, asleep)
    await scene.finisher.settled()
    assert scene.jobs.written == [asleep]


async def test_a_listener_that_raises_harms_neither_ends_nor_other_listeners() -> None:
    scene = Scene()
    heard: list[JobId] = []

    def broken(attempt: Attempt | None, transition: Transition, verdict: Verdict) -> None:
        raise ValueError("a metric is broken")

    scene.stop_listening()
    scene.finisher.listeners.add(broken)
    scene.finisher.listeners.add(lambda attempt, transition, verdict: heard.append(transition.id))
    scene.finisher.add(None, end("a"))
    scene.finisher.add(None, end("b"))
    await scene.finisher.settled()
    assert heard == ["a", "b"]
    assert scene.finisher.counters.ended == 2
    assert [event.name for event in scene.seen] == ["finisher.listener_failed"] * 2


async def test_who_stopped_listening_is_told_nothing() -> None:
    scene = Scene()
    scene.stop_listening()
    scene.finisher.add(None, end("a"))
    await scene.finisher.settled()
    assert scene.told == []


class Measured(Meter):
    """A meter that keeps which ends it was told of."""

    def __init__(self) -> None:
        super().__init__(cast("Any", None), Events())
        self.told: list[str] = []

    def observe(self, attempt: Attempt, transition: Transition, now: float) -> None:
        if transition.id == "broken":
            raise ValueError("a defect")
        self.told.append(transition.id)


async def test_an_end_is_measured_once_the_store_has_accepted_it_and_a_refused_one_never() -> None:
    scene, meter = Scene(), Measured()
    scene.finisher.listeners.meter = meter
    scene.jobs.verdicts["b"] = Verdict(JobId("b"), False, JobState.RUNNING, 2)
    scene.jobs.gate.clear()
    for name in ("a", "b", "c"):
        scene.finisher.add(attempt(begun=True), end(name))
    scene.finisher.add(attempt(begun=True, weight=0), end("another stands for it"))
    scene.finisher.add(attempt(), end("never began"))
    scene.finisher.add(None, end("nobody's"))
    assert meter.told == []
    scene.jobs.gate.set()
    await scene.finisher.settled()
    assert (sorted(meter.told), scene.finisher.listeners._measured) == (["a", "c"], {})


async def test_a_meter_that_raises_harms_neither_ends_nor_listeners() -> None:
    scene = Scene()
    scene.finisher.listeners.meter = Measured()
    scene.finisher.add(attempt(begun=True), end("broken"))
    await scene.finisher.settled()
    assert (scene.finisher.counters.ended, len(scene.told)) == (1, 1)
    assert [event.name for event in scene.seen] == ["telemetry.not_measured"]
