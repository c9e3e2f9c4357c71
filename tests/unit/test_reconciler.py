"""The tick loop that all reconcilers share; waits are recorded instead of waited."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import cast

import pytest

from holdfast.background import reconciler as reconciler_module
from holdfast.background.counters import Swept
from holdfast.background.options import ReconcileOptions
from holdfast.background.outage import Outage
from holdfast.background.reconciler import Reconciler
from holdfast.errors import StoreUnavailable
from holdfast.events import Event, Events
from holdfast.store.contract.store import Store

NO_STORE = cast(Store, None)
SOON = 5.0
Batch = tuple[Swept, str | None] | Exception
NOTHING: Batch = (Swept(), None)


class Scripted(Reconciler):
    """Answers batches from a script, then nothing more. Its first sweep is at once."""

    name = "scripted"
    on_due = True

    def __init__(
        self,
        *batches: Batch,
        due: Sequence[float | None] = (),
        events: Events | None = None,
        outage: Outage | None = None,
        interval: float = 1.0,
    ) -> None:
        self._seconds = interval
        super().__init__(NO_STORE, events or Events(), ReconcileOptions(), outage=outage)
        self.cursors: list[str | None] = []
        self._batches = list(batches)
        self._due = list(due)

    @property
    def interval(self) -> float:
        return self._seconds

    async def step(self, cursor: str | None) -> tuple[Swept, str | None]:
        self.cursors.append(cursor)
        batch = self._batches.pop(0) if self._batches else NOTHING
        if isinstance(batch, Exception):
            raise batch
        return batch

    async def due_in(self) -> float | None:
        return self._due.pop(0) if self._due else None


class Waits:
    """Stands for `pause`: time passes at once, and the loop is stopped after some ticks."""

    def __init__(self, stop_after: int) -> None:
        self.ticks: list[float] = []
        self._stop_after = stop_after
        self._first_part = 0.0

    async def __call__(self, seconds: float, stop: asyncio.Event, *more: asyncio.Event) -> None:
        await asyncio.sleep(0)
        if not more:
            self._first_part = max(0.0, seconds)
            return
        self.ticks.append(self._first_part + max(0.0, seconds))
        if len(self.ticks) >= self._stop_after:
            stop.set()


async def waits_of(
    reconciler: Reconciler, ticks: int, monkeypatch: pytest.MonkeyPatch
) -> list[float]:
    """Run that many ticks; how long the loop would have waited after each."""
    waits = Waits(ticks)
    with monkeypatch.context() as patched:
        patched.setattr(reconciler_module, "pause", waits)
        patched.setattr(random, "random", lambda: 0.0)
        await asyncio.wait_for(reconciler.run(asyncio.Event()), SOON)
    return waits.ticks


def collected() -> tuple[Events, list[Event]]:
    seen: list[Event] = []
    return Events(seen.append), seen


def names(seen: Sequence[Event]) -> list[str]:
    return [event.name for event in seen if event.name != "reconciler.swept"]


async def test_a_full_batch_is_followed_at_once_by_the_next_with_its_cursor() -> None:
    full = Swept(found=2, mended=2)
    scripted = Scripted((full, "b"), (full, "d"), (Swept(found=1, mended=1), None))
    assert await scripted.run_once() == Swept(found=5, mended=5)
    assert scripted.cursors == [None, "b", "d"]


async def test_each_sweep_starts_from_the_beginning() -> None:
    scripted = Scripted((Swept(), "b"), NOTHING)
    await scripted.run_once()
    await scripted.run_once()
    assert scripted.cursors == [None, "b", None]


async def test_counters_tell_what_was_found_mended_refused_failed_and_skipped() -> None:
    scripted = Scripted((Swept(9, 4, 2, 2, 1), "x"), (Swept(1, 1), None))
    await scripted.run_once()
    assert scripted.counters.items == Swept(found=10, mended=5, refused=2, failed=2, skipped=1)
    assert scripted.counters.ticks == 1
    assert scripted.counters.seconds == scripted.counters.last_seconds > 0
    assert scripted.counters.errors == 0


async def test_a_sweep_that_found_something_is_an_event_and_an_idle_one_is_not() -> None:
    events, seen = collected()
    scripted = Scripted((Swept(found=3, mended=2, refused=1), None), NOTHING, events=events)
    await scripted.run_once()
    await scripted.run_once()
    assert [event.name for event in seen] == ["reconciler.swept"]
    assert seen[0].fields["mended"] == 2


async def test_an_error_in_a_tick_is_counted_and_reported_and_does_not_stop_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events, seen = collected()
    mended = (Swept(found=1, mended=1), None)
    scripted = Scripted(ValueError("bad row"), mended, events=events)
    await waits_of(scripted, 2, monkeypatch)
    assert names(seen) == ["reconciler.tick_failed"]
    assert scripted.counters.errors == 1
    assert scripted.counters.last_error == "ValueError: bad row"
    assert scripted.counters.items.mended == 1


async def test_what_was_mended_before_an_error_is_still_counted() -> None:
    scripted = Scripted((Swept(found=2, mended=2), "b"), ValueError("bad row"))
    with pytest.raises(ValueError, match="bad row"):
        await scripted.run_once()
    assert scripted.counters.items.mended == 2
    assert scripted.counters.ticks == 1


async def test_errors_that_go_on_make_ticks_rarer_and_a_success_ends_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = [ValueError("bad")] * 7
    scripted = Scripted(*errors, NOTHING, ValueError("bad again"))
    waits = await waits_of(scripted, 9, monkeypatch)
    assert waits == [1.0, 1.0, 1.0, 2.0, 4.0, 5.0, 5.0, 1.0, 1.0]


async def test_a_long_outage_is_one_event_when_it_starts_and_one_when_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events, seen = collected()
    gone = [StoreUnavailable("connection refused")] * 8
    scripted = Scripted(*gone, NOTHING, NOTHING, events=events)
    waits = await waits_of(scripted, 10, monkeypatch)
    assert names(seen) == ["reconcile.store_unavailable", "reconcile.store_back"]
    assert waits[:6] == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0]
    assert scripted.counters.errors == 8


async def test_reconcilers_that_share_an_outage_report_it_once() -> None:
    events, seen = collected()
    outage = Outage(events, "reconcile")
    for name in ("promotion", "deadline", "promotion"):
        outage.failed(name, StoreUnavailable("gone"))
    outage.over("deadline")
    outage.over("retention")
    assert names(seen) == ["reconcile.store_unavailable"]
    outage.over("promotion")
    assert names(seen) == ["reconcile.store_unavailable", "reconcile.store_back"]


async def test_the_loop_waits_its_interval_when_nothing_is_known_to_be_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await waits_of(Scripted(interval=3.0), 2, monkeypatch) == [3.0, 3.0]


class Net(Scripted):
    on_due = False


async def test_nets_leave_the_first_moments_of_a_worker_to_its_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await waits_of(Net(interval=3.0), 2, monkeypatch) == [1.0, 3.0]
    assert await waits_of(Net(interval=0.1), 2, monkeypatch) == [0.1, 0.1]


async def test_an_interval_is_only_ever_shortened_at_random(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted = Scripted(interval=1.0)
    monkeypatch.setattr(random, "random", lambda: 0.999)
    assert 0.9 <= scripted._wait_after(Swept(), None) < 1.0


async def test_the_loop_sleeps_until_the_next_due_time_but_not_past_its_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = await waits_of(Scripted(due=[0.4, 2.5, 999.0], interval=5.0), 3, monkeypatch)
    assert waits == pytest.approx([0.401, 2.501, 5.0])


async def test_due_times_close_together_are_at_least_a_gap_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mended: Batch = (Swept(1, 1), None)
    scripted = Scripted(mended, mended, due=[0.0001, -3.0], interval=5.0)
    assert await waits_of(scripted, 2, monkeypatch) == pytest.approx([0.02, 0.02])


async def test_something_due_that_cannot_be_mended_does_not_make_the_loop_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted = Scripted(due=[-1.0] * 9, interval=1.0)
    waits = await waits_of(scripted, 7, monkeypatch)
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


async def test_a_wake_ends_the_sleep_early() -> None:
    scripted, stop = Scripted(interval=3600.0), asyncio.Event()
    swept = asyncio.Event()
    step = scripted.step

    async def noticed(cursor: str | None) -> tuple[Swept, str | None]:
        swept.set()
        return await step(cursor)

    scripted.step = noticed  # type: ignore[method-assign]  # to see the sweep from outside
    running = asyncio.create_task(scripted.run(stop))
    for _ in range(3):
        await asyncio.wait_for(swept.wait(), SOON)
        swept.clear()
        scripted.wake()
    await asyncio.wait_for(swept.wait(), SOON)
    stop.set()
    await asyncio.wait_for(running, SOON)


async def test_a_wake_during_a_sweep_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted(interval=3600.0)
    stop, sweeps = asyncio.Event(), 0

    async def wake_in_the_middle(cursor: str | None) -> tuple[Swept, str | None]:
        nonlocal sweeps
        sweeps += 1
        if sweeps == 1:
            scripted.wake()
        else:
            stop.set()
        return Swept(), None

    monkeypatch.setattr(scripted, "step", wake_in_the_middle)
    await asyncio.wait_for(scripted.run(stop), SOON)
    assert sweeps == 2


async def test_one_wake_makes_one_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted, stop = Scripted(interval=3600.0), asyncio.Event()
    awake_when_pausing: list[bool] = []

    async def look(seconds: float, stop: asyncio.Event, *more: asyncio.Event) -> None:
        await asyncio.sleep(0)
        if more:
            awake_when_pausing.append(more[0].is_set())
            if len(awake_when_pausing) == 1:
                scripted.wake()
            else:
                stop.set()

    monkeypatch.setattr(reconciler_module, "pause", look)
    await asyncio.wait_for(scripted.run(stop), SOON)
    assert awake_when_pausing == [False, False]


async def test_a_stop_is_seen_between_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted, stop = Scripted(), asyncio.Event()
    batches = 0

    async def endless(cursor: str | None) -> tuple[Swept, str | None]:
        nonlocal batches
        batches += 1
        if batches == 3:
            stop.set()
        return Swept(found=1, mended=1), "more"

    monkeypatch.setattr(scripted, "step", endless)
    await asyncio.wait_for(scripted.run(stop), SOON)
    assert batches == 3


async def test_a_stop_ends_the_sleep() -> None:
    scripted, stop = Scripted(interval=3600.0), asyncio.Event()
    running = asyncio.create_task(scripted.run(stop))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(running, SOON)
