"""Jobs that no live worker knows: they wait, visibly, and hold nobody up."""

from __future__ import annotations

import time

from holdfast.app import App
from holdfast.job.state import JobState
from tests.conformance.builders import new_job
from tests.support import books
from tests.support.processes import Fleet
from tests.support.program import brief
from tests.support.waiting import slowness, wait_until

UNKNOWN, KNOWN = 1_000, 200


async def test_a_thousand_unknown_jobs_at_the_head_hold_nobody_up(fleet: Fleet, app: App) -> None:
    unknown = [new_job("deployed_tomorrow", priority=-1) for _ in range(UNKNOWN)]
    await app.store.jobs.insert(unknown)
    await fleet.workers(1, slots=10, lease=30)
    before = time.monotonic()
    handles = await brief.enqueue_many([(1,)] * KNOWN)

    async def only_the_unknown_live() -> bool:
        return await books.live_jobs(app.store) == UNKNOWN

    await wait_until(only_the_unknown_live, 10, "the known jobs end")
    assert time.monotonic() - before < 3 * slowness(), "the line crawled"
    known = await books.all_of(app.store, [handle.id for handle in handles])
    assert {job.state for job in known} == {JobState.SUCCEEDED}

    waiting = await books.all_of(app.store, [job.id for job in unknown])
    assert {(job.state, job.attempts, job.fence) for job in waiting} == {(JobState.READY, 0, 0)}
    [reason] = (await app.client.explain(unknown[0].id)).reasons
    assert reason.code == "task-unknown"
    assert "no live worker runs it" in reason.fact
