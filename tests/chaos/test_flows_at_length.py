"""A thousand flows of a hundred nodes while a worker is killed every second: no join is lost, none
runs early or twice, and every flow ends as its sinks say."""

from __future__ import annotations

import pytest

from holdfast.app import App
from tests.support import flow_load
from tests.support.killing import kill_one_every
from tests.support.processes import Fleet

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

FLOWS = 1_000
LEASE = 2.0
SLOTS = 6


async def test_flows_survive_a_worker_killed_every_second(fleet: Fleet, app: App) -> None:
    told = await flow_load.start_flows(app.store, FLOWS)
    await fleet.workers(4, slots=SLOTS, lease=LEASE)
    async with flow_load.watched_for_drift(app.store):
        killed = await kill_one_every(1.0, fleet, app, slots=SLOTS, lease=LEASE, within=800)

    entries = fleet.diary.entries()
    assert len(killed) >= 10, "the run was over before it was rough"
    await flow_load.every_flow_came_to_its_end(app.store, told, entries)
    assert fleet.diary.events("flow.adrift") == [], "the drift reconciler found something"
