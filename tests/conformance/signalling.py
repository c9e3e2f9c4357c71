"""Jobs that wait for signals, so that the tests of signals read as sentences."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.job.ends import WasSuspended
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.job.signal import NewSignal, Sent, Signal, SignalLimits
from holdfast.job.step import StepRecord
from holdfast.job.transition import Transition
from holdfast.store.contract.records import Verdict
from tests.conformance.builders import Scene

LIMITS = SignalLimits()


def signal_for(job: JobId, name: str = "paid", value: str = "1", key: str = "k1") -> NewSignal:
    return NewSignal(job, name, value, key)


async def send(
    scene: Scene, job: JobId, name: str = "paid", value: str = "1", key: str = "k1"
) -> Sent:
    [sent] = await scene.store.signals.send([signal_for(job, name, value, key)], LIMITS)
    return sent


async def signals_of(scene: Scene, job: JobId) -> list[Signal]:
    return (await scene.store.signals.of([job])).get(job, [])


async def kept_of(scene: Scene, job: JobId) -> list[str]:
    return [one.name for one in await signals_of(scene, job) if one.taken_by is None]


def wait_of(job: Claimed, *names: str, seconds: float | None = None, n: int = 1) -> Transition:
    """The move of an attempt that is left, to wait for these signals."""
    move = decide(job, WasSuspended(seconds, "waits"))
    waits = [
        StepRecord(job.id, job.fence, name, n + at, seconds=seconds, awaits=name)
        for at, name in enumerate(names or ("paid",))
    ]
    return msgspec.structs.replace(move, steps=tuple(waits))


async def wait(scene: Scene, job: Claimed, *names: str, **options: Any) -> Verdict:
    [verdict] = await scene.store.jobs.finish([wait_of(job, *names, **options)])
    return verdict


async def waiting(scene: Scene, *names: str, **options: Any) -> Claimed:
    """A job that is suspended for these signals."""
    claimed = await scene.running()
    assert (await wait(scene, claimed, *names, **options)).accepted
    return claimed


async def take(scene: Scene, job: Claimed, signal: Signal, name: str | None = None) -> bool:
    """Record the value of a signal as that of a step."""
    record = StepRecord(
        job.id, job.fence, name or signal.name, 1, result=signal.value_json, takes=signal.n
    )
    [kept] = await scene.store.steps.record([record])
    return kept
