"""`holdfast jobs VERB --all` and `holdfast operations`: acts on many jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.operations import leg
from tests.conformance.builders import FAILED, QUEUE, Scene
from tests.unit.cli import Answer, Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(leg, "JOB_BATCH", 2)
    desk = desk_in(tmp_path, monkeypatch)
    desk.seed(failed)
    return desk


async def failed(scene: Scene) -> list[JobId]:
    jobs = await scene.enqueue_many(5)
    for claimed in await scene.claim(5):
        await scene.finish(claimed, FAILED)
    return jobs


def counts(desk: Desk) -> dict[str, int]:
    found: dict[str, int] = desk.json("jobs", "list")["counts"]
    return found


def retry(desk: Desk, *options: str) -> Answer:
    return desk.on_store("jobs", "retry", "--all", "--queue", QUEUE, "--yes", *options)


def test_a_dry_run_shows_states_queues_and_samples(desk: Desk) -> None:
    shown = retry(desk, "--dry-run").out.splitlines()
    assert shown[:3] == [
        "5 jobs would be requeued",
        "  by state: 5 failed",
        f"  by queue: 5 {QUEUE}",
    ]
    assert len(shown) == 8
    assert "greet in default" in shown[3]
    assert counts(desk) == {"failed": 5}
    final = desk.on_store("jobs", "delete", "--everything", "--dry-run").out
    assert final.splitlines()[-1].strip() == "this cannot be undone"


def test_a_question_says_if_there_is_no_way_back(desk: Desk) -> None:
    refused = desk.on_store("jobs", "delete", "--everything")
    assert refused.code == 2
    assert "this would delete 5 jobs, which cannot be undone: add --yes" in refused.err


def test_a_canary_waits_and_goes_on_and_is_taken_back(desk: Desk) -> None:
    first = retry(desk, "--canary", "2", "--reason", "is it mended?")
    assert first.out == "2 of 5 jobs requeued\n"
    [told, look, on, back] = first.err.splitlines()
    assert told.startswith("operation ")
    operation = told.split()[1]
    assert told == f"operation {operation} waits: its canary is done"
    assert look == f"  how it ended: holdfast operations show {operation}"
    assert on == f"  go on: holdfast operations go-on {operation}"
    assert back == f"  take it back: holdfast operations undo {operation}"

    shown = desk.on_store("operations", "show", operation, width=200).out.splitlines()
    assert shown[0] == "requeue states=failed queues=default"
    assert shown[1].startswith("waiting, 2 of 5 jobs changed, begun ")
    assert shown[2].endswith(": is it mended?")
    assert shown[3] == "its first jobs are now: 2 ready"

    assert desk.on_store("operations", "go-on", operation).out.splitlines() == [
        "5 of 5 jobs requeued",
        back,
    ]
    assert counts(desk) == {"ready": 5}
    undone = desk.on_store("operations", "undo", operation, "--reason", "it is not")
    assert undone.out == "5 of 5 jobs cancelled\n"
    assert counts(desk) == {"cancelled": 5}

    listed = desk.json("operations", "list")["operations"]
    assert [(one["verb"], one["state"], one["undoes"]) for one in listed] == [
        ("cancel", "done", operation),
        ("requeue", "done", None),
    ]
    acts = [(act["verb"], act["changed"]) for act in desk.json("audit", "list")["acts"]]
    assert acts == [
        ("jobs.cancel", 5),
        ("operations.undo", 1),
        ("operations.go_on", 1),
        ("jobs.requeue", 5),
    ]


def test_a_detached_operation_is_left_to_workers_and_can_be_stopped(desk: Desk) -> None:
    begun = desk.json("jobs", "retry", "--everything", "--yes", "--detach", "--pace", "1")
    assert (begun["state"], begun["changed"], begun["pace"]) == ("running", 0, 1.0)
    assert counts(desk) == {"failed": 5}
    stopped = desk.on_store("operations", "stop", begun["operation"]).out.splitlines()
    assert stopped == [
        f"operation {begun['operation']} is stopped after 0 of 5 jobs",
        f"  go on: holdfast operations go-on {begun['operation']}",
    ]
    again = desk.on_store("operations", "stop", begun["operation"])
    assert (again.code, "is stopped: it does not run" in again.err) == (1, True)
    assert [one["state"] for one in desk.json("operations", "list", "-s", "stopped")["operations"]]


def test_jobs_that_are_left_are_named_with_the_reason(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leg, "JOB_BATCH", 500)
    desk.seed(lambda scene: scene.enqueue(delay=60.0))
    begun = desk.json("jobs", "cancel", "--everything", "--yes")["operation"]
    undone = desk.on_store("operations", "undo", begun, width=200)
    assert undone.out.splitlines()[:2] == ["0 of 1 job requeued", "1 job left as it was:"]
    assert "was scheduled: a requeue would run it now" in undone.out


def test_what_is_not_there_and_what_goes_with_all_is_said(desk: Desk) -> None:
    assert desk.on_store("operations", "list").out == "no operations\n"
    unknown = desk.on_store("operations", "show", "nope")
    assert (unknown.code, "no operation 'nope'" in unknown.err) == (1, True)
    job = desk.seed(lambda scene: scene.in_state(JobState.FAILED, queue="other"))
    wrong = desk.on_store("jobs", "retry", job, "--canary", "1")
    assert (wrong.code, "go with --all, not with ids" in wrong.err) == (2, True)
    wrong = desk.on_store("operations", "list", "-s", "gone")
    assert (wrong.code, "state must be one of running, waiting" in wrong.err) == (2, True)


def test_a_narrow_terminal_shows_operations_below_each_other(desk: Desk) -> None:
    retry(desk, "--canary", "2")
    [operation] = desk.json("operations", "list")["operations"]
    lines = desk.on_store("operations", "list", width=80).out.splitlines()
    assert lines[0] == f"{operation['id']}  waiting  2 of 5 done"
    assert lines[1].startswith(f"  requeue states=failed queues={QUEUE} · ")
    assert max(map(len, lines)) <= 80
