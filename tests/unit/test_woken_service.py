"""A service that the store wakes: subscribed while its loops run, and not a moment longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.background.woken_service import WokenService
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Listener, Topic, Wakeup
from tests.support.leaks import nothing_leaks

DUE = Wakeup(Topic.DUE, "")


class Bell:
    """The store's wakeups: rings for whoever is subscribed."""

    def __init__(self) -> None:
        self.listeners: list[tuple[Listener, Set[Topic]]] = []

    async def subscribe(self, listener: Listener, topics: Set[Topic]) -> Callable[[], None]:
        subscription = (listener, topics)
        self.listeners.append(subscription)
        return lambda: self.listeners.remove(subscription)

    def ring(self, wakeup: Wakeup) -> None:
        for listener, topics in self.listeners:
            if wakeup.topic in topics:
                listener(wakeup)


class Waiting:
    """A loop that waits for its end."""

    name = "waiting"

    def __init__(self) -> None:
        self.running = False

    async def run(self, stop: asyncio.Event) -> None:
        self.running = True
        await stop.wait()
        self.running = False


class Woken(WokenService):
    name = "woken"
    topics = frozenset({Topic.DUE})

    def __init__(self, bell: Bell) -> None:
        self.loop = Waiting()
        self.reachable = True
        self.told: list[str] = []
        store = cast(Store, SimpleNamespace(wakeups=bell))
        super().__init__(store, Events(), [self.loop], grace=1.0)

    async def before_loops(self) -> None:
        if not self.reachable:
            raise StoreUnavailable("gone")
        self.told.append(f"before, running: {self.loop.running}")

    async def after_loops(self) -> None:
        self.told.append(f"after, running: {self.loop.running}")

    def wake(self, wakeup: Wakeup) -> None:
        self.told.append(wakeup.topic)


async def test_it_is_woken_from_its_start_to_its_stop() -> None:
    bell = Bell()
    service = Woken(bell)
    async with nothing_leaks():
        bell.ring(DUE)
        await service.start()
        await asyncio.sleep(0)
        assert service.loop.running
        bell.ring(DUE)
        bell.ring(Wakeup(Topic.SCHEDULES, ""))
        await service.stop()
        bell.ring(DUE)
    assert service.told == ["before, running: False", Topic.DUE, "after, running: False"]


async def test_a_second_start_changes_nothing() -> None:
    bell = Bell()
    service = Woken(bell)
    await asyncio.gather(service.start(), service.start())
    bell.ring(DUE)
    assert service.told == ["before, running: False", Topic.DUE]
    await service.stop()


async def test_a_start_that_failed_leaves_nothing_and_can_be_repeated() -> None:
    bell = Bell()
    service = Woken(bell)
    service.reachable = False
    with pytest.raises(StoreUnavailable):
        await service.start()
    assert not bell.listeners
    assert not service.loop.running
    service.reachable = True
    await service.start()
    assert service.told == ["before, running: False"]
    await service.stop()
