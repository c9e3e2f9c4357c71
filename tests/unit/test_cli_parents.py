"""`holdfast flows show` and `holdfast jobs explain` of a job that waits for its flow."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.flow.ids import child_flow_id
from holdfast.job.ends import Cancelled, WasSuspended
from holdfast.job.ids import JobId
from tests.conformance.builders import Scene
from tests.support.flows import Trip
from tests.unit.cli import Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


async def waiting_parent(scene: Scene) -> JobId:
    await scene.enqueue()
    parent = await scene.claim_one()
    flow = child_flow_id(parent.id)
    await Trip.begin(scene, {"a": []}, id=flow, parent=parent.id, fence=parent.fence)
    await scene.finish(await scene.live(parent.id), WasSuspended(None, f"waits for flow {flow}"))
    return parent.id


async def gone_parent(scene: Scene) -> JobId:
    parent = await waiting_parent(scene)
    await scene.finish(await scene.live(parent), Cancelled())
    await scene.store.jobs.delete([parent])
    return parent


def test_a_flow_names_the_job_that_waits_for_it(desk: Desk) -> None:
    parent = desk.seed(waiting_parent)
    flow = child_flow_id(parent)
    assert f"parent greet {parent}, suspended" in desk.on_store("flows", "show", flow).out
    assert desk.json("flows", "show", flow)["parent"] == parent


def test_a_flow_says_that_its_parent_is_gone(desk: Desk) -> None:
    parent = desk.seed(gone_parent)
    shown = desk.on_store("flows", "show", child_flow_id(parent)).out
    assert f"parent {parent}, which is gone" in shown


def test_a_job_is_explained_by_the_flow_that_it_waits_for(desk: Desk) -> None:
    parent = desk.seed(waiting_parent)
    [reason] = desk.json("jobs", "explain", parent)["reasons"]
    assert reason["code"] == "waits-for-flow"
    assert "flow 'trip'" in reason["fact"]
    assert "0 of 1 nodes are done" in reason["fact"]
