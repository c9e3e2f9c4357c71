"""A worker that sleeps through its lease and wakes: it may try, but nothing of it counts."""

from __future__ import annotations

import signal

from holdfast.app import App
from holdfast.job.state import JobState
from tests.support import books
from tests.support.killing import stop_between_heartbeats
from tests.support.processes import Fleet
from tests.support.program import outlive
from tests.support.waiting import wait_until

LEASE = 1.0


async def test_a_stopped_worker_that_wakes_after_its_lease_writes_nothing(
    fleet: Fleet, app: App
) -> None:
    sign = fleet.folder / "wake"
    handle = await outlive.enqueue(str(sign))
    [zombie] = await fleet.workers(1, lease=LEASE)
    await wait_until(
        lambda: bool(fleet.diary.entries("started", pid=zombie.pid)), 5, "the first attempt"
    )
    await stop_between_heartbeats(zombie, app)
    [heir] = await fleet.workers(1, lease=LEASE)
    assert await handle.result(timeout=10) == "attempt 2"

    fence_then = (await handle.get()).fence
    sign.touch()
    woken = zombie.send(signal.SIGCONT)
    await wait_until(
        lambda: bool(fleet.diary.entries("finish", pid=zombie.pid)), 5, "the zombie tries to write"
    )
    tried = fleet.diary.entries("finish", "reclaim", "progress", pid=zombie.pid)
    assert all(not entry.accepted for entry in tried if entry.job == handle.id)
    [claimed] = fleet.diary.entries("claimed", pid=zombie.pid)
    assert [(entry.fence, entry.at > woken) for entry in tried] == [(claimed.fence, True)]
    await wait_until(
        lambda: bool(fleet.diary.events("job.end_refused")), 5, "the refusal is reported"
    )

    job = await handle.get()
    assert (job.state, job.result, job.fence) == (JobState.SUCCEEDED, "attempt 2", fence_then)
    assert [entry.pid for entry in fleet.diary.entries("started")] == [zombie.pid, heir.pid]
    assert job.fence > claimed.fence

    heir.terminate()
    assert await heir.exit_code(within=5) == 0
    assert await (await outlive.enqueue(str(sign))).result(timeout=10) == "attempt 1", "it works on"
    ids = {entry.job for entry in fleet.diary.entries("started")}
    await books.the_books_balance(app.store, ids, fleet.diary.entries())
