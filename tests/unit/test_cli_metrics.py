"""`holdfast metrics`: the figures of a store, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.telemetry.metrics import STORE_METRICS
from tests.unit.cli import Desk, desk_in
from tests.unit.test_metrics import by, read


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


def test_the_text_is_printed_and_nothing_else(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue_many(3, queue="mail"))
    answer = desk.on_store("metrics")
    assert (answer.code, answer.err) == (0, "")
    found = read(answer.out)
    assert found["holdfast_queue_jobs"][by(queue="mail", state="ready")] == 3
    assert answer.out.endswith("\n")


def test_a_file_is_replaced_in_one_step(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    file = desk.folder / "holdfast.prom"
    file.write_text("old")
    assert desk.on_store("metrics", "--to", str(file)).out == ""
    assert read(file.read_text("utf-8"))["holdfast_store_up"] == {by(store="sqlite"): 1}
    assert [one.name for one in desk.folder.glob("*.prom*")] == ["holdfast.prom"]
    assert [one for one in desk.folder.iterdir() if one.name.startswith(".holdfast")] == []


def test_a_file_is_told_of_in_json_and_one_that_cannot_be_written_is_an_error(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    file = desk.folder / "holdfast.prom"
    assert desk.json("metrics", "--to", str(file)) == {"file": str(file), "store_up": True}
    answer = desk.on_store("metrics", "--to", str(desk.folder / "none" / "x.prom"))
    assert (answer.code, answer.out) == (1, "")
    assert "x.prom: No such file or directory" in answer.err


def test_json_has_the_same_numbers(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue(queue="mail"))
    told = {one["metric"]["name"]: one for one in desk.json("metrics")["metrics"]}
    assert told.keys() == {metric.name for metric in STORE_METRICS}
    [up] = told["holdfast_store_up"]["samples"]
    assert up == {"labels": {"store": "sqlite"}, "suffix": "", "value": 1}


def test_a_store_that_is_away_is_told_with_exit_code_0(desk: Desk) -> None:
    """A collector that gets no text would go on with the old one."""
    answer = desk.run("metrics", "--url", "postgres://u@127.0.0.1:1/none")
    assert answer.code == 0
    assert read(answer.out)["holdfast_store_up"] == {by(store="postgres"): 0}
    assert "the store does not answer" in answer.err


def test_a_wrong_path_is_an_error(desk: Desk) -> None:
    answer = desk.run("metrics", "--url", f"sqlite:///{desk.folder}/none.db")
    assert (answer.code, answer.out) == (1, "")
