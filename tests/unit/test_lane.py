"""worker/lane.py: the slots of one queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.job.transition import Transition
from holdfast.worker import lane as lanes
from holdfast.worker.attempt import Attempt
from holdfast.worker.lane import Lane
from tests.support.waiting import wait_until


class Scene:
    """A lane whose handlers a test lets end: its executor, and who holds its attempts."""

    def __init__(self, size: int) -> None:
        self.started: list[Attempt] = []
        self.ended: list[Attempt] = []
        self.stuck: list[Attempt] = []
        self.running = self.most = 0
        self.gate = asyncio.Semaphore(0)
        self.lane = Lane(size, copy_context(), self, self)

    def end(self, attempt: Attempt, transition: Transition | None) -> None:
        self.ended.append(attempt)

    def hand_back(self, attempts: Iterable[Attempt]) -> None:
        self.stuck.extend(attempts)

    async def run(self, attempt: Attempt) -> Transition | None:
        self.started.append(attempt)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.acquire()
            return None
        finally:
            self.running -= 1

    def put(self, count: int) -> list[Attempt]:
        now = asyncio.get_running_loop().time()
        attempts = [cast("Attempt", SimpleNamespace(job=None, since=now)) for _ in range(count)]
        self.lane.put(attempts)
        return attempts

    def let_end(self, count: int) -> None:
        for _ in range(count):
            self.gate.release()

    async def close(self) -> None:
        self.lane.close()
        await asyncio.gather(*self.lane.slots, return_exceptions=True)


async def turn() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_run_at_once_than_there_are_slots() -> None:
    scene = Scene(2)
    attempts = scene.put(7)
    await turn()
    assert scene.started == attempts[:2]
    scene.let_end(7)
    await turn()
    assert scene.started == scene.ended == attempts
    assert scene.most == 2
    await scene.close()


async def test_what_has_not_started_can_be_taken_away() -> None:
    scene = Scene(1)
    attempts = scene.put(3)
    await turn()
    assert scene.lane.take_waiting() == attempts[1:]
    scene.let_end(3)
    await turn()
    assert scene.started == attempts[:1]
    await scene.close()


async def test_attempts_behind_handlers_that_turned_slow_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "LONGEST_WAIT", 0.01)
    scene = Scene(2)
    attempts = scene.put(5)
    await wait_until(lambda: bool(scene.stuck), 5, "the waiting are given up")
    assert scene.stuck == attempts[2:]
    scene.let_end(2)
    await turn()
    assert scene.started == attempts[:2]
    await scene.close()


async def test_attempts_that_a_busy_loop_keeps_waiting_are_not_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "LONGEST_WAIT", 0.01)

    class Hogging(Scene):
        async def run(self, attempt: Attempt) -> Transition | None:
            self.started.append(attempt)
            deadline = asyncio.get_running_loop().time() + 0.03
            while asyncio.get_running_loop().time() < deadline:
                pass
            await asyncio.sleep(0)
            return None

    scene = Hogging(4)
    attempts = scene.put(3)
    await wait_until(lambda: len(scene.started) == 3, 5, "all ran")
    assert scene.started == attempts
    assert scene.stuck == []
    await scene.close()


async def test_a_slot_that_ends_with_its_handler_is_replaced() -> None:
    class Dying(Scene):
        async def run(self, attempt: Attempt) -> Transition | None:
            self.started.append(attempt)
            slot = asyncio.current_task()
            assert slot is not None
            slot.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(1)
            return None

    scene = Dying(1)
    attempts: list[Any] = scene.put(3)
    await turn()
    assert scene.started == attempts
    await scene.close()


async def test_a_lane_that_grows_runs_more_at_once() -> None:
    scene = Scene(1)
    attempts = scene.put(4)
    await turn()
    scene.lane.resize(3)
    await turn()
    assert scene.started == attempts[:3]
    scene.let_end(4)
    await turn()
    assert (scene.started, scene.most) == (attempts, 3)
    await scene.close()


async def test_a_lane_that_shrinks_cancels_nothing_and_runs_fewer_from_then_on() -> None:
    scene = Scene(3)
    first = scene.put(3)
    await turn()
    scene.lane.resize(1)
    rest = scene.put(3)
    await turn()
    assert (scene.started, scene.running, scene.ended) == (first, 3, [])
    scene.let_end(2)
    await turn()
    assert (scene.started, scene.running, len(scene.lane.slots)) == (first, 1, 1)
    scene.let_end(1)
    await turn()
    assert (scene.started, scene.running) == (first + rest[:1], 1)
    scene.let_end(3)
    await turn()
    assert scene.ended == first + rest
    await scene.close()


async def test_idle_slots_of_a_lane_that_shrinks_end_at_once() -> None:
    scene = Scene(4)
    scene.put(4)
    await turn()
    scene.let_end(4)
    await turn()
    assert len(scene.lane.slots) == 4
    scene.lane.resize(1)
    await turn()
    assert len(scene.lane.slots) == 1
    attempts = scene.put(2)
    await turn()
    assert (scene.started[4:], scene.running) == (attempts[:1], 1)
    scene.let_end(2)
    await turn()
    assert scene.started[4:] == attempts
    await scene.close()


async def test_a_lane_without_slots_lets_what_runs_end_and_gives_the_waiting_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "LONGEST_WAIT", 0.01)
    scene = Scene(1)
    [running] = scene.put(1)
    await turn()
    scene.lane.resize(0)
    waiting = scene.put(2)
    await wait_until(lambda: bool(scene.stuck), 5, "the waiting are given up")
    assert scene.stuck == waiting
    scene.let_end(1)
    await turn()
    assert (scene.ended, scene.lane.slots) == ([running], set())
    scene.lane.resize(1)
    again = scene.put(1)
    await turn()
    assert scene.started == [running, *again]
    await scene.close()
