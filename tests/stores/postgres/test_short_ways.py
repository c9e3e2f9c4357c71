"""The shorter ways leave exactly what the general way would.

    insert_one         a single plain job
    COPY               many jobs without ties, keys and blocks; many nodes without keys
    finish_succeeded   plain successes
    succeed_nodes      successes of nodes
    limits/take        takes from rates with room

What a way leaves is every row that names the job, in whatever table, its wakeups and its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from holdfast.clock import ManualClock
from holdfast.flow.model import FlowId, NewFlow
from holdfast.job.ends import End, Returned
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.policy import Policy, Retention
from holdfast.job.record import Claimed, NewJob
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from holdfast.job.transition import Transition
from holdfast.job.unique import Unique
from holdfast.limits.model import Concurrency, Rate
from holdfast.store.contract.limits import Take, Taken
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.records import Verdict, Want
from holdfast.store.postgres import taking
from holdfast.store.postgres.batch import columns
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.copying import COPY_FROM_JOBS, can_copy, can_copy_nodes
from holdfast.store.postgres.finishing import PostgresFinishing
from holdfast.store.postgres.finishing_steps import Asked, Moved
from holdfast.store.postgres.flows import _bites
from holdfast.store.postgres.limits import PostgresLimits
from holdfast.store.postgres.store import PostgresStore
from tests.conformance.builders import FAILED, QUEUE, RAISED, RETURNED, TASK, Scene, new_job
from tests.conformance.limiting import at_cost, through
from tests.stores.postgres.shared import connected, hired, opened
from tests.support.flows import Trip, Waits, any_of, failed, new_flow

PLAIN: tuple[dict[str, Any], ...] = (
    {},
    {"tags": ("a", "", 'b"c\\', "ü,{}", "NULL")},
    {"headers": '{"trace":"\\u0000 ü"}'},
    {"args": '["' + "ß" * 5000 + '"]'},
    {"priority": -(2**31), "queue": "mail"},
    {"policy": Policy(timeout=1.5)},
)
TIMED: tuple[dict[str, Any], ...] = (
    {"priority": 2**31 - 1, "run_at": datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=UTC)},
    {"run_at": datetime(2101, 2, 3, 4, 5, 6, 789, tzinfo=timezone(timedelta(hours=5)))},
    {"delay": 0.25, "deadline_in": 86_400.5},
    {"deadline_at": datetime(1999, 12, 31, tzinfo=UTC)},
)
ITS_OWN = ("id", "job_id", "seq", "n", "flow_id", "behind")
"""The columns that no two jobs share."""


async def rows(url: str, *jobs: JobId) -> list[dict[str, Any]]:
    """Every row that names the job, by table. A new table needs no change here."""
    held: dict[JobId, dict[str, Any]] = {job: {} for job in jobs}
    async with connected(url) as connection:
        tables = await connection.fetch(
            "select table_name, column_name from information_schema.columns"
            " join information_schema.tables using (table_schema, table_name)"
            " where table_schema = 'holdfast' and table_type = 'BASE TABLE'"
            " and (column_name = 'job_id' or (table_name, column_name) = ('job', 'id'))"
        )
        for table, key in tables:
            for job, row in await connection.fetch(
                f"select {key}::text, (to_jsonb(found) - $2::text[])::text"
                f" from holdfast.{table} as found where {key} = any ($1)",
                jobs,
                ITS_OWN,
            ):
                held[job].setdefault(table, []).append(row)
    assert all("job" in each and len(each) > 1 for each in held.values())
    return [held[job] for job in jobs]


def equal(found: list[dict[str, Any]]) -> bool:
    one, other = found
    return one == other


async def insert_generally(store: PostgresStore, jobs: Sequence[NewJob]) -> None:
    """Insert jobs by the general statement, whatever they are."""
    channel = store._connections.options.channel

    async def steps(session: Session) -> None:
        await session.timed("jobs/insert", channel, *columns(jobs))

    await store._connections.run(steps)


@pytest.mark.parametrize("options", PLAIN)
async def test_a_single_plain_job_is_written_as_any_other(
    url: str, clock: ManualClock, options: dict[str, Any]
) -> None:
    one, other = new_job(**options), new_job(**options)
    assert one.is_plain
    async with opened(url, clock=clock) as store, connected(url) as ear:
        heard = await listening(store, ear)
        await store.jobs.insert([one])
        await insert_generally(store, [other])
        assert equal(await rows(url, one.id, other.id))
        await ear.execute("select 1")
        assert len(heard) == 2
        assert heard[0] == heard[1]


async def listening(store: PostgresStore, ear: Any) -> list[tuple[str, str]]:
    """The channel and payload of every message from now on."""
    heard: list[tuple[str, str]] = []

    def hear(_connection: Any, _pid: int, channel: str, payload: Any) -> None:
        heard.append((channel, str(payload)))

    for name in (store._connections.options.channel, f"{store._connections.options.channel}_few"):
        await ear.add_listener(name, hear)
    return heard


async def test_a_copied_job_is_written_as_any_other(url: str, clock: ManualClock) -> None:
    every = PLAIN + TIMED
    async with opened(url, clock=clock) as store:
        copied = [new_job(**options) for options in every * COPY_FROM_JOBS]
        assert can_copy(copied)
        await store.jobs.insert(copied)
        generally = [new_job(**options) for options in every]
        await insert_generally(store, generally)
        expected = await rows(url, *(job.id for job in generally))
        assert await rows(url, *(job.id for job in copied)) == expected * COPY_FROM_JOBS


async def test_a_copied_job_with_limits_is_written_as_any_other(
    url: str, clock: ManualClock
) -> None:
    options = at_cost({"tenant:a": 2, "host:": 1})
    jobs = [new_job(**options) for _ in range(COPY_FROM_JOBS)]
    later = [new_job(delay=60.0, **options)]
    assert can_copy([*jobs, *later])
    async with opened(url, clock=clock) as store:
        await store.limits.declare({"tenant": Concurrency(400), "host": Concurrency(400)})
        await store.jobs.insert([*jobs, *later])
        alone = [new_job(**options), new_job(delay=60.0, **options)]
        for job in alone:
            await store.jobs.insert([job])
        assert equal(await rows(url, jobs[0].id, alone[0].id))
        assert equal(await rows(url, later[0].id, alone[1].id))
        passed = await store.limits.of([job.id for job in (*jobs, *later, *alone)])
        assert len(passed) == len(jobs) + 3
        assert len(set(passed.values())) == 1
        claimed = await store.jobs.claim(await hired(store), [Want(QUEUE, 500)], [TASK])
        assert len(claimed) == len(jobs) + 1
        assert (await store.limits.recount(10)).wrong == ()


@pytest.mark.parametrize(
    "options", [{"ties": int(Tie.WATCHED)}, {"blocked": True}, {"unique": Unique("one of them")}]
)
async def test_one_job_that_is_more_than_a_job_keeps_a_batch_from_being_copied(
    options: dict[str, Any],
) -> None:
    assert not new_job(**options).is_plain
    assert not can_copy([new_job() for _ in range(COPY_FROM_JOBS)] + [new_job(**options)])


GRAPH: dict[str, Waits] = {
    "a": [],
    "b": [],
    "later": [],
    "c": ["a", "b"],
    "d": [any_of("a", "b", cancel=True), failed("c")],
    "e": ["c", "d"],
}


def a_flow() -> NewFlow:
    flow = new_flow(
        GRAPH,
        delays={"e": 30.5},
        node_options={"b": {"deadline_in": 60.0}, "c": PLAIN[1], "later": {"delay": 9.5}},
    )
    last = msgspec.structs.replace(flow.nodes[-1], inputs='[{"a":"ü"}]')
    return msgspec.structs.replace(flow, nodes=(*flow.nodes[:-1], last))


async def graph_of(url: str, flow: NewFlow) -> tuple[Any, ...]:
    """All that is written of a flow."""
    ids = {node.job.id: node.name for node in flow.nodes}
    async with connected(url) as connection:
        edges = await connection.fetch(
            "select job_id::text, unnest(behind)::text, unnest(wants) from holdfast.node"
            " where job_id = any ($1)",
            [*ids],
        )
        graphs = await connection.fetch(
            "select n, graph from holdfast.flow_graph where flow_id = $1", flow.id
        )
    assert [(1, flow.graph)] == [tuple(row) for row in graphs]
    named = sorted((ids[up], ids[down], wants) for up, down, wants in edges)
    return named, await rows(url, *ids)


async def test_copied_nodes_are_written_as_any_other(
    url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, other = [a_flow() for _ in range(200)], a_flow()
    assert can_copy_nodes([node.job for flow in copied for node in flow.nodes])
    assert len(_bites(copied)) > 1
    async with opened(url, clock=clock) as store:
        started = await store.flows.start(copied)
        assert [one.how for one in started] == ["created"] * len(copied)
        assert [one.id for one in started] == [flow.id for flow in copied]
        first = {total: total.jobs for total in await store.telemetry.totals()}
        assert await store.telemetry.recount() == []
        monkeypatch.setattr(Connections, "may_copy", False)
        await store.flows.start([other])
        expected = await graph_of(url, other)
        assert await graph_of(url, copied[0]) == expected
        assert await graph_of(url, copied[-1]) == expected
        both = sum(total.jobs for total in await store.telemetry.totals())
        assert both * len(copied) == sum(first.values()) * (len(copied) + 1)
        again = await store.flows.start(copied)
        assert [one.how for one in again] == ["created"] * len(copied)
        assert (await store.flows.get([copied[0].id]))[0].total == len(GRAPH)


async def finish_generally(store: PostgresStore, move: Transition) -> list[Verdict]:
    """Make a move by the general statement, whatever it is."""
    assert isinstance(store.jobs, PostgresFinishing)
    jobs, moved = store.jobs, Moved()
    asked = Asked([], [], [], [move], None)
    await store._connections.run(lambda session: jobs._move(session, asked, moved))
    return list(moved.verdicts.values())


async def two_running(store: PostgresStore, **options: Any) -> tuple[Claimed, Claimed]:
    """Two jobs of one claim, which therefore share a time."""
    worker = await hired(store)
    await store.jobs.insert([new_job(**options), new_job(**options)])
    one, other = await store.jobs.claim(worker, [Want(QUEUE, 2)], [TASK])
    return one, other


@pytest.mark.parametrize("result", [None, '{"ü": [1, 2]}'])
@pytest.mark.parametrize("settings", [None, QueueSettings(retain_succeeded=5.0)])
@pytest.mark.parametrize(
    "policy", [Policy(), Policy(timeout=9.0, retention=Retention(succeeded=77.0))]
)
async def test_a_plain_success_is_written_as_any_other_end(
    url: str,
    clock: ManualClock,
    result: str | None,
    settings: QueueSettings | None,
    policy: Policy,
) -> None:
    async with opened(url, clock=clock) as store:
        if settings is not None:
            await store.queues.tune(QUEUE, settings)
        one, other = await two_running(store, policy=policy, tags=("a",), deadline_in=600.0)
        clock.advance(3)
        plain, general = (decide(job, Returned(result)) for job in (one, other))
        assert plain.is_plain_success
        [short] = await store.jobs.finish([plain])
        [long] = await finish_generally(store, general)
        assert (short.accepted, short.state, short.fence) == (True, long.state, long.fence)
        assert equal(await rows(url, one.id, other.id))


async def test_a_plain_success_stands_though_a_cancel_was_asked_for(
    url: str, clock: ManualClock
) -> None:
    async with opened(url, clock=clock) as store:
        one, other = await two_running(store)
        await store.jobs.request_cancel([one.id, other.id])
        await store.jobs.finish([decide(one, RETURNED)])
        [long] = await finish_generally(store, decide(other, RETURNED))
        assert long.state is JobState.SUCCEEDED
        assert equal(await rows(url, one.id, other.id))


async def test_both_ways_refuse_an_old_fence_and_change_nothing(
    url: str, clock: ManualClock
) -> None:
    async with opened(url, clock=clock) as store:
        one, other = await two_running(store)
        before = await rows(url, one.id, other.id)
        old, older = (
            Transition(job.id, job.fence - 1, JobState.SUCCEEDED, spend=1) for job in (one, other)
        )
        assert old.is_plain_success
        [short] = await store.jobs.finish([old])
        assert (short.accepted, short.state, short.fence) == (False, JobState.RUNNING, one.fence)
        assert await finish_generally(store, older) == []
        assert await rows(url, one.id, other.id) == before


async def test_a_success_with_permits_is_written_and_gives_back_as_any_other_end(
    url: str, clock: ManualClock
) -> None:
    async with opened(url, clock=clock) as store:
        await store.limits.declare({"tenant": Concurrency(5)})
        short, general = await two_running(store, **through("tenant:a"))
        move = decide(short, Returned('"done"'))
        assert move.is_plain_success_with_permits
        assert await store.jobs.finish([move]) == [
            Verdict(short.id, True, JobState.SUCCEEDED, short.fence)
        ]
        [bucket] = await store.limits.get(["tenant:a"])
        assert bucket.in_use == 1
        await finish_generally(store, decide(general, Returned('"done"')))
        [bucket] = await store.limits.get(["tenant:a"])
        assert bucket.in_use == 0
        assert equal(await rows(url, short.id, general.id))


async def test_a_batch_of_many_kinds_of_ends_gives_everything_back(url: str) -> None:
    async with opened(url) as store:
        await store.limits.declare({"tenant": Concurrency(9)})
        worker = await hired(store)
        await store.jobs.insert([new_job(**through("tenant:a")) for _ in range(4)])
        await store.jobs.insert([new_job()])
        jobs = await store.jobs.claim(worker, [Want(QUEUE, 9)], [TASK])
        ends: list[End] = [RETURNED, RAISED, RETURNED, FAILED, RETURNED]
        verdicts = await store.jobs.finish(
            [decide(job, end) for job, end in zip(jobs, ends, strict=True)]
        )
        assert [verdict.accepted for verdict in verdicts] == [True] * 5
        [bucket] = await store.limits.get(["tenant:a"])
        assert bucket.in_use == 0
        assert (await store.limits.recount(10)).wrong == ()


async def test_a_success_of_a_node_is_written_as_any_other_end(
    url: str, clock: ManualClock
) -> None:
    graph: dict[str, Waits] = {
        "a": [],
        "b": ["a"],
        "c": ["a", "b"],
        "later": ["a"],
        "lost": failed("a"),
        "either": any_of("a", "b", cancel=True),
    }
    async with opened(url, clock=clock) as store, connected(url) as ear:
        heard = await listening(store, ear)
        await store.queues.tune(QUEUE, QueueSettings(retain_succeeded=5.0))
        scene = await Scene.on(store, clock)
        trips = [await Trip.begin(scene, graph, delays={"later": 9.0}) for _ in range(2)]
        await trips[0].claim()
        await store.jobs.request_cancel([trips[0].ids["a"], trips[1].ids["a"]])
        clock.advance(3)
        short, long = await store.jobs.live([trip.ids["a"] for trip in trips])
        await ear.execute("select 1")
        heard.clear()
        assert decide(short, Returned("7")).is_plain_success_of_node
        [one] = await store.jobs.finish([decide(short, Returned("7"))])
        [other] = await end_node_generally(store, decide(long, Returned("7")))
        assert (one.accepted, one.state, one.fence) == (True, other.state, other.fence)
        for name in graph:
            found = await rows(url, *(trip.ids[name] for trip in trips))
            assert equal(found), name
        infos = [msgspec.structs.replace(await trip.info(), id=FlowId("")) for trip in trips]
        assert infos[0] == infos[1]
        await ear.execute("select 1")
        assert len(heard) == 6
        assert heard[:3] == heard[3:]
        assert await store.telemetry.recount() == []


async def end_node_generally(store: PostgresStore, move: Transition) -> list[Verdict]:
    """End a node by the general statements, whatever its end is."""
    assert isinstance(store.jobs, PostgresFinishing)
    moved = await store.jobs._apply(Asked([], [], [], [move], None))
    return list(moved.verdicts.values())


async def test_a_plain_job_that_a_new_total_counts_leaves_it_at_its_end(url: str) -> None:
    """It began before there was one, so its worker takes it for a plain job."""
    async with opened(url) as store:
        one, other = await two_running(store)
        await store.queues.tune(QUEUE, QueueSettings(max_running=1))
        moves = [decide(one, RETURNED), decide(other, RAISED)]
        assert moves[0].is_plain_success
        assert [verdict.accepted for verdict in await store.jobs.finish(moves)] == [True, True]
        [total] = await store.limits.get([f"queue:{QUEUE}"])
        assert total.in_use == 0


async def take_generally(store: PostgresStore, takes: Sequence[Take]) -> list[Taken]:
    channel = store._connections.options.channel
    return await store._connections.run(
        lambda session: taking.take(session, channel, takes), transaction=True
    )


@pytest.mark.parametrize("options", ["", "?pooler=true"])
@pytest.mark.parametrize("rate", [Rate(20, per=64), Rate(20, per=64, burst=10)])
async def test_takes_from_a_rate_leave_what_the_long_way_leaves(
    url: str, clock: ManualClock, rate: Rate, options: str
) -> None:
    bucket = "select (to_jsonb(bucket) - 'name')::text from holdfast.bucket order by name"
    async with opened(url + options, clock=clock) as store, connected(url) as connection:
        await store.limits.declare({"one": rate, "other": rate})
        worker = await hired(store)
        for limit in ("one", "other"):
            waits = new_job(**at_cost({f"{limit}:": rate.largest}))
            assert await take_generally(store, [Take(f"{limit}:", 1)])
            await store.jobs.insert([waits])
            assert await store.jobs.claim(worker, [Want(QUEUE, 1)], [TASK]) == []
        for seconds, units in ((0, 2), (0.5, 1), (40, 3), (3, 1), (30, 9)):
            clock.advance(seconds)
            takes = [[Take(f"{limit}:", n) for n in (units, 1)] for limit in ("one", "other")]
            assert await store.limits.take(takes[0]) == await take_generally(store, takes[1])
            one, other = [row[0] for row in await connection.fetch(bucket)]
            assert one == other


async def test_takes_at_once_are_granted_only_if_all_are_rates_with_room(
    url: str, clock: ManualClock
) -> None:
    async with opened(url, clock=clock) as store:
        limits = store.limits
        assert isinstance(limits, PostgresLimits)
        await limits.declare({"rate": Rate(5, per=64), "slots": Concurrency(5)})
        await take_generally(store, [Take("rate:", 2)])
        for takes in (
            [Take("rate:", 2), Take("rate:", 2)],
            [Take("rate:"), Take("slots:")],
            [Take("rate:"), Take("rate:new")],
            [Take("rate:", 1, ("rate:way",))],
        ):
            assert await limits._taken_at_once(takes) is None
        assert (await store.limits.get(["rate:"]))[0].spent == 2
        assert await limits._taken_at_once([Take("rate:", 2), Take("rate:")]) is not None
