"""worker/lane.py: the slots of one queue."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.worker import lane as lanes
from holdfast.worker.attempt import Attempt
from holdfast.worker.lane import Lane
from tests.support.waiting import wait_until


class Scene:
    """A lane whose handlers a test lets end."""

    def __init__(self, size: int) -> None:
        self.started: list[Attempt] = []
        self.stuck: list[Attempt] = []
        self.running = self.most = 0
        self.gate = asyncio.Semaphore(0)
        self.lane = Lane(size, copy_context(), self.run, self.stuck.extend)

    async def run(self, attempt: Attempt, slot: asyncio.Task[None]) -> None:
        self.started.append(attempt)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.acquire()
        finally:
            self.running -= 1

    def put(self, count: int) -> list[Attempt]:
        now = asyncio.get_running_loop().time()
        attempts = [cast("Attempt", SimpleNamespace(since=now)) for _ in range(count)]
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
    assert scene.started == attempts
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
    scene = Scene(4)

    async def hog(attempt: Attempt, slot: asyncio.Task[None]) -> None:
        scene.started.append(attempt)
        deadline = asyncio.get_running_loop().time() + 0.03
        while asyncio.get_running_loop().time() < deadline:
            pass
        await asyncio.sleep(0)

    scene.lane = Lane(4, copy_context(), hog, scene.stuck.extend)
    attempts = scene.put(3)
    await wait_until(lambda: len(scene.started) == 3, 5, "all ran")
    assert scene.started == attempts
    assert scene.stuck == []
    await scene.close()


async def test_a_slot_that_ends_with_its_handler_is_replaced() -> None:
    scene = Scene(1)

    async def dying(attempt: Attempt, slot: asyncio.Task[None]) -> None:
        scene.started.append(attempt)
        slot.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(1)

    scene.lane = Lane(1, copy_context(), dying, scene.stuck.extend)
    attempts: list[Any] = scene.put(3)
    await turn()
    assert scene.started == attempts
    await scene.close()
