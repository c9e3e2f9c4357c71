"""`holdfast top`: every key, every view, at 80 × 24, and what happens when the store is away."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from holdfast.cli.sheet import Cell, Column, Sheet, SheetRow, fitted, one_line
from holdfast.cli.top_app import THEMES, TopApp
from holdfast.cli.top_reading import MovePace
from holdfast.cli.top_screens import AskScreen, FilterScreen, TextScreen
from holdfast.cli.top_sheets import MOST_ROWS
from holdfast.cli.top_text import overview_lines
from holdfast.cli.top_views import VIEWS, TopView
from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.insights.overview import Minute, Overview
from holdfast.job.state import JobState
from holdfast.job.what import What
from holdfast.store.contract.audit import AuditFilter
from holdfast.store.contract.facts import SlotFacts, WorkerFacts
from tests.conformance.builders import FAILED, Scene
from tests.support.backends import opened
from tests.support.flaky import FlakyStore, Line
from tests.unit.cli import Desk, desk_in

NEVER = 3_600.0
SEEN = WorkerFacts(
    slots={"default": SlotFacts(used=3, free=7)}, cpu=0.42, memory=50 * 2**20, loop_lag=0.002
)


@dataclass
class Viewer:
    """Somebody in front of a terminal of 80 × 24."""

    app: TopApp
    pilot: Pilot[None]
    scene: Scene
    line: Line

    async def press(self, *keys: str) -> str:
        """Key after key, each when what the one before began is done."""
        for key in keys:
            await self.pilot.press(key)
            await self.settled()
        return self.text

    async def settled(self) -> str:
        """What the screen says when nothing is under way."""
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()
        return self.text

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def lines(self) -> list[str]:
        rows = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in row) for row in rows]

    async def acts(self) -> list[tuple[str, str, str]]:
        page = await self.scene.store.audit.page(AuditFilter(), 100)
        return [(one.verb, one.target, one.by) for one in reversed(page.entries)]


@asynccontextmanager
async def watching(
    seed: Callable[[Scene], Awaitable[object]] | None = None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[Viewer]:
    clock, line = ManualClock(), Line()
    async with opened("sqlite://", clock) as store:
        scene = await Scene.on(store, clock)
        if seed is not None:
            await seed(scene)
        client: Any = Client(FlakyStore(store, line))
        app = TopApp(client, by="ann@desk", every=NEVER)
        try:
            async with app.run_test(size=size) as pilot:
                viewer = Viewer(app, pilot, scene, line)
                await viewer.settled()
                yield viewer
        finally:
            await client.aclose()


async def busy(scene: Scene) -> None:
    await scene.ended(FAILED, queue="mail")
    await scene.ended(queue="mail")
    await scene.running(queue="mail")
    await scene.enqueue_many(3, queue="mail")
    await scene.enqueue(queue="lonely")
    await scene.hire(name="clerk", queues={"mail": 10}, facts=SEEN, lease=600)


# Views -------------------------------------------------------------------------------------------


async def test_the_overview_has_everything_of_the_first_page_on_a_small_screen() -> None:
    async with watching(busy) as viewer:
        text = viewer.text
    for said in (
        "[1 overview]",
        "ready 4",
        "running 1",
        "failed 1",
        "wait p50",
        "workers 2 alive",
        "3 of 20 slots used",
        "no live worker serves it",
        "queues by lag",
        "failures of the last hour",
        "give up",
    ):
        assert said in text, said
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("key", "view", "said"),
    [
        ("1", TopView.OVERVIEW, "queues by lag"),
        ("2", TopView.QUEUES, "NO WORKER"),
        ("3", TopView.JOBS, "succeeded"),
        ("4", TopView.FAILURES, "give up"),
        ("5", TopView.WORKERS, "3/10"),
        ("6", TopView.LIVE, "these run now"),
    ],
)
async def test_each_number_opens_its_view(key: str, view: TopView, said: str) -> None:
    async with watching(busy) as viewer:
        text = await viewer.press(key)
        assert viewer.app.picture.view is view
        assert f"[{key} {view}]" in text, "the open view is told without colours"
        assert said in text
        assert "q quit" in text


async def test_a_number_leaves_an_open_job_for_its_view() -> None:
    async with watching(busy) as viewer:
        await viewer.press("3", "enter", "n", "p", "slash")
        assert isinstance(viewer.app.screen, TextScreen), "keys of the views are closed here"
        assert "[2 queues]" in await viewer.press("2")
        assert len(viewer.app.screen_stack) == 1
        await viewer.press("p", "n")
        assert await viewer.acts() == []


async def test_tab_goes_round_the_views_and_back() -> None:
    async with watching() as viewer:
        for view in (*VIEWS[1:], VIEWS[0]):
            await viewer.press("tab")
            assert viewer.app.picture.view is view
        await viewer.press("shift+tab")
        assert viewer.app.picture.view is TopView.LIVE


async def test_an_empty_store_has_nothing_to_show_in_any_view() -> None:
    async with watching() as viewer:
        for key in "123456":
            await viewer.press(key, "enter")
        assert viewer.app.screen_stack == viewer.app.screen_stack[:1]


async def test_a_question_mark_shows_the_keys_and_escape_closes_them() -> None:
    async with watching() as viewer:
        text = await viewer.press("question_mark")
        assert "drain the chosen worker" in text
        assert "[1 overview]" in await viewer.press("escape")


async def test_the_picture_can_be_held_still_and_coloured_otherwise() -> None:
    async with watching(busy) as viewer:
        assert "held" in await viewer.press("space")
        await viewer.scene.enqueue_many(5, queue="mail")
        viewer.app._tick()
        assert "ready 4" in await viewer.settled()
        await viewer.press("space")
        viewer.app._tick()
        assert "ready 9" in await viewer.settled()
        for theme in (*THEMES[1:], THEMES[0]):
            text = await viewer.press("t")
            assert (viewer.app.theme, "ready 9" in text) == (theme, True)


async def test_a_screen_that_grows_shows_more_of_long_names() -> None:
    name = "a_task_with_a_name_that_is_longer_than_its_column"
    async with watching(lambda scene: scene.enqueue(name)) as viewer:
        assert name not in await viewer.press("3")
        await viewer.pilot.resize_terminal(200, 30)
        assert name in await viewer.settled()


@pytest.mark.parametrize("view", VIEWS)
async def test_a_picture_that_changes_is_what_a_new_layout_of_it_would_be(view: TopView) -> None:
    """Only a text that may be of another height has the screen laid out anew."""
    async with watching(busy) as viewer:
        await viewer.press(str(VIEWS.index(view) + 1))
        for change in (more, paused, idle):
            await change(viewer.scene)
            await viewer.app.read()
            changed = await viewer.settled()
            viewer.app.screen.refresh(layout=True)
            assert await viewer.settled() == changed


async def more(scene: Scene) -> None:
    await scene.enqueue_many(2_000, queue="mail")
    await scene.ended(FAILED, queue="c")


async def paused(scene: Scene) -> None:
    await scene.store.queues.pause(["mail", "other"])


async def idle(scene: Scene) -> None:
    scene.clock.advance(3_600)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_q_and_ctrl_c_quit(key: str) -> None:
    async with watching() as viewer:
        await viewer.pilot.press(key)
        await viewer.pilot.pause()
        assert not viewer.app.is_running
        assert viewer.app.return_code == 0


# Jobs --------------------------------------------------------------------------------------------


async def test_a_slash_lists_jobs_by_the_same_grammar_as_the_command_line() -> None:
    async with watching(busy) as viewer:
        await viewer.press("slash", *"state:nope", "enter")
        assert isinstance(viewer.app.screen, FilterScreen)
        assert "must be one of" in viewer.text.replace("\n", " ")
        viewer.app.screen.query_one(Input).value = "queue:mail state:failed"
        text = await viewer.press("enter")
        assert viewer.app.picture.view is TopView.JOBS
        assert "which: queue:mail state:failed" in text
        assert (len(viewer.app._lines), "give up" in text) == (1, True)
        await viewer.press("slash", "escape")
        assert viewer.app.picture.wanted.where == "queue:mail state:failed"
        await viewer.press("slash")
        viewer.app.screen.query_one(Input).value = ""
        assert "all jobs" in await viewer.press("enter")


async def test_pages_of_jobs_go_back_in_time_and_return() -> None:
    async with watching(lambda scene: scene.enqueue_many(250)) as viewer:
        assert "n: older jobs" in await viewer.press("3")
        first = set(viewer.app._lines)
        assert "page 2" in await viewer.press("n")
        second = set(viewer.app._lines)
        assert "page 3" in await viewer.press("n")
        third = set(viewer.app._lines)
        assert (len(first), len(second), len(third)) == (100, 100, 50)
        assert len(first | second | third) == 250
        await viewer.press("n")
        assert set(viewer.app._lines) == third, "there is nothing older"
        await viewer.press("b")
        assert set(viewer.app._lines) == first


async def test_enter_opens_a_job_with_its_explanation_and_its_life_and_acts_on_it() -> None:
    async with watching(busy) as viewer:
        await viewer.press("slash")
        viewer.app.screen.query_one(Input).value = "state:failed"
        await viewer.press("enter")
        job = viewer.app.chosen
        assert job is not None
        text = await viewer.press("enter")
        assert isinstance(viewer.app.screen, TextScreen)
        assert f"job {job}" in text
        assert "it has ended as failed" in text
        assert "who can change it" in text
        assert "enqueued" in text, "its life is told"
        assert "claimed" in text
        text = await viewer.press("r")
        assert "is ready" in text, "it is read again after the act"
        assert await viewer.acts() == [("jobs.requeue", job, "ann@desk")]
        await viewer.press("escape")
        assert len(viewer.app.screen_stack) == 1


async def test_r_retries_the_chosen_job_and_tells_a_refusal() -> None:
    async with watching(busy) as viewer:
        await viewer.press("slash")
        viewer.app.screen.query_one(Input).value = "queue:mail state:failed state:succeeded"
        await viewer.press("enter", "r")
        assert len(await viewer.acts()) == 1
        ready = (await viewer.scene.store.queues.find(["mail"]))[0].counts[JobState.READY]
        assert ready == 4
        await viewer.press("slash")
        viewer.app.screen.query_one(Input).value = "state:running"
        await viewer.press("enter", "r")
        told = [str(one.message) for one in viewer.app._notifications]
        assert any("only an ended job can be requeued" in one for one in told)


async def test_c_asks_before_it_cancels() -> None:
    async with watching(lambda scene: scene.enqueue()) as viewer:
        await viewer.press("3", "c")
        assert isinstance(viewer.app.screen, AskScreen)
        job = viewer.app.chosen
        for no in ("n", "escape", "enter"):
            await viewer.press(no)
            assert await viewer.acts() == []
            await viewer.press("c")
        assert "cancelled" in await viewer.press("y")
        assert await viewer.acts() == [("jobs.cancel", job, "ann@desk")]


async def test_the_chosen_job_stays_chosen_while_others_come() -> None:
    async with watching(lambda scene: scene.enqueue_many(3)) as viewer:
        await viewer.press("3", "down")
        chosen = viewer.app.chosen
        viewer.scene.clock.advance(1)
        await viewer.scene.enqueue_many(5)
        await viewer.app.read()
        await viewer.settled()
        assert (len(viewer.app._lines), viewer.app.chosen) == (8, chosen)


# Queues, failures, workers ----------------------------------------------------------------------


async def test_p_asks_before_it_pauses_a_queue_and_resumes_it_at_once() -> None:
    async with watching(busy) as viewer:
        await viewer.press("2")
        queue = viewer.app.chosen
        assert "pause queue" in await viewer.press("p")
        assert "paused" in await viewer.press("y")
        await viewer.press("p")
        assert len(viewer.app.screen_stack) == 1
        assert [(verb, target) for verb, target, _ in await viewer.acts()] == [
            ("queues.pause", queue),
            ("queues.resume", queue),
        ]


async def test_enter_on_a_queue_lists_its_jobs() -> None:
    async with watching(lambda scene: scene.enqueue(queue='odd "name"')) as viewer:
        await viewer.press("2", "enter")
        assert viewer.app.picture.view is TopView.JOBS
        assert len(viewer.app._lines) == 1


async def test_a_failure_opens_one_of_its_jobs_and_runs_its_dead_jobs_again() -> None:
    async with watching(busy) as viewer:
        await viewer.press("4", "enter")
        assert "it has ended as failed" in viewer.text
        await viewer.press("escape")
        assert "run every job again" in await viewer.press("r")
        await viewer.press("y")
        [act] = await viewer.acts()
        assert act[0] == "jobs.requeue"
        [operation] = await viewer.scene.store.operations.find()
        assert operation.request.matched == 1


async def test_d_asks_before_it_drains_a_worker_and_enter_opens_it() -> None:
    async with watching(busy) as viewer:
        await viewer.press("5", "down")
        worker = viewer.app.chosen
        text = await viewer.press("enter")
        assert "holdfast 1.0" in text
        assert "default 3/10" in text
        await viewer.press("escape")
        assert "drain worker clerk?" in await viewer.press("d")
        assert "draining" in await viewer.press("y")
        assert await viewer.acts() == [("workers.drain", worker, "ann@desk")]


@pytest.mark.parametrize(("view", "key"), [("2", "d"), ("3", "p"), ("5", "c"), ("1", "r")])
async def test_a_key_of_another_view_says_where_it_belongs(view: str, key: str) -> None:
    async with watching(busy) as viewer:
        await viewer.press(view, key)
        assert await viewer.acts() == []
        assert any(" is for " in str(one.message) for one in viewer.app._notifications)


# Outages -----------------------------------------------------------------------------------------


async def test_an_outage_shows_a_banner_over_the_last_picture_and_is_over_by_itself() -> None:
    async with watching(busy) as viewer:
        await viewer.press("2")
        viewer.line.cut = True
        await viewer.app.read()
        text = await viewer.settled()
        assert "no answer for" in text
        assert "the line is cut" in text
        assert "lonely" in text, "the last picture is still there"
        await viewer.press("3", "2", "p")
        viewer.line.cut = False
        viewer.app._tick()
        text = await viewer.settled()
        assert "no answer" not in text
        assert "lonely" in text


async def test_an_act_that_fails_is_told_and_harms_nothing() -> None:
    async with watching(busy) as viewer:
        await viewer.press("2", "p")
        viewer.line.cut = True
        await viewer.press("y")
        told = [str(one.message) for one in viewer.app._notifications]
        assert told == ["the line is cut"]
        viewer.line.cut = False
        await viewer.app.read()
        assert "no answer" not in await viewer.settled()


# What is drawn -----------------------------------------------------------------------------------


async def test_nothing_that_a_job_carries_can_steer_the_terminal() -> None:
    evil = "\x1b[2J\x07\x9b31m[red]bold[/red]\r\n"

    async def seed(scene: Scene) -> None:
        await scene.enqueue("greet", tags=("a",), args='{"name":"' + "x\\u001b[2J" + '"}')
        await scene.hire(name=f"worker{evil}", lease=600)

    async with watching(seed, size=(160, 24)) as viewer:
        for key in "123456":
            text = await viewer.press(key)
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
        assert "[red]bold[/red]" in await viewer.press("5", "down")
        text = await viewer.press("3", "enter")
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


def test_cells_fit_their_columns_whatever_they_hold() -> None:
    from rich.cells import cell_len

    for text in ("", "a", "x" * 50, "世界" * 10, "e\u0301" * 20, "🎉" * 9, "a\tb\nc", "\x1b[2J"):
        for width in (3, 7, 20):
            for right in (False, True):
                assert cell_len(fitted(text, width, right=right)) == width
        assert one_line(text).isprintable()


def test_columns_share_the_room_that_is_left() -> None:
    sheet = Sheet((Column("a", 5), Column("b", 5, 1), Column("c", 5, 3)), [])
    assert sheet.widths(17) == [5, 5, 5]
    assert sheet.widths(57) == [5, 15, 35]
    assert sheet.widths(3) == [5, 5, 5]
    row = SheetRow("k", (Cell("1"), Cell("2"), Cell("3")))
    assert len(Sheet(sheet.columns, [row]).lines(57)["k"].plain) == 57


def test_the_pace_is_what_moved_between_two_readings() -> None:
    def seen(*minutes: Minute) -> Any:
        return type("Seen", (), {"minutes": list(minutes), "now": NOW})

    pace, then = MovePace(), NOW.replace(minute=1)
    pace.add(seen(Minute(NOW, {What.ENQUEUED: 100})), at=10.0)
    assert list(pace.ticks) == []
    pace.add(seen(Minute(NOW, {What.ENQUEUED: 120}), Minute(then, {What.ENQUEUED: 10})), at=12.0)
    pace.add(seen(Minute(then, {What.ENQUEUED: 10, What.FAILED: 4})), at=14.0)
    assert [tick.counts for tick in pace.ticks] == [
        {What.ENQUEUED: 15},
        {What.ENQUEUED: 0, What.FAILED: 2},
    ]


NOW = ManualClock().now.replace(second=0, minute=0, microsecond=0)


async def test_the_largest_picture_is_drawn_within_50_ms() -> None:
    """300 queues and 50 workers; all rows are new. Best of five, by the processor's time."""

    async def seed(scene: Scene) -> None:
        for number in range(50):
            queues = {f"q{n:03}": 2 for n in range(number, number + 20)}
            await scene.hire(name=f"w{number}", queues=queues, facts=SEEN, lease=600)
        for number in range(300):
            await scene.enqueue(queue=f"q{number:03}")

    async with watching(seed) as viewer:
        for key in "123456":
            await viewer.press(key)
            spent = []
            for _ in range(5):
                viewer.app._lines = {}
                began = time.process_time()
                viewer.app.draw()
                spent.append(time.process_time() - began)
            assert len(viewer.app._lines) <= MOST_ROWS
            assert min(spent) < 0.05, (key, spent)


# The command -------------------------------------------------------------------------------------


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


def test_once_prints_a_frame_and_json_a_document_without_textual(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.seed(busy)
    monkeypatch.setitem(sys.modules, "textual", None)
    frame = desk.on_store("top", "--once", width=100).out
    for said in ("ready 4", "queues by lag", "lonely", "clerk", "give up"):
        assert said in frame
    assert "\x1b" not in frame
    document = desk.json("top")
    assert document["counts"]["ready"] == 4
    assert {queue["name"] for queue in document["queues"]} == {"mail", "lonely"}
    assert document["workers"][1]["facts"]["slots"]["default"]["used"] == 3
    assert document["failures"][0]["sample"]["message"] == "give up"


def test_without_a_terminal_or_textual_it_says_what_to_do(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.seed(busy)
    answer = desk.on_store("top")
    assert (answer.code, "--once prints one frame" in answer.err) == (2, True)
    monkeypatch.setattr("holdfast.cli.top.has_terminal", lambda: True)
    monkeypatch.setitem(sys.modules, "textual", None)
    answer = desk.on_store("top")
    assert (answer.code, "pip install 'holdfast[top]'" in answer.err) == (1, True)
    answer = desk.on_store("top", "--every", "0", "--once")
    assert (answer.code, "--every must be at least" in answer.err) == (2, True)


async def test_the_overview_fits_the_height_it_is_given() -> None:
    async with watching(busy) as viewer:
        seen: Overview | None = viewer.app.picture.seen
        assert seen is not None
        assert len(list(overview_lines(seen, 79, 20))) <= 20
