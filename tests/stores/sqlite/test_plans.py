"""What statements read: as much as they answer, and none of the history."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.insights.overview import OverviewReader
from holdfast.job.ends import Cancelled
from holdfast.job.outcome import decide
from holdfast.job.state import LIVE, JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.sqlite.connection import connect
from holdfast.store.sqlite.filtering import arms_of
from holdfast.store.sqlite.finishing import finish
from holdfast.store.sqlite.inserting import insert
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.places import TABLES
from holdfast.store.sqlite.reading import count, live, page
from holdfast.store.sqlite.schema import migrate
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.sweeping import due, promote_due
from holdfast.store.sqlite.transaction import Transaction
from tests.conformance.builders import FAILED, Scene, new_job
from tests.support.backends import opened


@pytest.fixture
def tx() -> Iterator[Transaction]:
    """A migrated database in memory, past the store's threads."""
    with closing(connect(Location(None))) as connection:
        tx = Transaction(connection.cursor(), 1_000_000)
        migrate(tx, "memory")
        yield tx


def plan(tx: Transaction, sql: str) -> list[str]:
    names = re.findall(r":(\w+)", sql)
    numbers = [int(number) for number in re.findall(r"\?(\d)", sql)]
    values = (None,) * max(numbers, default=sql.count("?"))
    explained = tx.rows(f"explain query plan {sql}", dict.fromkeys(names) if names else values)
    return [step for *_, step in explained]


def test_the_view_of_places_has_every_table_that_a_job_can_be_in(tx: Transaction) -> None:
    [(view,)] = tx.rows("select sql from sqlite_schema where name = 'holdfast_place'")
    assert re.findall(r"from (\w+)", view) == [*TABLES.values(), "holdfast_outcome"]
    assert set(TABLES) == LIVE


def test_the_columns_of_a_key_come_first_where_the_key_is_the_table(tx: Transaction) -> None:
    """SQLite 3.40 takes any other order for damage: `quick_check` says that values are NULL."""
    for (table,) in tx.rows("select name from sqlite_schema where sql like '% without rowid'"):
        columns = tx.rows(f"select name, pk from pragma_table_info('{table}') order by cid")
        key = [
            column for place, column in sorted((place, name) for name, place in columns) if place
        ]
        assert key, table
        assert key == [column for column, _ in columns[: len(key)]], table


BY_ID = {
    "get": lambda: steps("jobs/get")["jobs"],
    "live": lambda: script("jobs/live"),
    "finish": lambda: steps("jobs/finish")["find waiting"],
    "locate one": lambda: steps("parts/locate")["one"],
    "locate many": lambda: steps("parts/locate")["many"],
    "promote": lambda: script("jobs/promote"),
    "resume": lambda: script("jobs/resume"),
    "reschedule": lambda: script("jobs/reschedule"),
    "schedules.unfinished": lambda: script("schedules/unfinished"),
    "schedules.history": lambda: steps("schedules/history")["jobs"],
    "schedules.record": lambda: steps("schedules/record")["tidy"],
    "schedules.prune_ledger": lambda: steps("schedules/prune_ledger")["over"],
}


@pytest.mark.parametrize("statement", BY_ID)
def test_a_statement_that_knows_its_jobs_searches_each_place_by_id(
    tx: Transaction, statement: str
) -> None:
    """SQLite would read all places whole if the arms of the view differed in an affinity."""
    found = plan(tx, BY_ID[statement]())
    for table in (*TABLES.values(), "holdfast_outcome"):
        [step] = [step for step in found if f"{table} " in f"{step} "]
        assert re.fullmatch(rf"SEARCH {table} .*\(job_id=\?\)", step), step


OF_A_RANGE = (
    *("jobs", "two places", "no place", "no body", "damaged", "no job", "stray step"),
    "no line",
)


@pytest.mark.parametrize("check", OF_A_RANGE)
def test_a_check_of_a_range_of_jobs_reads_no_table_whole(tx: Transaction, check: str) -> None:
    assert_reads_a_range(plan(tx, steps("health/check")[check]))


@pytest.mark.parametrize("table", [*TABLES.values(), "holdfast_outcome"])
def test_a_recount_reads_ranges_of_jobs(tx: Transaction, table: str) -> None:
    sql = steps("telemetry/recount")
    live = sql["live"].replace("{{place}}", table)
    assert_reads_a_range(plan(tx, sql["ended"] if table == "holdfast_outcome" else live))


def assert_reads_a_range(found: list[str]) -> None:
    assert {step for step in found if step.startswith("SCAN")} <= {"SCAN holdfast_place", "SCAN r"}
    reads = [step for step in found if step.startswith("SEARCH holdfast_")]
    assert all(re.search(r"\((job_)?id>\? AND (job_)?id<\?\)", step) for step in reads), reads


ENDED_BADLY = frozenset({JobState.FAILED})


@pytest.mark.parametrize("which", [JobFilter(), JobFilter(states=LIVE | ENDED_BADLY)])
def test_a_page_is_read_in_order_and_not_sorted(tx: Transaction, which: JobFilter) -> None:
    found = plan(tx, script("jobs/page").replace("{{walk}}", arms_of(which)))
    assert any("MERGE" in step for step in found)
    assert not any("TEMP B-TREE" in step or step.startswith("SCAN holdfast") for step in found)


def test_only_the_places_of_wanted_states_are_walked(tx: Transaction) -> None:
    """And failed jobs are walked past the successes."""
    for states, walked in (
        ({JobState.SCHEDULED, JobState.BLOCKED}, ["holdfast_scheduled", "holdfast_blocked"]),
        ({JobState.SUCCEEDED, JobState.FAILED}, ["holdfast_outcome"]),
        (ENDED_BADLY, ["holdfast_outcome_unhappy"]),
    ):
        arms = arms_of(JobFilter(states=frozenset(states)))
        found = plan(tx, f"{arms} order by job_id desc")
        searches = [step for step in found if step.startswith("SEARCH")]
        assert len(searches) == len(walked)
        assert all(name in step for name, step in zip(walked, searches, strict=True))


def test_dead_jobs_of_one_fingerprint_are_a_range_of_an_index(tx: Transaction) -> None:
    arms = arms_of(JobFilter(fingerprint="0" * 16))
    [step] = plan(tx, f"{arms} order by job_id desc")
    assert re.match(r"SEARCH .* USING INDEX holdfast_outcome_fingerprint", step), step
    assert "fingerprint=? AND state=? AND job_id<?" in step


def test_the_dead_jobs_of_a_cause_are_counted_in_an_index_alone(tx: Transaction) -> None:
    found = plan(tx, script("failures/find"))
    [step] = [step for step in found if "holdfast_outcome" in step]
    assert "USING COVERING INDEX holdfast_outcome_fingerprint" in step


def test_a_walk_ends_when_it_has_found_as_many_as_the_tallies_say(tx: Transaction) -> None:
    insert(tx, [new_job() for _ in range(30)])
    insert(tx, [new_job(queue="mail") for _ in range(2)])
    tx.close()
    found = page(tx, JobFilter(queues=("mail",)), 10)
    assert (len(found.jobs), found.looked_at, found.next_cursor) == (2, 2, None)


READ_ALL_DAY: dict[str, Callable[[Transaction], object]] = {
    "count": lambda tx: count(tx, JobFilter(states=frozenset({JobState.RUNNING, JobState.READY}))),
    "page": lambda tx: page(tx, JobFilter(states=frozenset({JobState.READY})), 50, None),
    "promote_due": lambda tx: promote_due(tx, 100),
    "due": lambda tx: due(tx, 100, None),
}


@pytest.mark.parametrize("read", READ_ALL_DAY)
def test_live_jobs_are_found_without_reading_the_history(tx: Transaction, read: str) -> None:
    connection = tx._cursor.connection  # type: ignore[attr-defined]
    ticks: list[int] = []
    effort: list[int] = []
    for _ in range(2):
        connection.set_progress_handler(lambda: ticks.append(1), 50)
        READ_ALL_DAY[read](tx)
        connection.set_progress_handler(None, 0)
        effort.append(len(ticks))
        ticks.clear()
        insert(tx, [new_job() for _ in range(2_000)])
        finish(tx, [decide(job, Cancelled()) for job in live(tx, ids_ready(tx))])
    assert effort[1] < effort[0] + 10


def ids_ready(tx: Transaction) -> list[str]:
    return [job_id for (job_id,) in tx.rows("select job_id from holdfast_ready")]


async def test_no_statement_of_an_overview_walks_over_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases are as many as there are slots; every other table of jobs is entered by an index."""
    sent: list[tuple[str, Any]] = []
    rows = Transaction.rows

    def noting(self: Transaction, sql: str, values: Any = ()) -> Any:
        sent.append((sql, values))
        return rows(self, sql, values)

    async with opened(f"sqlite:///{tmp_path / 'jobs.db'}") as store:
        scene = await Scene.on(store, ManualClock())
        await scene.ended(FAILED)
        reader = OverviewReader(store)
        await reader.read()
        monkeypatch.setattr(Transaction, "rows", noting)
        await reader.read()
        monkeypatch.undo()
    assert len(sent) <= 12
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        for sql, values in sent:
            explained = connection.execute(f"explain query plan {sql}", values)
            walked = {step for *_, step in explained if step.startswith("SCAN holdfast_")}
            tables = {step.split()[1] for step in walked} & {*TABLES.values(), *ENDED_TABLES}
            assert tables <= {"holdfast_lease"}, (sql, walked)


ENDED_TABLES = {"holdfast_job", "holdfast_outcome", "holdfast_happening"}
