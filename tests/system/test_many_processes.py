"""Eight processes on one SQLite file: they wait for each other, and nobody hears of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.app import App
from tests.support import books, program
from tests.support.processes import Fleet
from tests.support.waiting import wait_until

WORKERS = ENQUEUERS = 4
EACH = 300


@pytest.fixture
def shared_url(tmp_path: Path) -> str:
    """One file, not migrated: the eight are also the first to open it, all at once."""
    return f"sqlite:///{tmp_path / 'jobs.db'}"


async def test_eight_sqlite_processes_on_one_file_never_surface_a_lock(fleet: Fleet) -> None:
    enqueuers = [
        fleet.start("enqueuer", count=EACH, together=5, milliseconds=1) for _ in range(ENQUEUERS)
    ]
    workers = [fleet.worker(4, lease=30) for _ in range(WORKERS)]
    for enqueuer in enqueuers:
        assert await enqueuer.exit_code(within=60) == 0, fleet.logs()
    ids = [entry.job for entry in fleet.diary.entries("acknowledged")]
    assert len(ids) == ENQUEUERS * EACH

    await wait_until(lambda: len(fleet.diary.entries("finish")) >= len(ids), 60, "all jobs end")
    assert fleet.diary.entries("error", "event") == []
    assert all(worker.alive for worker in workers)
    assert not [each for each in fleet.processes if "locked" in each.log.read_text()]
    assert len({entry.pid for entry in fleet.diary.entries("started")}) == WORKERS

    async with opened(fleet) as app:
        await books.the_books_balance(app.store, ids, fleet.diary.entries())
    ended = books.line_3_the_move_to_an_end_is_the_last(fleet.diary.entries())
    assert len(ended) == len(ids), "each job has exactly one accepted end"


@asynccontextmanager
async def opened(fleet: Fleet) -> AsyncIterator[App]:
    with program.app.using_store(fleet.url):
        async with program.app as app:
            yield app
