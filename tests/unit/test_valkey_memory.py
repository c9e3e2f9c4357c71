"""A Valkey server at its memory limit: it takes no new work, and all that is there goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from holdfast.app import App
from holdfast.clock import ManualClock
from holdfast.context import Context
from holdfast.ends import Cancelled, HandedBack
from holdfast.job import JobState, Progress
from holdfast.outcome import decide
from holdfast.store.contract import Store
from holdfast.store.records import Held, ProgressReport, QueueSettings, Want
from holdfast.testing.servers import ThrowawayValkey, find_valkey
from tests.backends import opened
from tests.conformance.builders import QUEUE, RETURNED, TASK, Scene, new_worker

MAXMEMORY = "maxmemory"


@pytest.fixture(scope="module")
def server() -> Iterator[ThrowawayValkey]:
    with ThrowawayValkey(find_valkey()) as server:
        yield server


@pytest.fixture
async def scene(server: ThrowawayValkey, clock: ManualClock) -> AsyncIterator[Scene]:
    url = server.new_namespace()
    async with opened(url, clock) as store:
        yield await Scene.on(store, clock)
    server.clear(url)


@contextmanager
def limited(server: ThrowawayValkey, room: int) -> Iterator[None]:
    """The server has room for so many bytes more; none, and it is far over its limit."""
    limit = 1_000 if room == 0 else used(server) + room
    server.say("CONFIG", "SET", MAXMEMORY, limit)
    try:
        yield
    finally:
        server.say("CONFIG", "SET", MAXMEMORY, 0)


def used(server: ThrowawayValkey) -> int:
    [line] = [x for x in str(server.say("INFO", "memory")).splitlines() if "used_memory:" in x]
    return int(line.partition(":")[2])


# What goes on


async def test_without_memory_jobs_are_cancelled_whatever_state_they_are_in(
    server: ThrowawayValkey, scene: Scene
) -> None:
    waiting = [await scene.in_state(s, queue=s) for s in (JobState.READY, JobState.SUSPENDED)]
    running = await scene.running()
    with limited(server, 0):
        assert await scene.store.jobs.request_cancel([running.id]) == [running.id]
        for job in await scene.store.jobs.live(waiting):
            assert (await scene.finish(job, Cancelled())).accepted
        held = [Held(running.id, running.fence)]
        assert (await scene.store.workers.heartbeat(scene.worker, 30, held)).cancel == (running.id,)


async def test_without_memory_queues_are_paused_tuned_and_resumed(
    server: ThrowawayValkey, scene: Scene
) -> None:
    await scene.enqueue_many(2)
    queues = scene.store.queues
    with limited(server, 0):
        await queues.pause([QUEUE, "unheard of"])
        assert await scene.claim(1) == []
        await queues.tune(QUEUE, QueueSettings(retain_succeeded=5.0))
        await queues.resume([QUEUE])
        [shown] = await queues.list([QUEUE])
        assert (shown.paused, shown.settings.retain_succeeded) == (False, 5.0)
        assert len(await scene.claim(1)) == 1


async def test_without_memory_waiting_jobs_are_moved_and_suspended_ones_resumed(
    server: ThrowawayValkey, scene: Scene
) -> None:
    moved, resumed = [await scene.in_state(JobState.SUSPENDED) for _ in range(2)]
    with limited(server, 0):
        assert await scene.store.jobs.move([moved], "other") == [moved]
        assert await scene.store.jobs.reprioritise([moved], 7) == [moved]
        assert await scene.store.jobs.resume([resumed]) == [resumed]


async def test_without_memory_a_worker_starts_and_drains(
    server: ThrowawayValkey, scene: Scene
) -> None:
    """A store is opened, too: by the worker, and by whoever looks for the cause."""
    await scene.enqueue_many(3)
    url = server.url + "?namespace=" + _namespace(scene.store)
    with limited(server, 0):
        async with opened(url, scene.clock) as store:
            await store.queues.ensure({"new": QueueSettings()})
            worker = new_worker()
            await store.workers.register(worker, 30)
            given = await store.jobs.claim(worker.id, [Want(QUEUE, 3)], [TASK])
            ends = [RETURNED, HandedBack(), Cancelled()]
            moves = [decide(job, end) for job, end in zip(given, ends, strict=True)]
            assert all(verdict.accepted for verdict in await store.jobs.finish(moves))


def _namespace(store: Store) -> str:
    return str(store._connections.options.namespace)  # type: ignore[attr-defined]


async def test_without_memory_progress_is_kept(server: ThrowawayValkey, scene: Scene) -> None:
    first, again = await scene.running(), await scene.running()
    reports = [
        ProgressReport(job.id, job.fence, Progress(0.5, "half", '{"row":7}'))
        for job in (first, again)
    ]
    await scene.store.jobs.report_progress(reports[1:])
    with limited(server, 0):
        assert await scene.store.jobs.report_progress(reports) == [True, True]
    kept = [(await scene.job(job.id)).progress for job in (first, again)]
    assert [one.checkpoint if one else None for one in kept] == ['{"row":7}'] * 2


async def test_without_memory_a_handler_that_says_how_far_it_is_does_not_fail(
    server: ThrowawayValkey,
) -> None:
    url = server.new_namespace()
    app = App(url)

    @app.task()
    async def count(ctx: Context) -> int:
        for number in range(10):
            await ctx.progress(number / 10, "counting", checkpoint={"number": number})
        return 10

    async with app:
        job = await count.enqueue()
        with limited(server, 0):
            async with app.worker({"default": 1}) as worker:
                await worker.drain()
        assert await job.result(timeout=5) == 10
    server.clear(url)
