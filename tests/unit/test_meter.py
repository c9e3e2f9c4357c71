"""worker/meter.py: what is measured, and how it comes to the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.events import Event, Events
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.job.transition import Transition
from holdfast.job.what import What
from holdfast.store.contract.measures import MOST_PAIRS, OTHERS, Measure
from holdfast.worker import meter as metering
from holdfast.worker.attempt import Attempt
from holdfast.worker.meter import ENOUGH, ENOUGH_MORE, FEWEST_MEASURED, MOST_MEASURED, Meter
from tests.support.waiting import wait_until

NOW = datetime(2030, 1, 1, 12, 0, 30, tzinfo=UTC)
MINUTE = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


class Books:
    """A store that keeps what is recorded, unless a test wants it to fail first."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.rows: dict[object, Measure] = {}
        self.calls = 0
        self.open_from = datetime(1970, 1, 1, tzinfo=UTC)

    async def record(self, measures: Sequence[Measure]) -> datetime:
        self.calls += 1
        for one in measures:
            former = self.rows.get(one.key)
            if one.minute >= self.open_from and (former is None or former.number < one.number):
                self.rows[one.key] = one
        if self.failures:
            raise self.failures.pop(0)  # the reply is lost: the rows are written all the same
        return self.open_from

    @property
    def observed(self) -> int:
        return sum(one.times.observed for one in self.rows.values())


class Scene:
    def __init__(self) -> None:
        self.books = Books()
        self.seen: list[Event] = []
        store = cast("Any", SimpleNamespace(telemetry=self.books))
        self.meter = Meter(store, Events(self.seen.append))

    def end(
        self,
        *,
        queue: str = "mail",
        task: str = "send",
        to: JobState = JobState.SUCCEEDED,
        claimed_at: datetime = NOW,
        run: float = 0.5,
    ) -> None:
        """An attempt that was ready for 2 s, waited for its slot for 1 s, and ran."""
        now = time.monotonic()
        job = SimpleNamespace(
            queue=queue,
            task=task,
            created_at=claimed_at - timedelta(seconds=60),
            ready_at=claimed_at - timedelta(seconds=2),
            claimed_at=claimed_at,
        )
        attempt = SimpleNamespace(
            job=job, weight=0, since=now - run - 1, began_at=now - run, over_at=now
        )
        self.meter.choose([cast("Attempt", attempt)])
        if attempt.weight:
            transition = Transition(JobId("a"), 1, to, why=What.RETRIED)
            self.meter.observe(cast("Attempt", attempt), transition, now)

    def events(self) -> list[str]:
        return [event.name for event in self.seen]


async def test_wait_run_and_total_are_measured() -> None:
    scene = Scene()
    scene.end()
    await scene.meter.close(1)
    [row] = scene.books.rows.values()
    assert (row.minute, row.queue, row.task) == (MINUTE, "mail", "send")
    assert row.times.wait.seconds == pytest.approx(3, abs=0.01)
    assert row.times.run.seconds == pytest.approx(0.5, abs=0.01)
    assert row.times.total.seconds == pytest.approx(61.5, abs=0.01)


async def test_an_attempt_that_is_made_again_has_no_total_and_one_handed_back_no_times() -> None:
    scene = Scene()
    scene.end(to=JobState.SCHEDULED)
    scene.end(to=JobState.READY)
    await scene.meter.close(1)
    [row] = scene.books.rows.values()
    assert (row.times.wait.count, row.times.run.count, row.times.total.count) == (1, 1, 0)


async def test_a_meter_without_news_asks_nothing_of_the_store() -> None:
    scene = Scene()
    await scene.meter.close(1)
    assert scene.books.calls == 0


async def test_what_is_measured_is_written_soon_and_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metering, "FLUSH_SECONDS", 0.01)
    scene = Scene()
    scene.end()
    await wait_until(lambda: scene.books.observed == 1, 5, "the first is written")
    scene.end()
    await wait_until(lambda: scene.books.observed == 2, 5, "the second is written")
    calls = scene.books.calls
    await asyncio.sleep(0.05)
    assert scene.books.calls == calls == 2
    await scene.meter.close(1)
    assert scene.books.calls == calls


async def test_a_flush_whose_answer_was_lost_is_followed_by_one_that_says_it_all() -> None:
    scene = Scene()
    scene.books.failures = [StoreUnavailable("gone")]
    scene.end()
    await scene.meter._flush()
    scene.end()
    await scene.meter._flush()
    [row] = scene.books.rows.values()
    assert (row.times.observed, row.number) == (2, 2)
    await scene.meter.close(1)
    assert (scene.meter.dropped, scene.events()) == (0, ["telemetry.not_written"])


async def test_nothing_is_dropped_at_a_flush_however_many_ended() -> None:
    """Events that were buffered for a flush were once dropped beyond 50,000."""
    scene = Scene()
    for _ in range(60_000):
        scene.end()
    [pace] = scene.meter._paces.values()
    await scene.meter.close(5)
    assert scene.books.observed + pace.unseen == 60_000
    assert (scene.books.calls, len(scene.books.rows), scene.meter.dropped) == (1, 1, 0)


async def test_an_outage_drops_nothing_before_the_bound_and_counts_what_it_dropped_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metering, "MOST_ROWS", 3)
    scene = Scene()
    for minute in range(4):
        scene.books.failures = [StoreUnavailable("gone")]
        scene.end(claimed_at=NOW + timedelta(minutes=minute))
        scene.end(claimed_at=NOW + timedelta(minutes=minute))
        await scene.meter._flush()
    assert scene.meter.dropped == 0
    scene.end(claimed_at=NOW + timedelta(minutes=4))
    assert scene.meter.dropped == 2
    assert scene.events() == ["telemetry.not_written", "telemetry.dropped"]
    await scene.meter.close(1)


async def test_what_comes_after_its_minute_was_closed_is_counted_as_dropped() -> None:
    scene = Scene()
    scene.end()
    await scene.meter._flush()
    scene.books.open_from = MINUTE + timedelta(minutes=1)
    scene.end()
    scene.end()
    await scene.meter.close(1)
    assert (scene.books.observed, scene.meter.dropped) == (1, 2)


async def test_a_store_that_does_not_answer_keeps_a_leaving_worker_no_longer_than_said() -> None:
    scene = Scene()

    async def never(measures: Sequence[Measure]) -> datetime:
        await asyncio.Event().wait()
        raise AssertionError

    scene.books.record = never  # type: ignore[method-assign]
    scene.end()
    async with asyncio.timeout(10):
        await scene.meter.close(0.05)
    assert scene.meter.dropped == 1


async def test_a_minute_that_was_forgotten_is_never_written_anew() -> None:
    """It would replace what the store has of it."""
    scene = Scene()
    for minute in range(6):
        scene.end(claimed_at=NOW + timedelta(minutes=minute))
        await scene.meter._flush()
    scene.end(claimed_at=NOW)
    await scene.meter.close(1)
    assert scene.books.observed == 7
    assert scene.books.rows[next(iter(scene.books.rows))].times.observed == 1


async def test_the_pair_after_the_last_that_has_a_name_goes_under_the_others() -> None:
    scene = Scene()
    for n in range(MOST_PAIRS + 2):
        scene.end(task=f"task-{n}")
    await scene.meter.close(1)
    assert len(scene.books.rows) == MOST_PAIRS + 1
    [others] = [row for row in scene.books.rows.values() if row.task == OTHERS]
    assert (others.queue, others.times.observed) == ("mail", 2)


async def test_a_burst_is_measured_ever_more_thinly_before_a_flush_says_how_fast_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each attempt of the first two seconds was once measured, however many there were: a seventh
    of a drain's time went into it."""
    scene = Scene()
    seen: list[int] = []
    observe = Meter.observe

    def count(self: Meter, attempt: Attempt, *facts: Any) -> None:
        seen.append(attempt.weight)
        observe(self, attempt, *facts)

    monkeypatch.setattr(Meter, "observe", count)
    for _ in range(ENOUGH + ENOUGH_MORE * 2 + ENOUGH_MORE * 4 + 8):
        scene.end()
    assert seen == [1] * ENOUGH + [2] * ENOUGH_MORE + [4] * ENOUGH_MORE + [8]
    await scene.meter.close(1)


async def test_pairs_that_burst_together_are_measured_little_more_than_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each pair was once measured as if it were alone: twenty queues cost twenty times as much."""
    scene = Scene()
    seen: list[str] = []
    observe = Meter.observe

    def count(self: Meter, attempt: Attempt, *facts: Any) -> None:
        seen.append(attempt.job.task)
        observe(self, attempt, *facts)

    monkeypatch.setattr(Meter, "observe", count)
    for _ in range(ENOUGH):
        for n in range(20):
            scene.end(task=f"task-{n}")
    scene.end(task="rare")
    assert len(seen) < 3 * ENOUGH
    assert {seen.count(task) > FEWEST_MEASURED for task in seen if task != "rare"} == {True}
    assert seen[-1] == "rare"
    unseen = sum(pace.unseen for pace in scene.meter._paces.values())
    await scene.meter.close(1)
    assert scene.books.observed + unseen == 20 * ENOUGH + 1


async def test_of_a_claim_of_many_hundred_jobs_a_hundred_are_measured() -> None:
    """A worker with a thousand slots claims them before the first has ended."""
    scene = Scene()
    job = SimpleNamespace(queue="mail", task="send")
    attempts = [SimpleNamespace(job=job, weight=0) for _ in range(10 * ENOUGH_MORE)]
    scene.meter.choose(cast("list[Attempt]", attempts))
    assert [one.weight for one in attempts if one.weight] == [10] * ENOUGH_MORE


async def test_of_a_flood_some_are_measured_and_stand_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    for _ in range(5 * MOST_MEASURED):
        scene.end()
    scene.end(task="rare")
    await scene.meter._flush()
    seen: list[int] = []
    observe = Meter.observe

    def count(self: Meter, attempt: Attempt, *facts: Any) -> None:
        seen.append(attempt.weight)
        observe(self, attempt, *facts)

    monkeypatch.setattr(Meter, "observe", count)
    for _ in range(1_000):
        scene.end()
    scene.end(task="rare")
    assert seen == [5] * 200 + [1]
    await scene.meter._flush()
    unseen = sum(pace.unseen for pace in scene.meter._paces.values())
    assert scene.books.observed + unseen == 5 * MOST_MEASURED + 1 + 1_000 + 1
    await scene.meter._flush()
    scene.end()
    assert seen == [5] * 200 + [1, 1], "the flood is over, and each is measured again"
    await scene.meter.close(1)


async def test_after_a_flood_each_attempt_is_measured_again_although_nothing_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metering, "FLUSH_SECONDS", 0.01)
    scene = Scene()
    for _ in range(3 * MOST_MEASURED):
        scene.end()
    await wait_until(lambda: scene.books.observed == 3 * MOST_MEASURED, 5, "the flood is written")
    calls = scene.books.calls
    await wait_until(lambda: not scene.meter._paces, 5, "the flood is forgotten")
    assert scene.books.calls == calls
    scene.end()
    await scene.meter.close(1)
    assert scene.books.observed == 3 * MOST_MEASURED + 1
