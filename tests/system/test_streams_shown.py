"""Streams as people see them: the command line, and the reconciler that removes old frames."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from holdfast.background.counters import Swept
from holdfast.clock import ManualClock
from holdfast.job.ends import HandedBack
from holdfast.job.ids import JobId
from holdfast.job.stream import Keep
from holdfast.reconcile.stream_trim import StreamTrimReconciler
from holdfast.store.contract.store import Store
from tests.conformance.builders import RETURNED, Scene
from tests.conformance.streaming import append, data_of, frames_of
from tests.support.reconcile_scene import made
from tests.unit.cli import Desk, desk_in

SECRET = "hunter2-is-no-password"


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


PROGRAM = """
from holdfast import App

app = App({url!r})


@app.task(name="greet")
async def greet(name: str) -> None: ...
"""
_numbers = itertools.count()


def program_at(desk: Desk) -> str:
    """A program that knows the task, so that its values may be shown."""
    name = f"talks_{next(_numbers)}"
    (desk.folder / f"{name}.py").write_text(PROGRAM.format(url=desk.url))
    return f"{name}:app"


async def answered(scene: Scene) -> JobId:
    """A job that wrote texts and a document, in its second attempt."""
    first = await scene.running()
    await append(scene, frames_of(first, 0, '["Hel"]'))
    await scene.finish(first, HandedBack())
    again = await scene.claim_one()
    await append(
        scene,
        frames_of(again, 0, '["Hello"," \\u001b[2Jworld"]', again=True, replaces=0),
        frames_of(again, 2, f'[{{"password":"{SECRET}"}}]'),
        frames_of(again, 3, '["bye"]', closes=True),
        frames_of(again, 0, "[1]", "my log", keep=Keep.LIVE),
    )
    await scene.finish(again, RETURNED)
    return again.id


def test_the_command_line_shows_a_stream_without_secrets_and_control_characters(desk: Desk) -> None:
    job = desk.seed(answered)
    words = ("jobs", "stream", job, "tokens", "--app", program_at(desk))
    shown = desk.run(*words).out
    assert shown.splitlines()[0] == "Hello ·[2Jworld"
    assert shown.splitlines()[2] == "bye"
    assert SECRET not in shown
    assert shown == desk.run(*words, "--follow").out
    unknown_here = desk.on_store("jobs", "stream", job, "tokens").out
    assert "Hello" not in unknown_here, "nobody knows the task here"


def test_every_frame_is_a_line_of_json_with_its_cursor(desk: Desk) -> None:
    job = desk.seed(answered)
    words = ("jobs", "stream", job, "tokens", "--json", "--app", program_at(desk))
    lines = desk.run(*words).out.splitlines()
    frames = [json.loads(line) for line in lines]
    assert [frame["data"] for frame in frames][::3] == ["Hello", "bye"]
    assert SECRET not in "".join(lines)
    [rest] = desk.run(*words, "--after", frames[2]["cursor"]).out.splitlines()
    assert json.loads(rest) == frames[3]


def test_a_resumed_follower_is_told_that_the_handler_has_begun_again(desk: Desk) -> None:
    job = desk.seed(answered)
    told = desk.on_store("jobs", "stream", job, "tokens", "--after", "1.0")
    assert "the handler has begun again" in told.err


def test_show_and_explain_name_the_streams_of_a_job(desk: Desk) -> None:
    job = desk.seed(answered)
    assert "tokens: 4 frames" in desk.on_store("jobs", "show", job).out
    streams = desk.json("jobs", "show", job)["streams"]
    assert [(one["stream"], one["keep"], one["closed"]) for one in streams] == [
        ("my log", "live", False),
        ("tokens", "all", True),
    ]
    explained = desk.on_store("jobs", "explain", job).out
    assert f"holdfast jobs stream {job} 'my log' --follow" in " ".join(explained.split())
    plain = desk.seed(lambda scene: scene.enqueue())
    assert desk.json("jobs", "show", plain)["streams"] == []


def test_an_unknown_job_and_a_bad_cursor_are_one_line(desk: Desk) -> None:
    job = desk.seed(answered)
    assert "cursor of a frame" in desk.on_store("jobs", "stream", job, "tokens", "--after", "x").err
    unknown = f"{job[:-1]}{'0' if job[-1] != '0' else '1'}"
    assert unknown in desk.on_store("jobs", "stream", unknown, "tokens").err


def test_a_misspelt_stream_is_told_with_those_that_there_are(desk: Desk) -> None:
    job = desk.seed(answered)
    told = desk.on_store("jobs", "stream", job, "token", "--json")
    assert (told.out, told.code) == ("", 0)
    assert f"job {job} has nothing in a stream 'token'; its streams: 'my log', 'tokens'" in told.err
    at_the_end = desk.on_store("jobs", "stream", job, "tokens", "--after", "2.3")
    assert "has nothing" not in at_the_end.err


async def test_frames_of_live_streams_are_removed_when_they_are_old(scene: Scene) -> None:
    claimed = await scene.running()
    rows = [frames_of(claimed, n, f"[{n}]", "log", keep=Keep.LIVE) for n in range(5)]
    await append(scene, *rows, frames_of(claimed, 0, "[0]"))
    trim = made(StreamTrimReconciler, scene.store, batch=2)
    assert await trim.run_once() == Swept()
    scene.clock.advance(61)
    await append(scene, frames_of(claimed, 5, "[5]", "log", keep=Keep.LIVE))
    assert await trim.run_once() == Swept(found=5, mended=5)
    assert await trim.run_once() == Swept()
    assert await data_of(scene, claimed.id, "log") == ["[5]"]
    assert await data_of(scene, claimed.id) == ["[0]"]
