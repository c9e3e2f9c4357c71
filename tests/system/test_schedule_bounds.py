"""Providers and planners that hang, never end, answer nonsense or leave: each harms itself only."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.schedule import bounded_calls, providers
from holdfast.schedule.agenda import Entry
from holdfast.schedule.model import Decision, Plan
from holdfast.schedule.providers import Patience, Providers
from holdfast.store.contract.store import Store
from tests.support.schedule_scene import Scene
from tests.support.waiting import wait_until
from tests.system.test_schedule_regressions import Refusing

START = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def scene(store: Store, clock: ManualClock) -> Scene:
    clock.now = START
    return Scene(store, clock)


def threads() -> int:
    return sum(thread.name == "holdfast-provider" for thread in threading.enumerate())


# What ends a program ends an evaluation ---------------------------------------------------------


def plain_exit(*_: object) -> list[Any]:
    sys.exit("no tenants")


async def async_exit(*_: object) -> list[Any]:
    raise SystemExit("no tenants")


async def stream_exit(*_: object) -> AsyncIterator[Any]:
    nobodies: tuple[str, ...] = ()
    for nobody in nobodies:
        yield nobody
    raise SystemExit("no tenants")


async def cancelled(*_: object) -> list[Any]:
    raise asyncio.CancelledError("no tenants")


class Leaving(BaseException):
    """Of a user's own make."""


def plain_own(*_: object) -> Iterator[Any]:
    yield from ()
    raise Leaving("no tenants")


@pytest.mark.parametrize("leave", [plain_exit, async_exit, stream_exit, cancelled, plain_own])
@pytest.mark.parametrize("kind", ["scopes", "planner"])
async def test_a_provider_that_ends_the_program_ends_its_own_evaluation(
    scene: Scene, leave: Callable[..., Any], kind: str
) -> None:
    known: dict[str, dict[str, Any]] = {
        "scopes": scene.providers.scopes,
        "planner": scene.providers.planners,
    }
    known[kind]["leaving"] = leave
    await scene.declare("leaves", cron="@hourly", **{kind: "leaving"})
    await scene.declare("stays", cron="@hourly")
    await scene.after(hours=1)
    error = (await scene.schedule("leaves")).error
    assert error is not None
    assert "which ends this evaluation only" in error
    assert await scene.decisions("stays") == [("01:00", Decision.FIRED)]
    known[kind]["leaving"] = lambda *_: []
    await scene.after(minutes=1)
    assert (await scene.schedule("leaves")).error is None


async def test_a_live_evaluator_outlives_a_provider_that_exits(live_store: Store) -> None:
    scene = Scene(live_store, ManualClock())
    scene.providers.scopes["leaving"] = plain_exit
    await scene.declare("leaves", every=1, scopes="leaving")
    await scene.declare("stays", every=1)
    await fires_on(scene, "stays", 2)
    assert "SystemExit" in str((await scene.schedule("leaves")).error)


# What hangs -----------------------------------------------------------------------------------


async def test_a_provider_that_hangs_is_asked_once_and_shown(scene: Scene) -> None:
    free, asked = threading.Event(), 0

    def hang() -> list[str]:
        nonlocal asked
        asked += 1
        free.wait(60)
        return ["a"]

    scene.providers = Providers(limit=0.05)
    scene.evaluator = scene.another()
    scene.providers.scopes["hang"] = hang
    before = threads()
    await scene.declare(cron="@hourly", scopes="hang")
    await scene.after(hours=1)
    assert "did not answer within 0.05 s" in str((await scene.schedule()).error)
    for _ in range(5):
        await scene.after(minutes=1)
    assert "scope provider 'hang' still runs after" in str((await scene.schedule()).error)
    assert (asked, threads() - before) == (1, 1)
    free.set()
    await wait_until(lambda: threads() == before, 5, "the end of the question")
    await scene.after(minutes=1)
    assert (await scene.schedule()).error is None
    assert await scene.decisions() == [("01:00", Decision.FIRED)]


async def test_a_coroutine_that_ignores_its_cancellation_is_left_behind(scene: Scene) -> None:
    free = asyncio.Event()

    async def stubborn() -> list[str]:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return []

    scene.providers = Providers(limit=0.05)
    scene.evaluator = scene.another()
    scene.providers.scopes["stubborn"] = stubborn
    await scene.declare(cron="@hourly", scopes="stubborn")
    await scene.after(hours=1)
    await scene.after(minutes=1)
    assert "still runs after" in str((await scene.schedule()).error)
    free.set()
    await asyncio.sleep(0)
    await scene.after(minutes=1)
    assert (await scene.schedule()).error is None


async def test_hundreds_of_hanging_providers_do_not_stop_the_other_schedules(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.schedule.evaluator.MOST_EVALUATIONS", 20)
    scene = Scene(live_store, ManualClock())
    free = asyncio.Event()

    async def hang() -> list[str]:
        await free.wait()
        return []

    for number in range(40):
        scene.providers.scopes[f"hang{number:02}"] = hang
        await scene.declare(f"a-hangs{number:02}", every=1, scopes=f"hang{number:02}")
    scene.providers.scopes["good"] = lambda: ["a"]
    await scene.declare("plain", every=1)
    await scene.declare("scoped", every=1, scopes="good")
    await fires_on(scene, "scoped", 2)
    await fires_on(scene, "plain", 2)
    free.set()


async def fires_on(scene: Scene, name: str, number: int) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(scene.evaluator.run(stop))

    async def enough() -> bool:
        return len(await scene.fired(name)) >= number

    try:
        await wait_until(enough, 10, f"{number} plans of {name}")
    finally:
        stop.set()
        await running


# What fails to start --------------------------------------------------------------------------


async def test_an_evaluation_tries_a_bounded_number_of_open_plans_and_the_next_goes_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.schedule.retrying.TRIES_PER_EVALUATION", 4)
    await scene.declare(cron="@yearly")
    refusing = Refusing(scene.store, "s0", "s1", "s2", "s3", "s4")
    evaluator = scene.another(refusing)
    at = START + timedelta(minutes=1)
    await scene.store.schedules.record(
        [Plan("job", f"s{n}", at, Decision.FAILED) for n in range(10)]
    )
    scene.clock.advance(minutes=2)
    started: list[int] = []
    for _ in range(3):
        refusing.batches.clear()
        await evaluator.run_once()
        assert len(refusing.batches) <= 2 * 4
        started.append(await scene.jobs())
    assert started == [0, 3, 5]


# What vanished ----------------------------------------------------------------------------------


async def test_the_cursor_of_a_scope_that_vanished_is_forgotten_and_nothing_fires_twice(
    scene: Scene,
) -> None:
    given = ["stays", "leaves"]
    scene.providers.scopes["tenants"] = lambda: given
    await scene.declare(cron="@hourly", scopes="tenants", keep=7200.0)
    await scene.after(hours=1)
    given.remove("leaves")
    for _ in range(3):
        await scene.after(hours=1)
    cursors = await scene.store.schedules.cursors("job", ["stays", "leaves"])
    assert set(cursors) == {"stays"}
    given.append("leaves")
    await scene.after(minutes=30)
    await scene.after(minutes=30)
    assert [f"{row.at:%H:%M}" for row in await scene.rows() if row.scope == "leaves"] == [
        "01:00",
        "05:00",
    ]


# What never ends or makes no sense --------------------------------------------------------------


def endless() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"tenant {number}"


async def endless_stream() -> AsyncIterator[str]:
    for scope in endless():
        yield scope


@pytest.mark.parametrize("provider", [endless, endless_stream])
async def test_a_provider_whose_generator_never_ends_is_cut_off_and_shown(
    scene: Scene, provider: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "MOST_SCOPES", 5_000)
    scene.providers.scopes["endless"] = provider
    await scene.declare("endless", cron="@hourly", scopes="endless")
    await scene.declare("good", cron="@hourly")
    await scene.after(hours=1)
    assert "gave more than 5,000 values" in str((await scene.schedule("endless")).error)
    assert await scene.rows("endless") == []
    assert await scene.decisions("good") == [("01:00", Decision.FIRED)]


NONSENSE: list[Callable[[str, datetime, datetime], Any]] = [
    lambda scope, after, now: "tomorrow",
    lambda scope, after, now: 5,
    lambda scope, after, now: [now.replace(tzinfo=None)],
    lambda scope, after, now: [None],
    lambda scope, after, now: iter(lambda: now, None),
]


@pytest.mark.parametrize("planner", NONSENSE)
async def test_a_planner_that_answers_nonsense_is_shown_and_starts_nothing(
    scene: Scene, planner: Callable[[str, datetime, datetime], Any]
) -> None:
    scene.providers.planners["nonsense"] = planner
    await scene.declare(cron="@hourly", planner="nonsense")
    await scene.after(hours=1)
    assert (await scene.schedule()).error is not None
    assert await scene.rows() == []


async def test_plans_outside_of_what_a_planner_was_asked_about_do_not_count(scene: Scene) -> None:
    scene.providers.planners["wide"] = lambda scope, after, now: [
        datetime.min.replace(tzinfo=UTC),
        after,
        after + timedelta(minutes=30),
        now + timedelta(seconds=1),
        datetime.max.replace(tzinfo=UTC),
    ]
    await scene.declare(cron="@hourly", planner="wide")
    await scene.after(hours=1)
    assert await scene.decisions() == [("00:30", Decision.FIRED)]


async def test_an_evaluation_asks_planners_for_a_bounded_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def slow(scope: str, after: datetime, now: datetime) -> list[datetime]:
        asked.append(scope)
        time.sleep(0.02)
        return []

    monkeypatch.setattr(scene.providers, "patience", lambda: Patience(0.2))
    scene.providers.planners["slow"] = slow
    scene.providers.scopes["many"] = lambda: [f"s{n}" for n in range(200)]
    await scene.declare(cron="@hourly", planner="slow", scopes="many")
    await scene.after(hours=1)
    assert "asked for one scope after another, did not answer within 0.2 s" in str(
        (await scene.schedule()).error
    )
    assert len(asked) < 40


async def test_an_evaluation_that_failed_slowly_rests_nine_times_as_long(scene: Scene) -> None:
    await scene.declare(cron="@hourly", scopes="slow")
    entry = Entry(await scene.schedule())

    async def slow() -> list[str]:
        await asyncio.sleep(0.3)
        raise ValueError("no tenants")

    scene.providers.scopes["slow"] = slow
    scene.clock.advance(hours=1)
    evaluated = await scene.evaluator.evaluate(entry)
    assert evaluated is not None
    again = entry.next_evaluation(evaluated)
    assert again is not None
    assert again - evaluated.now >= timedelta(seconds=2.7)


@pytest.mark.parametrize(
    "anchor", [datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
)
@pytest.mark.parametrize("every", [1.0, 86_400 * 36_000.0])
async def test_an_extreme_anchor_is_nothing_special(
    scene: Scene, anchor: datetime, every: float
) -> None:
    await scene.declare(every=every, anchor=anchor)
    await scene.declare("good", cron="@hourly")
    await scene.after(hours=1)
    assert (await scene.schedule()).error is None
    assert await scene.decisions("good") == [("01:00", Decision.FIRED)]


async def test_one_function_is_asked_by_a_few_at_once_and_the_others_wait_their_turn() -> None:
    under_way = most = 0

    async def provider() -> list[str]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return ["a"]

    known = Providers()
    known.scopes["tenants"] = provider

    async def ask() -> list[list[str]]:
        return [page async for page in known.pages("tenants")]

    assert await asyncio.gather(*(ask() for _ in range(30))) == [[["a"]]] * 30
    assert most == bounded_calls.CALLS_AT_ONCE
