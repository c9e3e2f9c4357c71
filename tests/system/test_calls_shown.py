"""Calls and undone steps as people see them on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.flow.errands import do_errand
from holdfast.flow.ids import undo_flow_id
from holdfast.job.call import FAILED, CallFailure, encode_recorded, end_signal
from holdfast.job.ids import JobId
from holdfast.job.step import StepRecord
from tests.conformance.builders import Scene
from tests.conformance.test_flows_children import calls
from tests.conformance.test_flows_undo import ended
from tests.unit.cli import Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


async def caller(scene: Scene) -> JobId:
    """A job that has called something, and heard of another call that failed."""
    job = await scene.running()
    trip = await calls(scene, job)
    said = "the secret of the child"
    failure = CallFailure("failed", "job-1", "render", "ValueError", said)
    records = [
        StepRecord(job.id, job.fence, "call render", 1, awaits=end_signal(trip.id)),
        StepRecord(
            job.id, job.fence, "call print", 2, kind=FAILED, message=encode_recorded(failure)
        ),
    ]
    assert all(await scene.store.steps.record(records))
    return job.id


async def undone(scene: Scene) -> JobId:
    job = await ended(scene)
    for errand in await scene.store.flows.errands(10):
        await do_errand(scene.store, errand)
    return job


def test_a_caller_shows_what_it_has_called(desk: Desk) -> None:
    job = desk.seed(caller)
    [flow] = desk.json("jobs", "show", job)["flows"]
    assert (flow["name"], flow["state"]) == ("trip", "running")
    assert f"trip: flow {flow['id']} is running" in desk.on_store("jobs", "show", job).out
    assert job in desk.on_store("flows", "show", flow["id"]).out, "its parent"
    steps = desk.on_store("jobs", "steps", job).out
    assert f"for flow {flow['id']}" in steps
    assert "job job-1 is failed (ValueError)" in steps


def test_what_a_child_said_is_not_shown_with_its_caller(desk: Desk) -> None:
    job = desk.seed(caller)
    for words in (["jobs", "steps", job], ["jobs", "steps", job, "--json"]):
        assert "the secret of the child" not in desk.on_store(*words).out


def test_a_job_that_is_undone_says_so(desk: Desk) -> None:
    job = desk.seed(undone)
    flow = undo_flow_id(JobId(job))
    [shown] = desk.json("jobs", "show", job)["flows"]
    assert (shown["id"], shown["name"]) == (flow, "undo")
    assert [step["undo"] for step in desk.json("jobs", "steps", job)["steps"]] == ["release"] * 2
    assert "(undone by release)" in desk.on_store("jobs", "steps", job).out
    [reason] = desk.json("jobs", "explain", job)["reasons"]
    assert f"its steps are undone by flow {flow}: running, 0 of 2 done" in reason["fact"]
    refused = " ".join(desk.on_store("jobs", "retry", job).out.split())
    assert "its steps are undone; enqueue a new one" in refused
