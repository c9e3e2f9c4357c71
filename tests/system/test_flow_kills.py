"""Workers killed in the middle of flows: no join is lost, and none runs early or twice."""

from __future__ import annotations

from holdfast.app import App
from tests.support import flow_load
from tests.support.killing import kill_one_every
from tests.support.processes import Fleet

FLOWS = 20
LEASE = 1.5
SLOTS = 4


async def test_flows_survive_workers_that_are_killed(fleet: Fleet, app: App) -> None:
    told = await flow_load.start_flows(app.store, FLOWS)
    await fleet.workers(3, slots=SLOTS, lease=LEASE)
    killed = await kill_one_every(0.4, fleet, app, slots=SLOTS, lease=LEASE)

    entries = fleet.diary.entries()
    assert killed, "the run was over before it was rough"
    await flow_load.every_flow_came_to_its_end(app.store, told, entries)
    assert fleet.diary.events("flow.adrift") == [], "the drift reconciler found something"
