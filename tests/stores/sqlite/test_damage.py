"""Rows of a SQLite file that something else wrote: SQLite keeps a text also where a number belongs.
A damaged job stops neither its queue nor a list nor a sweep, and doctor shows it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.limits.model import Concurrency
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.health import Finding, Severity
from tests.conformance.builders import FAILED, Scene, ids
from tests.conformance.limiting import through
from tests.support.backends import opened

COLUMNS = {
    "job": ("created_at",),
    "ready": ("attempts", "crashes", "fence", "ready_at"),
    "lease": ("attempts", "crashes", "fence", "claimed_at"),
    "outcome": ("priority", "attempts", "claimed_at", "finished_at", "expires_at"),
}


def in_columns(*tables: str) -> pytest.MarkDecorator:
    places = [(table, column) for table in tables for column in COLUMNS[table]]
    return pytest.mark.parametrize(("table", "column"), places)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def scene(file: Path, clock: ManualClock) -> AsyncIterator[Scene]:
    async with opened(f"sqlite:///{file}", clock) as store:
        yield await Scene.on(store, clock)


def harm(file: Path, table: str, column: str, job: JobId) -> None:
    key = "id" if table == "job" else "job_id"
    harmed = f"update holdfast_{table} set {column} = 'soon' where {key} = ?"
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute(harmed, (job,)).rowcount == 1


async def damaged(scene: Scene) -> Finding:
    [found] = [one for one in await scene.store.health.check() if one.check == "damaged jobs"]
    return found


@in_columns("job", "ready")
async def test_a_claim_of_its_neighbours_leaves_a_damaged_job_in_its_place(
    scene: Scene, file: Path, table: str, column: str
) -> None:
    before, job, behind = [await scene.enqueue() for _ in range(3)]
    harm(file, table, column, job)
    assert ids(await scene.claim(10)) == [before, behind]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("select job_id from holdfast_ready").fetchall() == [(job,)]


@in_columns("job", "ready")
async def test_a_damaged_job_does_not_block_its_queue(
    scene: Scene, file: Path, table: str, column: str
) -> None:
    before, job, behind = [await scene.enqueue() for _ in range(3)]
    assert (await damaged(scene)).severity is Severity.OK
    harm(file, table, column, job)
    assert ids([*await scene.claim(2), *await scene.claim(2)]) == [before, behind]


@in_columns("job", "lease", "outcome")
async def test_a_damaged_job_breaks_no_list_and_doctor_shows_it(
    scene: Scene, file: Path, table: str, column: str
) -> None:
    state = JobState.SUCCEEDED if table == "outcome" else JobState.RUNNING
    job, other = await scene.in_state(state), await scene.in_state(state)
    harm(file, table, column, job)
    jobs = scene.store.jobs
    assert ids((await jobs.page(JobFilter(), 10)).jobs) == [other]
    assert ids(await jobs.get([job, other])) == [other]
    found = await damaged(scene)
    assert found.severity is Severity.PROBLEM
    assert job in found.saw


async def test_a_damaged_happening_is_left_out_of_a_life(scene: Scene, file: Path) -> None:
    for column in ("at", "attempt", "what"):
        job = (await scene.ended(FAILED)).id
        assert len(await scene.store.jobs.life([job])) == len((await scene.job(job)).errors) == 1
        harm(file, "happening", column, job)
        assert await scene.store.jobs.life([job]) == []
        assert (await scene.job(job)).state is JobState.FAILED


async def test_a_ready_job_whose_line_is_gone_is_a_problem_until_it_stands_anew(
    scene: Scene, file: Path
) -> None:
    await scene.store.limits.declare({"tenant": Concurrency(9)})
    others = [await scene.enqueue(), await scene.enqueue(**through("tenant:b"))]
    lost = await scene.enqueue(**through("tenant:a"))
    assert (await lineless(scene)).severity is Severity.OK
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("delete from holdfast_line where buckets = 'tenant:a'")
    found = await lineless(scene)
    assert (found.severity, found.saw) == (Severity.PROBLEM, f"at least 1: {lost}")
    assert sorted(ids(await scene.claim(10))) == others
    await scene.store.jobs.reprioritise([lost], 5)
    assert (await lineless(scene)).severity is Severity.OK
    assert ids(await scene.claim(10)) == [lost]


async def lineless(scene: Scene) -> Finding:
    checks = await scene.store.health.check()
    [found] = [one for one in checks if one.check == "ready jobs without a line"]
    return found
