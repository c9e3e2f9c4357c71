"""A Valkey server at its memory limit: it takes no new jobs, and all other work goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.app import App
from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.context import Context
from holdfast.errors import PartlyInserted, StoreError
from holdfast.job.ends import Cancelled, End, HandedBack
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import NewJob, Progress
from holdfast.job.state import JobState
from holdfast.store.contract.audit import ActOutcome
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import ProgressReport, Want
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import Held
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import QUEUE, RETURNED, TASK, Scene, ids, new_job, new_worker
from tests.support.backends import opened

MAXMEMORY = "maxmemory"
ROOM = 800_000  # bytes: for some hundreds of jobs


@contextmanager
def limited(server: ThrowawayValkey, room: int) -> Iterator[None]:
    """The server has room for so many bytes more. With 0 it is far over its limit."""
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
        [shown] = await queues.find([QUEUE])
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


async def test_without_memory_an_operator_who_makes_room_is_audited(
    server: ThrowawayValkey, scene: Scene
) -> None:
    job = (await scene.ended()).id
    client = Client(scene.store)
    with limited(server, 0):
        await client.delete(job, by="ann")
    [entry] = (await client.audit.page(target=job)).entries
    assert (entry.outcome, entry.changed) == (ActOutcome.DONE, 1)
    await client.aclose()


async def test_without_memory_a_worker_starts_and_drains(
    server: ThrowawayValkey, scene: Scene
) -> None:
    """A store can be opened too: workers do that, and operators who look for the cause."""
    await scene.enqueue_many(3)
    url = server.url + "?namespace=" + _namespace(scene.store)
    with limited(server, 0):
        async with opened(url, scene.clock) as store:
            await store.queues.ensure({"new": QueueSettings()})
            worker = new_worker()
            await store.workers.register(worker, 30)
            given = await store.jobs.claim(worker.id, [Want(QUEUE, 3)], [TASK])
            ends: list[End] = [RETURNED, HandedBack(), Cancelled()]
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
    assert [one.checkpoint if one else None for one in kept] == [{"row": 7}] * 2


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
    server.say("FLUSHALL")


# What is refused


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a call of a thousand jobs is many scripts, and many writes."""
    monkeypatch.setattr("holdfast.store.valkey.inserting.INSERT_BATCH", 25)
    monkeypatch.setattr("holdfast.enqueue.bulk.WRITE_BATCH", 200)


def plain(count: int) -> list[NewJob]:
    return [new_job(args=f'{{"name":"{"x" * 400}"}}') for _ in range(count)]


@pytest.mark.parametrize("partitions", [1, 4])
async def test_an_insert_that_is_refused_halfway_says_which_jobs_stand(
    server: ThrowawayValkey, clock: ManualClock, partitions: int, small_batches: None
) -> None:
    url = server.new_namespace(partitions=partitions)
    jobs = plain(1_000)
    async with opened(url, clock) as store:
        with limited(server, ROOM), pytest.raises(PartlyInserted, match="stand") as raised:
            await store.jobs.insert(jobs)
        told = [answer.id for answer in raised.value.answers if answer is not None]
        assert 0 < len(told) < len(jobs)
        assert told == [job.id for job in jobs if job.id in set(told)]
        assert sorted(told) == await _all_ids(store)
        assert ids(await store.jobs.insert(jobs)) == [job.id for job in jobs]
        assert await store.jobs.count(JobFilter()) == {JobState.READY: len(jobs)}
    server.say("FLUSHALL")


async def _all_ids(store: Store) -> list[str]:
    found, cursor = list[str](), None
    while True:
        page = await store.jobs.page(JobFilter(), 500, cursor)
        found += ids(page.jobs)
        cursor = page.next_cursor
        if cursor is None:
            return sorted(found)


async def test_an_insert_that_is_refused_whole_leaves_nothing(
    server: ThrowawayValkey, scene: Scene
) -> None:
    with limited(server, 0), pytest.raises(StoreError, match="out of memory") as raised:
        await scene.store.jobs.insert(plain(1_500))
    assert not isinstance(raised.value, PartlyInserted)
    assert await scene.store.jobs.count(JobFilter()) == {}


async def test_an_enqueue_many_that_is_refused_halfway_names_the_calls_that_stand(
    server: ThrowawayValkey, small_batches: None
) -> None:
    url = server.new_namespace()
    app = App(url)

    @app.task()
    async def read(text: str) -> None:
        pass

    texts = [f"{number:05}" + "x" * 400 for number in range(1_000)]
    async with app:
        with limited(server, ROOM), pytest.raises(PartlyInserted) as raised:
            await read.enqueue_many((text,) for text in texts)
        answers = raised.value.answers
        stand = [text for text, answer in zip(texts, answers, strict=False) if answer]
        assert 0 < len(stand) < len(texts)
        assert await _texts(app) == stand
        left = [text for n, text in enumerate(texts) if n >= len(answers) or not answers[n]]
        await read.enqueue_many((text,) for text in left)
        assert await _texts(app) == texts
    server.say("FLUSHALL")


async def _texts(app: App) -> list[str]:
    jobs = await app.store.jobs.get([JobId(i) for i in await _all_ids(app.store)])
    return sorted(job.args["text"] for job in jobs)


async def test_callers_that_share_a_round_trip_do_not_share_its_refusal(
    server: ThrowawayValkey,
) -> None:
    """Each partition takes or refuses its own jobs. Every caller learns what became of its own."""
    url = server.new_namespace(partitions=4)
    app = App(url)

    @app.task()
    async def read(text: str) -> None:
        pass

    async with app:
        with limited(server, 1_300_000):
            calls = [read.enqueue("x" * 4_000) for _ in range(450)]
            heard = await asyncio.gather(*calls, return_exceptions=True)
        told = [one.id for one in heard if not isinstance(one, BaseException)]
        refused = [one for one in heard if isinstance(one, BaseException)]
        assert told
        assert refused
        assert all("out of memory" in str(error) for error in refused)
        assert sorted(told) == await _all_ids(app.store)
    server.say("FLUSHALL")
