"""The plans of the hot statements, as a prepared statement gets them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from math import inf
from typing import Any

import asyncpg
import pytest

from holdfast.insights.overview import OverviewReader
from holdfast.job.ids import new_worker_id
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.reading import WalkBound
from holdfast.store.contract.records import Want
from holdfast.store.postgres import reading
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.filtering import json_test, parameters, reads_a_range
from holdfast.store.postgres.scripts import load_scripts
from holdfast.store.postgres.skip_points import HIGHEST, LOWEST
from tests.conformance.builders import FAILED, RETURNED, new_job
from tests.stores.postgres.shared import claim, connected, hired, opened
from tests.support.backends import PostgresDatabase


async def generic_plan(
    connection: asyncpg.Connection[asyncpg.Record], verb: str, types: str, values: str
) -> str:
    """The plan that a cached statement would keep, whatever its parameters."""
    script = load_scripts("holdfast")[verb]
    await connection.execute("set plan_cache_mode = force_generic_plan; set jit = off")
    await connection.execute(f"prepare looked_at ({types}) as {script}")
    rows = await connection.fetch(f"explain execute looked_at ({values})")
    return "\n".join(row[0] for row in rows)


async def test_the_generic_plan_of_a_claim_walks_the_line_without_statistics(url: str) -> None:
    async with connected(url) as connection, opened(url) as store:
        await connection.execute(
            "insert into holdfast.job (id, task, args, policy)"
            " select gen_random_uuid(), 'greet', '[]', '{}' from generate_series(1, 100000)"
        )
        await connection.execute(
            "insert into holdfast.ready (job_id, queue, priority, task)"
            " select id, 'default', 0, 'greet' from holdfast.job"
        )
        plan = await generic_plan(
            connection,
            "jobs/claim",
            "timestamptz, uuid, text[], bigint, text[], int[], text[], int[], bigint[], int[]"
            ", int[], boolean",
            f"null, '{new_worker_id()}', '{{greet}}', 1, '{{default}}', '{{200}}', '{{default}}',"
            f" '{{{LOWEST}}}', '{{0}}', '{{{HIGHEST}}}', '{{50}}', false",
        )
        assert "Index Scan using ready_line on ready" in plan
        assert "Tid Scan on ready" in plan
        assert "Index Scan using job_pkey on job" in plan
        assert not re.search(r"Seq Scan on (ready|job|lease)", plan)
        assert not re.search(r"Hash Join|Sort Key: ready", plan)
        assert len(await claim(store, await hired(store), 200)) == 200


async def test_the_generic_plan_of_a_finish_looks_leases_up_by_key(url: str) -> None:
    async with connected(url) as connection:
        plan = await generic_plan(
            connection,
            "jobs/finish_succeeded",
            "timestamptz, uuid[], bigint[], text[], float8[], text",
            "null, '{}', '{}', '{}', '{}', '100ms'",
        )
    assert re.search(r"Index Scan (using|on) lease_pkey", plan)
    assert "Seq Scan on lease" not in plan
    assert "Nested Loop" not in plan


async def test_a_series_reads_the_points_that_it_answers_and_no_others(url: str) -> None:
    """A year of hours of 50 queues: those of one queue are a range of the key, those of all queues
    within an hour a range of the other index."""
    async with connected(url) as connection:
        await connection.execute(
            "insert into holdfast.series (step, queue, task, at, grain, counts, times)"
            " select 3600, 'q' || queue, '', '2030-01-01'::timestamptz + hour * interval '1 hour',"
            " 'queue', '{}', ''"
            " from generate_series(1, 50) as queue, generate_series(1, 2000) as hour"
        )
        types = "int, timestamptz, timestamptz, text, text[], text[], text[], text[]"
        span = "3600, '2030-02-01', '2030-02-02', 'queue'"
        await generic_plan(connection, "telemetry/series", types, f"{span}{', null' * 4}")
        for names, points in (
            ("'{q7}', null, '{q7}', '{\"\"}'", 24),
            ("null, null, null, null", 1200),
        ):
            [(plan,)] = await connection.fetch(
                f"explain (analyze, format json) execute looked_at ({span}, {names})"
            )
            read = rows_read(json.loads(plan)[0]["Plan"], ["series"])
            assert sum(rows for _, rows in read) == points


@pytest.fixture(scope="module")
def history(database: PostgresDatabase) -> str:
    """A database of its own with 50,000 outcomes, for tests that only read. No row was ever removed
    from it, so an index leads to no row that is gone."""
    url = asyncio.run(database.own())
    asyncio.run(fill_with_outcomes(url))
    return url


async def fill_with_outcomes(url: str) -> None:
    ordered = "('01a00000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid"
    async with connected(url) as connection:
        await connection.execute(
            "insert into holdfast.outcome (job_id, state, queue, priority, task, attempts, crashes,"
            f" fence, finished_at, expires_at, fingerprint) select {ordered},"
            " case when n % 10 = 0 then 'failed' else 'succeeded' end, 'default', 0, 'greet', 1,"
            " 0, 1, now(), now(), case when n % 10 = 0 then lpad((n / 10 % 500)::text, 16, '0') end"
            " from generate_series(1, 50000) as n"
        )
        await connection.execute(
            "insert into holdfast.job (id, task, args, policy)"
            f" select {ordered}, 'greet', '{{}}', '' from generate_series(1, 50000) as n"
        )
        await connection.execute("analyze holdfast.outcome; analyze holdfast.job")


async def page_plan(url: str, which: JobFilter, look: int) -> str:
    """How a step of a walk over the history is made."""
    script = load_scripts("holdfast")["jobs/page"]
    async with connected(url) as connection:
        await connection.execute("set plan_cache_mode = force_custom_plan; set jit = off")
        looks = (json_test(which) is not None, None, look, 51, reads_a_range(which))
        values = (*parameters(which), *looks)
        rows = await connection.fetch(f"explain (analyze) {script}", *values)
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("state", [None, JobState.SUCCEEDED, JobState.FAILED, JobState.READY])
async def test_a_page_reads_no_more_of_the_history_than_it_looks_at(
    history: str, state: JobState | None
) -> None:
    which = JobFilter(states=frozenset({state} if state else ()))
    plan = await page_plan(history, which, 1_000)
    assert "Seq Scan" not in plan
    removed = re.findall(r"Rows Removed by Filter: (\d+)", plan)
    assert max(map(int, removed), default=0) <= 1_000
    if state is JobState.FAILED:
        assert "outcome_unhappy" in plan


@pytest.mark.parametrize(
    "which",
    [
        JobFilter(tags=("nobody",)),
        JobFilter(args={"customer": 42}),
        JobFilter(schedule="nightly"),
        JobFilter(error_text="timed out"),
        JobFilter(created_before=datetime(2020, 1, 1, tzinfo=UTC)),
        JobFilter(finished_before=datetime(2020, 1, 1, tzinfo=UTC)),
    ],
)
async def test_a_filter_that_matches_nothing_reads_only_what_it_looks_at(
    history: str, which: JobFilter
) -> None:
    """The planner must not read a whole table to know which of its rows exist."""
    plan = await page_plan(history, which, 20_000)
    assert not re.search(r"Seq Scan on (job|outcome|happening)", plan), plan
    assert max(map(int, re.findall(r"rows=(\d+)(?:\.\d+)? loops=1\)", plan))) <= 20_000


@pytest.mark.parametrize("asked", [{"tags": ("nobody",)}, {"args": {"customer": 42}}])
async def test_the_bodies_of_a_step_are_read_as_a_range_if_it_walks_every_place(
    history: str, asked: dict[str, Any]
) -> None:
    """Between two failed jobs there may be any number of others: their bodies are looked up."""
    plan = await page_plan(history, JobFilter(**asked), 1_000)
    assert re.search(r"job_pkey.*\n +Index Cond: \(\(id >= .* AND \(id <= ", plan), plan
    assert "loops=1000" not in plan
    assert "hashed SubPlan" in plan
    failed = JobFilter(states=frozenset({JobState.FAILED}), **asked)
    plan = await page_plan(history, failed, 1_000)
    assert re.search(r"Index Scan using job_pkey on job .*loops=1000\)", plan), plan
    assert "Index Cond: ((id >=" not in plan


async def test_a_step_gives_python_a_bounded_number_of_bodies(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every body has the piece that is searched for, one in three has it as its customer."""
    monkeypatch.setattr(reading, "BODIES", 7)
    given: list[int] = []
    fetch = Session.fetch

    async def noting(self: Session, verb: str, *values: object) -> list[Any]:
        found = list(await fetch(self, verb, *values))
        given.append(sum(row["args"] is not None for row in found) if verb == "jobs/page" else 0)
        return found

    async with opened(url) as store:
        texts = ['{"customer":"ada"}', '{"friend":"ada"}', '["ada"]']
        jobs = [new_job(args=texts[n % 3]) for n in range(30)]
        await store.jobs.insert(jobs)
        monkeypatch.setattr(Session, "fetch", noting)
        ada = JobFilter(args={"customer": "ada"})
        found = await store.jobs.page(ada, 100, look=WalkBound(seconds=inf))
        assert sorted(job.id for job in found.jobs) == sorted(job.id for job in jobs[::3])
        assert (found.looked_at, found.next_cursor) == (30, None)
        assert max(given) == 7
        monkeypatch.setattr(reading, "BODIES_OF_A_PAGE", 10)
        part = await store.jobs.page(ada, 100, look=WalkBound(seconds=inf))
        assert (part.looked_at, part.complete) == (14, False)
        rest = await store.jobs.page(ada, 100, part.next_cursor)
        assert (rest.looked_at, rest.complete) == (14, False)
        assert [*part.jobs, *rest.jobs] == list(found.jobs[: len(part.jobs) + len(rest.jobs)])
        assert sum((await store.jobs.count(ada)).values()) == 10


async def test_dead_jobs_of_one_fingerprint_are_a_range_of_an_index(history: str) -> None:
    plan = await page_plan(history, JobFilter(fingerprint=f"{7:016}"), 1_000)
    assert "outcome_fingerprint" in plan
    assert "Seq Scan" not in plan
    assert max(map(int, re.findall(r"rows=(\d+)(?:\.\d+)? loops=1\)", plan))) == 10


async def test_a_walk_ends_when_it_has_found_as_many_as_the_tallies_say(url: str) -> None:
    async with opened(url) as store:
        await store.jobs.insert([new_job() for _ in range(30)])
        await store.jobs.insert([new_job(queue="mail") for _ in range(2)])
        found = await store.jobs.page(JobFilter(queues=("mail",)), 10)
    assert (len(found.jobs), found.looked_at, found.next_cursor) == (2, 2, None)


async def test_a_deep_check_reads_the_jobs_of_a_range_and_no_others(history: str) -> None:
    script = load_scripts("holdfast")["health/check_places"]
    bounds = [f"01a00000-0000-7000-8000-{n:012}" for n in (20_000, 21_000)]
    async with connected(history) as connection:
        await connection.execute("set plan_cache_mode = force_generic_plan; set jit = off")
        found = await connection.fetchval(f"explain (analyze, format json) {script}", *bounds)
    assert "Nested Loop" not in found
    [plan] = json.loads(found)
    assert dict(rows_read(plan["Plan"], [*JOB_TABLES, "lease"]))
    assert max(rows for _, rows in rows_read(plan["Plan"], [*JOB_TABLES, "lease"])) == 1_000


JOB_TABLES = {
    *("job", "ready_plain", "ready_limited", "scheduled", "suspended", "blocked"),
    *("outcome", "happening"),
}
"""Tables that grow with jobs. Leases are as many as there are slots."""


async def test_an_overview_is_six_statements_and_none_walks_over_jobs(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5,000 jobs wait and 5,000 have ended; a statement looks at less than 1,000 of them."""
    sent: list[tuple[str, tuple[object, ...]]] = []
    fetch = asyncpg.Connection.fetch

    def noting(self: asyncpg.Connection[Any], script: str, *values: object) -> Any:
        sent.append((script, values))
        return fetch(self, script, *values)

    async with opened(url) as store, connected(url) as connection:
        worker = await hired(store)
        for task in range(50):
            jobs = [new_job(f"task{task}", queue=f"q{task % 5}") for _ in range(200)]
            await store.jobs.insert(jobs)
        wants = [Want(f"q{queue}", 1_000) for queue in range(5)]
        claimed = await store.jobs.claim(worker, wants, [f"task{n}" for n in range(50)])
        assert len(claimed) == 5_000
        ends = [decide(job, RETURNED if n % 10 else FAILED) for n, job in enumerate(claimed)]
        await store.jobs.finish(ends)
        await connection.execute("analyze")
        reader = OverviewReader(store)
        await reader.read()
        monkeypatch.setattr(asyncpg.Connection, "fetch", noting)
        await reader.read()
        monkeypatch.undo()
        assert len(sent) == 6, [script for script, _ in sent]
        for script, values in sent:
            explained = f"explain (analyze, format json) {script}"
            [plan] = json.loads(await connection.fetchval(explained, *values))
            looked = dict(rows_read(plan["Plan"]))
            assert not {name for name in looked if looked[name] > 1_000}, (script, looked)


def rows_read(
    node: dict[str, Any], tables: Collection[str] = JOB_TABLES
) -> Iterator[tuple[str, float]]:
    """How many rows each scan of one of these tables has looked at."""
    if node.get("Relation Name") in tables:
        looked = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield f"{node['Node Type']} on {node['Relation Name']}", looked * node["Actual Loops"]
    for part in node.get("Plans", ()):
        yield from rows_read(part, tables)


FLOW = "01a00000-0000-7000-8000-000000000001"


LOOKS_AT_FLOWS = {
    "flows/inputs": ("uuid[]", "'{}'"),
    "flows/facts": ("text", "''"),
    "flows/nodes": ("uuid, int, text", f"'{FLOW}', 100, ''"),
    "flows/gates": ("uuid, uuid[]", f"'{FLOW}', '{{}}'"),
    "flows/left_over": ("uuid[]", "'{}'"),
    "flows/ended_among": ("uuid[]", "'{}'"),
    "flows/targets": ("uuid, uuid[]", f"'{FLOW}', '{{}}'"),
    "flows/over": ("timestamptz, int", "null, 10"),
    "flows/get": ("uuid[]", "'{}'"),
}


async def test_the_generic_plans_of_looks_at_flows_go_by_key(url: str) -> None:
    whole = re.compile(r"Seq Scan on (flow|node|gate|outcome|job|blocked)")
    async with connected(url) as connection:
        await fill_with_flows(connection)
        for verb, (types, values) in LOOKS_AT_FLOWS.items():
            plan = await generic_plan(connection, verb, types, values)
            assert not whole.search(plan), plan
            await connection.execute("deallocate looked_at")


async def test_a_page_of_live_flows_does_not_pass_over_the_ended_ones(url: str) -> None:
    script = load_scripts("holdfast")["flows/page"]
    async with connected(url) as connection:
        await fill_with_flows(connection)
        await connection.execute("analyze holdfast.flow")
        found = await connection.fetch(
            f"explain (analyze) {script}",
            *(None, ["running"], None, None, None, None, None, 51, True, False),
        )
    plan = "\n".join(row[0] for row in found)
    assert "flow_live" in plan
    assert max(map(int, re.findall(r"rows=(\d+)(?:\.\d+)? loops=1\)", plan))) <= 100, plan


async def fill_with_flows(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """20,000 flows of one node, of which only the oldest 100 are live."""
    ordered = "('01a00000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid"
    await connection.execute(
        "insert into holdfast.flow"
        " (id, name, state, total, open, keep, created_at, finished_at, expires_at)"
        f" select {ordered}, 'trip', case when n > 100 then 'succeeded' else 'running' end, 1, 1,"
        " '{}', now(), case when n > 100 then now() end, case when n > 100 then now() end"
        " from generate_series(1, 20000) as n;"
        "insert into holdfast.node (job_id, flow_id, name, is_sink, behind, wants)"
        " select id, id, 'only', true, array[id], array[1] from holdfast.flow;"
        "insert into holdfast.outcome (job_id, state, queue, priority, task, attempts, crashes,"
        " fence, finished_at) select id, 'succeeded', 'default', 0, 'greet', 1, 0, 1, now()"
        " from holdfast.flow where finished_at is not null;"
        "insert into holdfast.gate (job_id, n, flow_id, need, total, losers)"
        " select id, 0, id, 1, 1, 'let_run' from holdfast.flow;"
        "insert into holdfast.blocked (job_id, queue, priority, task)"
        " select id, 'default', 0, 'greet' from holdfast.flow; analyze"
    )
