"""A claim brings the steps and signals of a job that goes on: nobody has to ask for them."""

from __future__ import annotations

import pytest

from holdfast.store.valkey.claiming import INLINE_BODIES
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import Scene
from tests.conformance.signalling import send, waiting

FEW = 32
"""`MOST_RECALLED` in `lua/parts/claiming.lua`."""


@pytest.mark.parametrize("signals", [1, FEW])
async def test_a_woken_job_comes_with_its_steps_and_signals(scene: Scene, signals: int) -> None:
    job = await waiting(scene)
    for n in range(signals):
        await send(scene, job.id, key=f"{n}")
    [claimed] = await scene.claim()
    assert claimed.recalled is not None
    assert claimed.recalled == (await scene.store.steps.recall([job.id]))[job.id]
    assert [step.awaits for step in claimed.recalled.steps] == ["paid"]
    assert len(claimed.recalled.signals) == signals


async def test_a_job_with_many_of_them_comes_without(scene: Scene) -> None:
    job = await waiting(scene)
    for n in range(FEW + 1):
        await send(scene, job.id, key=f"{n}")
    [claimed] = await scene.claim()
    assert claimed.recalled is None


async def test_many_jobs_come_without(scene: Scene) -> None:
    jobs = [await waiting(scene) for _ in range(INLINE_BODIES + 1)]
    for job in jobs:
        await send(scene, job.id)
    claimed = await scene.claim(100)
    assert len(claimed) > INLINE_BODIES
    assert not any(job.recalled for job in claimed)


async def test_a_job_without_ties_has_nothing_to_recall(scene: Scene) -> None:
    assert (await scene.running()).recalled is None


async def test_steps_that_something_else_overwrote_do_not_stop_a_claim(
    scene: Scene, server: ThrowawayValkey, place: str
) -> None:
    job = await waiting(scene)
    await send(scene, job.id)
    [key] = [key for key in server.keys(place) if key.endswith(f":st:{job.id}")]
    server.say("SET", key, "x")
    [claimed] = await scene.claim()
    assert (claimed.id, claimed.recalled) == (job.id, None)
