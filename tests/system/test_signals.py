"""SIGTERM and SIGINT: a worker leaves without losing or spending anything."""

from __future__ import annotations

import signal
import time

import pytest

from holdfast.app import App
from holdfast.job.state import JobState
from tests.support import books
from tests.support.processes import Fleet, Process
from tests.support.program import linger
from tests.support.waiting import wait_until

SIGNALS = [signal.SIGTERM, signal.SIGINT]


async def working(fleet: Fleet, seconds: float, grace: float) -> tuple[Process, list[str]]:
    """A worker with two slots, both taken, and three more jobs in the line."""
    handles = await linger.enqueue_many([(seconds,)] * 5)
    [worker] = await fleet.workers(1, slots=2, grace=grace, lease=30)
    await wait_until(lambda: len(fleet.diary.entries("started")) == 2, 5, "two jobs run")
    return worker, [handle.id for handle in handles]


@pytest.mark.parametrize("number", SIGNALS)
async def test_work_that_ends_within_the_grace_is_let_finish_and_nothing_new_is_begun(
    fleet: Fleet, app: App, number: signal.Signals
) -> None:
    worker, ids = await working(fleet, seconds=1.0, grace=20)
    sent = worker.send(number)
    assert await worker.exit_code(within=5) == 0
    states: dict[str, JobState] = {j.id: j.state for j in await books.all_of(app.store, ids)}
    assert [states[job] for job in ids] == [JobState.SUCCEEDED] * 2 + [JobState.READY] * 3
    assert all(entry.at < sent for entry in fleet.diary.entries("claimed"))
    assert await app.client.workers.all() == [], "it took leave of the store"


@pytest.mark.parametrize("number", SIGNALS)
async def test_work_that_outlasts_the_grace_is_handed_back_without_spending_an_attempt(
    fleet: Fleet, app: App, number: signal.Signals
) -> None:
    worker, ids = await working(fleet, seconds=60, grace=0.5)
    sent = worker.send(number)
    assert await worker.exit_code(within=5) == 0
    assert time.monotonic() - sent >= 0.5, "it did not wait the grace"
    for job in await books.all_of(app.store, ids):
        assert (job.state, job.attempts, job.crashes, job.errors) == (JobState.READY, 0, 0, ())
    assert {entry.job for entry in fleet.diary.entries("finish")} == set(ids[:2])


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_second_signal_does_not_wait(
    fleet: Fleet, app: App, number: signal.Signals
) -> None:
    worker, ids = await working(fleet, seconds=60, grace=60)
    worker.send(number)
    await wait_until(lambda: "worker.signal" in worker.log.read_text(), 5, "it heard the first")
    assert worker.alive
    worker.send(number)
    assert await worker.exit_code(within=3) == 0
    jobs = await books.all_of(app.store, ids)
    assert {(job.state, job.attempts) for job in jobs} == {(JobState.READY, 0)}
