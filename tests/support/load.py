"""A steady load on a fleet, so that faults meet everybody in the middle of something."""

from __future__ import annotations

from collections import Counter

from holdfast.app import App
from tests.support import books
from tests.support.processes import Fleet, Process
from tests.support.waiting import wait_until

LEASE = 20.0
"""Much longer than any outage it is used with, so that no living worker loses its jobs."""


async def under_load(fleet: Fleet) -> tuple[list[Process], Process]:
    """Two workers and someone who keeps them busy, all of them well under way."""
    workers = await fleet.workers(2, slots=5, lease=LEASE)
    enqueuer = fleet.start("enqueuer", together=6, milliseconds=10, pause=0.01)
    await more_jobs_return(fleet, 100)
    return workers, enqueuer


async def more_jobs_return(fleet: Fleet, count: int, *, than: int | None = None) -> None:
    before = len(fleet.diary.entries("returned")) if than is None else than
    await wait_until(
        lambda: len(fleet.diary.entries("returned")) >= before + count,
        40,
        f"{count} more jobs are done",
    )


async def finish(fleet: Fleet, app: App, enqueuer: Process) -> None:
    """The load stops; then everything that was enqueued ends."""
    enqueuer.terminate()
    assert await enqueuer.exit_code(within=20) == 0

    async def all_ended() -> bool:
        return await books.live_jobs(app.store) == 0

    await wait_until(all_ended, 20, "the queue drains when the faults stop", look_every=0.1)


async def everything_happened_once(fleet: Fleet, app: App) -> None:
    entries = fleet.diary.entries()
    ids = [entry.job for entry in entries if entry.what == "acknowledged"]
    in_doubt = [entry.job for entry in entries if entry.what == "error"]
    jobs = await books.the_books_balance(app.store, ids, entries, in_doubt)
    runs = Counter(entry.job for entry in entries if entry.what == "started")
    assert runs == dict.fromkeys(jobs, 1), "a job ran more or less than once"
