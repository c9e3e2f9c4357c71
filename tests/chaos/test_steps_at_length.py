"""Two thousand jobs of ten steps, with a sleep and a signal each, while a worker is killed every
second and a deploy changes the steps."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from holdfast.app import App
from holdfast.job.ids import JobId
from holdfast.job.signal import NewSignal, Sent, SignalLimits
from holdfast.job.state import JobState
from tests.support import books
from tests.support.killing import kill_one_every
from tests.support.processes import Fleet
from tests.support.program import RELEASE, RELEASES, STEPS, stepwise

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

JOBS = 2_000
LEASE = 2.0
SLOTS = 20
BATCH = 50
SENDING = 10.0
"""Seconds over which the signals are sent."""


async def send_to(app: App, ids: Sequence[JobId], fleet: Fleet) -> Counter[Sent]:
    """A signal for each job, some of them before it waits; each is sent twice. In the middle of it
    all, the next release is deployed."""
    order, sent = list(enumerate(ids)), Counter[Sent]()
    random.Random(3).shuffle(order)
    for start in range(0, JOBS, BATCH):
        if start == JOBS // 2:
            fleet.deploy(**{RELEASE: "2"})
        for n, job in order[start : start + BATCH]:
            for _ in range(2):
                signal = NewSignal(job, "go", str(n), "go")
                sent.update(await app.store.signals.send([signal], SignalLimits()))
        await asyncio.sleep(SENDING * BATCH / JOBS)
    return sent


async def test_no_step_is_called_again_no_signal_is_lost_and_no_job_is_stuck(
    fleet: Fleet, app: App
) -> None:
    """F8 and F9, with real processes: the diary knows every call and every acknowledged record."""
    ids = [handle.id for handle in await stepwise.enqueue_many(() for _ in range(JOBS))]
    await fleet.workers(4, slots=SLOTS, lease=LEASE)
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(send_to(app, ids, fleet))
        killed = await kill_one_every(1.0, fleet, app, slots=SLOTS, lease=LEASE, within=300)
    sent = sending.result()

    recorded: set[tuple[str, str]] = set()
    called: dict[tuple[str, str], int] = {}
    for entry in fleet.diary.entries():
        step = (entry.job, entry.text)
        if entry.what == "called":
            assert step not in recorded, f"step {entry.text} of {entry.job} was called again"
            called[step] = called.get(step, 0) + 1
        elif entry.what == "recorded":
            recorded.add(step)
    assert len(recorded) >= JOBS * STEPS
    jobs = {job.id: job for job in await books.all_of(app.store, ids)}
    assert {job.state for job in jobs.values()} == {JobState.SUCCEEDED}
    assert [jobs[job].result[1] for job in ids] == list(range(JOBS)), "each its own signal"
    releases = Counter(tuple(job.result[0]) for job in jobs.values())
    assert set(releases) == {tuple(names) for names in RELEASES.values()}, "both releases ran"
    assert sent[Sent.DUPLICATE] + sent[Sent.ENDED] == JOBS, "the second one of each"
    assert sent[Sent.WOKE] > 0
    for start in range(0, JOBS, 500):
        found = await app.store.signals.of(ids[start : start + 500])
        assert {one.taken_by for some in found.values() for one in some} == {"go"}
    assert len(killed) >= 3, "the run was over before it was rough"
    assert max(called.values()) > 1, "nobody was killed between a call and its record"
