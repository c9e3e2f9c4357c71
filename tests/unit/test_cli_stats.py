"""`holdfast stats`: figures of a span of time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.builders import FAILED, Scene
from tests.conformance.test_measures import measure
from tests.unit.cli import Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("COLUMNS", "80")
    return desk_in(tmp_path, monkeypatch)


async def seeded(scene: Scene) -> None:
    await scene.enqueue_many(4, "shop.mail", queue="mail")
    for job in await scene.claim(3, "mail", tasks=["shop.mail"]):
        await scene.finish(job)
    await scene.enqueue("shop.report")
    [report] = await scene.claim(1, tasks=["shop.report"])
    await scene.finish(report, FAILED)
    times = [measure(scene, 0.02, 0.02, 4.1, queue="mail", task="shop.mail")]
    await scene.store.telemetry.record([*times, measure(scene, 0.5, task="shop.report")])


def test_counts_times_and_tasks_are_shown_in_80_columns(desk: Desk) -> None:
    desk.seed(seeded)
    answer = desk.on_store("stats")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("5 enqueued · 4 ended")
    assert "3 succeeded" in lines[1]
    assert "1 failed" in lines[1]
    assert any(line.startswith("  ended") and "█" in line for line in lines)
    [run] = [line.split() for line in lines if line.startswith("run ")]
    assert run[-6:] == ["20", "ms", "4.1", "s", "4.1", "s"]
    rows = [line.split()[:4] for line in lines if line.startswith("shop.")]
    assert rows == [["shop.mail", "mail", "3", "0"], ["shop.report", "default", "1", "1"]]


def test_a_queue_or_a_task_narrows_the_figures(desk: Desk) -> None:
    desk.seed(seeded)
    assert "1 enqueued · 1 ended" in desk.on_store("stats", "--task", "shop.report").out
    mail = desk.on_store("stats", "--queue", "mail", "--since", "30d").out
    assert "4 enqueued · 3 ended" in mail
    assert "shop.report" not in mail


def test_json_has_everything(desk: Desk) -> None:
    desk.seed(seeded)
    found = desk.json("stats", "--since", "15m")
    assert (found["step"], found["every"]["ended"], found["every"]["failed"]) == (60, 4, 1)
    assert [one["task"] for one in found["tasks"]] == ["shop.mail", "shop.report"]
    assert found["tasks"][0]["run"]["p99"] == pytest.approx(4.1, rel=0.022)
    assert sum(one["counts"].get("enqueued", 0) for one in found["timeline"]) == 5


def test_a_store_in_which_nothing_happened_says_so(desk: Desk) -> None:
    desk.seed(lambda scene: scene.store.queues.pause(["mail"]))
    assert "nothing happened to jobs in this time" in desk.on_store("stats").out
    assert desk.json("stats")["tasks"] == []


def test_jobs_that_no_worker_has_run_are_told_without_times(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue_many(2))
    told = desk.on_store("stats").out
    assert "2 enqueued · 0 ended (0/s) · lag" in told
    assert "no attempt was measured in this time" in told


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (("--since", "0s"), "since must be more than 0 seconds and at most 400 days"),
        (("--since", "9999d"), "at most 400 days"),
        (("--since", "yesterday"), "yesterday"),
        (("--queue", "no queue!"), "queue"),
    ],
)
def test_what_makes_no_sense_is_refused_with_advice(
    desk: Desk, given: tuple[str, ...], complaint: str
) -> None:
    desk.seed(lambda scene: scene.enqueue())
    answer = desk.on_store("stats", *given)
    assert answer.code != 0
    assert complaint in answer.err
