"""The edges of a flow lie in the rows of its nodes, and stay there after they have counted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from holdfast.flow.model import FlowState
from tests.conformance.builders import Scene
from tests.support.backends import opened
from tests.support.flows import Trip, Waits, any_of, every

# What migration 17 did, undone: edges are rows again, those of ended nodes are gone.
BACK = """
create table holdfast_edge (
    upstream text not null, downstream text not null, n integer not null, wants integer not null,
    primary key (upstream, downstream, n)
) without rowid;
create index holdfast_edge_downstream on holdfast_edge (downstream, n);
insert into holdfast_edge
select n.job_id, e.key, e.value >> 5, e.value & 31
from holdfast_node as n, json_each(n.edges) as e
where n.is_unsettled or n.job_id not in (select job_id from holdfast_outcome);
alter table holdfast_node drop column edges;
alter table holdfast_node drop column is_unsettled;
create index holdfast_gate_flow on holdfast_gate (flow_id);
delete from holdfast_migration where version = 17;
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def run(url: str, sql: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.executescript(sql)


async def test_a_flow_that_runs_while_its_store_is_migrated_goes_on(
    url: str, clock: ManualClock
) -> None:
    graph: dict[str, Waits] = {
        "a": [],
        "b": [],
        "c": ["a", "b"],
        "d": [any_of("a", "b"), every("c")],
    }
    async with opened(url, clock) as store:
        trip = await Trip.begin(await Scene.on(store, clock), graph)
        await trip.end("a")
    run(url, BACK)
    async with opened(url, clock) as store:
        trip.scene = trip.scene.through(store)
        await trip.end("b")
        assert (await trip.states())["c"] == "ready"
        await trip.end("c")
        await trip.end("d")
        assert (await trip.info()).state is FlowState.SUCCEEDED
