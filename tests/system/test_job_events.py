"""Events of single jobs: what a reporter of errors, a tracer or a log needs, for who asks."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from holdfast import App, BadOption, Context, Event, Fail, JobState, Retry, Skip, Snooze, Suspend
from holdfast.background.options import ReconcileOptions
from holdfast.clock import ManualClock
from holdfast.events import ON_REQUEST, Events
from holdfast.logs.records import log_event
from holdfast.reconcile.lapsed_leases import LapsedLeasesReconciler
from holdfast.store.contract.store import Store
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from tests.conformance.builders import Scene
from tests.support import hooked
from tests.support.waiting import wait_until
from tests.support.working import ONCE, QUICK, Shop


async def test_started_and_ended_jobs_are_told_with_the_exception_itself(
    live_store: Store,
) -> None:
    boom = ValueError("boom")

    async def fine() -> None: ...

    def broken() -> None:
        raise boom

    shop = Shop(live_store, fine, broken)
    heard: list[Event] = []
    shop.events.subscribe(heard.append, "job.started", "job.succeeded", "job.failed")
    good, bad = await shop.enqueue(fine), await shop.enqueue(broken, policy=ONCE)
    options = WorkerOptions({"default": 2})
    async with Worker(live_store, shop.registry, options, shop.events) as worker:
        await worker.drain()
        worker_id = worker.id
    by_name = {(event.name, event.fields["job_id"]): event.fields for event in heard}
    started: dict[str, Any] = {"task": "fine", "queue": "default", "attempt": 1}
    started["max_attempts"] = 3
    started["fence"] = by_name["job.started", good]["fence"]
    assert started["fence"] >= 1
    assert by_name["job.started", good] == {"job_id": good, "worker": worker_id, **started}
    succeeded = dict(by_name["job.succeeded", good])
    assert 0 <= float(str(succeeded.pop("seconds"))) < 60
    assert succeeded == {"job_id": good, "worker": worker_id, "reason": None, **started}
    failed = by_name["job.failed", bad]
    assert failed["exception"] is boom
    assert (failed["error"], failed["message"]) == ("ValueError", "boom")
    assert "raise boom" in str(failed["traceback"])
    assert {event.name for event in shop.seen} & ON_REQUEST == set()  # only who asks hears them


async def test_every_end_of_an_attempt_has_its_event() -> None:
    app = App("sqlite://")
    heard: list[tuple[str, object]] = []
    app.events.subscribe(lambda e: heard.append((e.name, e.fields["task"])), *ON_REQUEST)

    def ending(name: str, error: Exception | None, **options: Any) -> Any:
        async def handler(ctx: Context) -> None:
            if error is not None and ctx.attempt == 1:
                raise error

        return app.task(name=name, **options)(handler)

    tasks = [
        ending("succeeds", None),
        ending("fails", Fail("no")),
        ending("retries", ValueError("again"), retry=Retry(max_attempts=2, base=3600)),
        ending("snoozes", Snooze(3600)),
        ending("suspends", Suspend(3600)),
        ending("skips", Skip("nothing to do")),
        app.task(name="dies", process=True)(hooked.refusing),
    ]

    @app.task(name="waits")
    async def waits() -> None:
        await asyncio.sleep(60)

    async with app:
        for task in tasks:
            await task.enqueue()
        async with app.worker({"default": 10}) as worker:
            await worker.drain()
        cancelled = await waits.enqueue()
        async with app.worker({"default": 10}, grace=0, patience=5):
            await wait_until(lambda: ("job.started", "waits") in heard, 30, "it starts")
            await cancelled.cancel()
            await wait_until(lambda: ("job.cancelled", "waits") in heard, 30, "it is cancelled")
            await waits.enqueue()
            await wait_until(lambda: heard.count(("job.started", "waits")) == 2, 30, "it starts")
    ended = sorted(one for one in heard if one[0] != "job.started")
    assert ended == [
        ("job.cancelled", "waits"),
        ("job.failed", "dies"),
        ("job.failed", "fails"),
        ("job.handed_back", "waits"),
        ("job.retried", "retries"),
        ("job.skipped", "skips"),
        ("job.snoozed", "snoozes"),
        ("job.succeeded", "succeeds"),
        ("job.suspended", "suspends"),
    ]


async def test_a_subscriber_may_come_and_go_and_raise(live_store: Store) -> None:
    async def fine() -> None: ...

    shop = Shop(live_store, fine)
    heard: list[object] = []
    options = WorkerOptions({"default": 2})

    def noting(event: Event) -> None:
        heard.append(event.fields["job_id"])
        raise RuntimeError("a subscriber may do what it likes")

    async with Worker(live_store, shop.registry, options, shop.events) as worker:
        await shop.enqueue(fine)
        await worker.drain()
        stop = shop.events.subscribe(noting, "job.succeeded")
        second = await shop.enqueue(fine, policy=QUICK)
        await worker.drain()
        stop()
        third = await shop.enqueue(fine)
        await worker.drain()
        assert worker._pipeline is not None
        assert worker._pipeline.executor.on_begin is None  # nothing is noted for nobody
    assert heard == [second]
    assert (await live_store.jobs.get([third]))[0].state is JobState.SUCCEEDED


async def test_a_job_that_fails_because_its_worker_died_is_told_by_the_sweep(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    scene = await Scene.on(store, clock)
    dead = await scene.hire(30)
    await scene.enqueue_many(2, policy=ONCE)
    claimed = await scene.claim(2, worker=dead)
    clock.advance(31)
    told: list[Event] = []
    events = Events(log_event)
    events.subscribe(told.append, "job.failed")
    sweep = LapsedLeasesReconciler(store, events, ReconcileOptions())
    assert (await sweep.run_once()).mended == 2
    assert {event.fields["job_id"] for event in told} == {job.id for job in claimed}
    assert {event.fields["worker"] for event in told} == {dead}
    assert {event.fields["message"] for event in told} == {"worker lost"}
    logged = [vars(record) for record in caplog.records if record.levelno == logging.ERROR]
    assert {record["job_id"] for record in logged} == {job.id for job in claimed}
    assert {(record["event"], record["worker"]) for record in logged} == {
        ("job.attempt_failed", dead)
    }


def test_an_event_that_is_never_emitted_cannot_be_asked_for() -> None:
    with pytest.raises(BadOption, match=r"such as 'job\.failed', got 'job\.exploded'"):
        App("sqlite://").events.subscribe(print, "job.exploded")
