"""Jobs move on while `doctor` looks: it reads members of lists by one call and judges them by the
next. What has happened in between is no finding, and nothing of it is mended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import App, Concurrency, Retention
from holdfast.clock import ManualClock
from holdfast.job.ends import End, WasSuspended
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.health import MISPLACED, Severity
from holdfast.store.valkey.store import ValkeyStore
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import (
    FAILED,
    QUEUE,
    RETURNED,
    SNOOZED,
    STEADY,
    Scene,
    ids,
    new_worker,
)
from tests.conformance.limiting import limited, through

ABOUT = (MISPLACED, "jobs without a record or body", "jobs put aside")


@pytest.fixture(params=[1, 4], ids=["one partition", "four partitions"])
def partitions(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


GONE_AT_ONCE = Policy(retention=Retention(succeeded=0, failed=0, other=0))
ENDS: Sequence[End] = (RETURNED, FAILED, WasSuspended(None), WasSuspended(1.0), SNOOZED)


class Flow:
    """Jobs that arrive, wait, run, end and are removed. Every job goes on at every step, so what
    was read of the lists before a step is no longer so."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.steps, self.ended = scene, 0, list[JobId]()

    async def step(self) -> None:
        scene, jobs = self.scene, self.scene.store.jobs
        self.steps += 1
        scene.clock.advance(60)
        await jobs.prune(1_000)
        await jobs.delete(self.ended)
        running = await jobs.live(await self._in(JobState.RUNNING))
        self.ended = ids(running)
        for number, job in enumerate(running):
            assert (await scene.finish(job, ENDS[(self.steps + number) % len(ENDS)])).accepted
        await jobs.resume(await self._in(JobState.SUSPENDED))
        await jobs.promote_due(1_000)
        for queue in (QUEUE, "other"):
            await scene.claim(self.steps % 2 * 50, queue)
        await jobs.move(await self._in(JobState.READY), "other")
        for policy in (GONE_AT_ONCE, STEADY):
            await scene.enqueue_many(2, policy=policy)
            await scene.enqueue(policy=policy, delay=1.0, deadline_in=1e6)
            await scene.enqueue(policy=policy, **through("tenant:a"))

    async def _in(self, state: JobState) -> list[JobId]:
        chosen = JobFilter(states=frozenset({state}))
        return ids((await self.scene.store.jobs.page(chosen, 1_000)).jobs)


async def is_examined(scene: Scene, *, deep: bool) -> None:
    """Nothing is found that would be wrong with a job or a list."""
    health = scene.store.health
    if deep:
        assert await health.repair() == 0
    found = [one for one in await health.check(deep=deep) if one.check in ABOUT]
    assert len(found) == len(ABOUT)
    assert [one for one in found if one.severity is not Severity.OK] == []


@pytest.mark.parametrize("deep", [True, False], ids=["all", "a sample"])
async def test_jobs_that_move_on_between_a_look_and_the_judgement_are_well(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, deep: bool
) -> None:
    """A job that had left a list was called misplaced, and one that was removed was put aside."""
    assert isinstance(scene.store, ValkeyStore)
    await limited(scene, tenant=50)
    flow, connections = Flow(scene), scene.store._connections
    for _ in range(6):
        await flow.step()
    before, call = flow.steps, connections.call

    async def step_and_call(verb: str, *rest: Any, **options: Any) -> Any:
        if verb.startswith("health/"):
            await flow.step()
        return await call(verb, *rest, **options)

    monkeypatch.setattr(connections, "call", step_and_call)
    await is_examined(scene, deep=deep)
    monkeypatch.undo()
    assert flow.steps > before
    await is_examined(scene, deep=True)


async def test_workers_that_come_and_go_meanwhile_leave_no_job_behind(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(scene.store, ValkeyStore)
    leaving, connections = await scene.hire(), scene.store._connections
    job = await scene.running(worker=leaving)
    command = connections.command

    async def leave_read_and_come(*words: Any) -> Any:
        if words != ("HGETALL", connections.key(0, "workers")):
            return await command(*words)
        await scene.finish(job)
        await scene.lose(leaving)
        workers = await command(*words)
        await scene.running(worker=await scene.hire())
        return workers

    monkeypatch.setattr(connections, "command", leave_read_and_come)
    found = {one.check: one for one in await scene.store.health.check()}
    assert found["running jobs without a worker"].severity is Severity.OK


async def test_a_store_is_examined_and_mended_beside_a_busy_worker(
    server: ThrowawayValkey, partitions: int
) -> None:
    url = server.new_namespace(partitions=partitions)
    app = App(url)
    limit = app.limit("lim", Concurrency(3))

    @app.task(retention=Retention(succeeded=0, failed=0, other=0))
    async def brief(number: int) -> int:
        return number

    @app.task(retention=Retention(succeeded=0, failed=0, other=0), limits=[limit.by("who")])
    async def narrow(who: str) -> str:
        return who

    async def arrive() -> None:
        while True:
            for number in range(20):
                await brief.enqueue(number)
                await narrow.enqueue("abc"[number % 3])
            last = await brief.using(delay=0.01, retention=Retention()).enqueue(20)
            await last.result(timeout=30)
            await app.store.jobs.prune(1_000)

    async with app:
        scene = Scene(app.store, ManualClock(), new_worker().id)
        async with app.worker({"default": 20}), asyncio.TaskGroup() as beside:
            arriving = beside.create_task(arrive())
            for _ in range(10):
                await is_examined(scene, deep=True)
                await is_examined(scene, deep=False)
            arriving.cancel()
        await is_examined(scene, deep=True)
    server.clear(url)
