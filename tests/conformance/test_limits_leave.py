"""The last job leaves a line that waits at a bucket: nobody waits there any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from holdfast.job.ends import Cancelled, DeadlinePassed
from holdfast.job.ids import JobId
from tests.conformance.builders import Scene
from tests.conformance.limiting import (
    at_cost,
    begun,
    bucket,
    limited,
    nothing_is_wrong,
    of,
    through,
)


async def cancel(scene: Scene, job: JobId) -> None:
    await scene.finish(await scene.live(job), Cancelled())


async def expire(scene: Scene, job: JobId) -> None:
    await scene.finish(await scene.live(job), DeadlinePassed())


async def move(scene: Scene, job: JobId) -> None:
    await scene.store.jobs.move([job], "elsewhere")


async def reprioritise(scene: Scene, job: JobId) -> None:
    await scene.store.jobs.reprioritise([job], 7)


async def reschedule(scene: Scene, job: JobId) -> None:
    await scene.store.jobs.reschedule([job], 60)


LEAVES = [cancel, expire, move, reprioritise, reschedule]


@pytest.mark.parametrize("leave", LEAVES)
async def test_a_line_that_its_last_job_left_no_longer_counts_as_waiting(
    scene: Scene, leave: Callable[[Scene, JobId], Awaitable[None]]
) -> None:
    await limited(scene, github=1)
    [held] = await begun(scene, 1, "github:")
    job = await scene.enqueue(**through("github:"))
    assert await scene.claim(10) == []
    assert (await bucket(scene, "github:")).waiting == 1
    await leave(scene, job)
    found = await bucket(scene, "github:")
    assert (found.waiting, found.needs) == (0, None)
    assert await scene.store.limits.waiters("github:", 10) == []
    await scene.finish(held)
    await nothing_is_wrong(scene)


async def test_a_job_that_left_holds_up_nobody_in_other_queues(scene: Scene) -> None:
    """No worker ever asks for its own queue."""
    await limited(scene, memory=10)
    await begun(scene, 6, "memory:", queue="runs")
    units = {"memory:": 8}
    big = await scene.enqueue(queue="unserved", **at_cost(units))
    assert await scene.claim(10, "unserved") == []
    small = await scene.enqueue(queue="served", **at_cost({"memory:": 3}))
    assert await scene.claim(10, "served") == [], "somebody waits for more than is free"
    await scene.finish(await scene.live(big), Cancelled())
    assert of(await scene.claim(10, "served")) == [small]
