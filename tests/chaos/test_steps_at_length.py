"""Two thousand jobs of ten steps and a sleep, while a worker is killed every second."""

from __future__ import annotations

import pytest

from holdfast.app import App
from holdfast.job.state import JobState
from tests.support import books
from tests.support.killing import kill_one_every
from tests.support.processes import Fleet
from tests.support.program import STEPS, stepwise

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

JOBS = 2_000
LEASE = 2.0


async def test_no_step_whose_record_was_acknowledged_is_called_again(
    fleet: Fleet, app: App
) -> None:
    """F8, with real processes: the diary knows every call and every acknowledged record."""
    ids = [handle.id for handle in await stepwise.enqueue_many(() for _ in range(JOBS))]
    await fleet.workers(4, slots=50, lease=LEASE)
    killed = await kill_one_every(1.0, fleet, app, slots=50, lease=LEASE, within=300)

    recorded: set[tuple[str, str]] = set()
    called: dict[tuple[str, str], int] = {}
    for entry in fleet.diary.entries():
        step = (entry.job, entry.text)
        if entry.what == "called":
            assert step not in recorded, f"step {entry.text} of {entry.job} was called again"
            called[step] = called.get(step, 0) + 1
        elif entry.what == "recorded":
            recorded.add(step)
    assert len(recorded) == JOBS * STEPS
    jobs = await books.all_of(app.store, ids)
    assert {(job.state, str(job.result)) for job in jobs} == {
        (JobState.SUCCEEDED, str(list(range(STEPS))))
    }
    assert len(killed) >= 3, "the run was over before it was rough"
    assert max(called.values()) > 1, "nobody was killed between a call and its record"
