"""`holdfast audit list`: who typed what, and how it ended."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from holdfast.store.contract.audit import Act, new_act_id
from tests.conformance.builders import Scene
from tests.unit.cli import Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


def test_every_change_by_a_command_is_listed_newest_first(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.enqueue())
    desk.json("jobs", "move", job, "--to", "slow")
    desk.json("queues", "pause", "mail", "slow", "--create")
    desk.json("queues", "pause", "--all")
    desk.json("queues", "tune", "mail", "--retain-failed", "2h")
    desk.json("tasks", "pause", "greet")
    operation = desk.json("jobs", "cancel", "--everything", "--yes")["operation"]
    found = desk.json("audit", "list")["acts"]
    assert [(act["verb"], act["target"], act["changed"]) for act in found] == [
        ("jobs.cancel", operation, 1),
        ("tasks.pause", "greet", 1),
        ("queues.tune", "mail", 1),
        ("queues.pause", "*", 1),
        ("queues.pause", "slow", 1),
        ("queues.pause", "mail", 1),
        ("jobs.move", job, 1),
    ]
    assert {act["by"].partition("@")[2] for act in found} == {socket.gethostname()}
    assert found[2]["arguments"] == {"retain_failed": 7200.0}


def test_acts_are_shown_to_people_with_what_was_meant(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.enqueue())
    desk.on_store("jobs", "move", "--all", "--queue", "default", "--to", "slow", "--yes")
    desk.on_store("jobs", "retry", job)
    shown = desk.on_store("audit", "list", width=200).out.splitlines()
    assert f"jobs.requeue {job}  refused, 0 changed" in shown[0]
    assert "only an ended job can be requeued" in shown[1]
    assert "queues=default  done, 1 changed" in shown[2]
    assert shown[3].strip() == "queue=slow"


def test_filters_and_cursors_narrow_the_list(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    assert desk.on_store("audit", "list").out == "no acts match\n"
    for name in "abc":
        desk.json("queues", "pause", name, "--create")
    desk.json("queues", "resume", "b")
    assert len(desk.json("audit", "list", "--verb", "queues.pause", "--since", "1h")["acts"]) == 3
    assert [act["verb"] for act in desk.json("audit", "list", "--target", "b")["acts"]] == [
        "queues.resume",
        "queues.pause",
    ]
    assert desk.json("audit", "list", "--by", "nobody@nowhere")["acts"] == []
    first = desk.json("audit", "list", "--limit", "3")
    rest = desk.json("audit", "list", "--limit", "3", "--cursor", first["next_cursor"])
    assert ([act["target"] for act in rest["acts"]], rest["next_cursor"]) == (["a"], None)
    shown = desk.on_store("audit", "list", "--limit", "3").out
    assert f"more: --cursor {first['next_cursor']}" in shown


def test_a_verb_that_is_none_is_named(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    answer = desk.on_store("audit", "list", "--verb", "jobs.explode")
    assert answer.code == 2
    assert "verb must be one of books.correct, failures.mute, failures.note" in answer.err


def test_a_damaged_act_spoils_its_own_line_alone(desk: Desk) -> None:
    async def act(scene: Scene) -> None:
        whole = Act(
            id=new_act_id(), by="ann", verb="jobs.cancel", target="a", which='{"ids":["a"]}'
        )
        await scene.store.audit.begin(whole)
        damaged = Act(id=new_act_id(), by="bob", verb="jobs.cancel", target="b", which="{oops")
        await scene.store.audit.begin(damaged)

    desk.seed(act)
    shown = desk.on_store("audit", "list", width=200).out
    assert "bob  jobs.cancel {oops" in shown
    assert "ann  jobs.cancel ids=a" in shown
    assert [one["which"] for one in desk.json("audit", "list")["acts"]] == ["{oops", {"ids": ["a"]}]
