"""Leadership saves work, and is given up when in doubt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.background.leader import Leadership
from holdfast.errors import StoreUnavailable
from holdfast.events import Event, Events
from holdfast.job.ids import WorkerId
from holdfast.store.contract.store import Store

ME = WorkerId("me")


class Register:
    """The store's side: grants or refuses, and counts how often it was asked."""

    def __init__(self) -> None:
        self.grants = True
        self.reachable = True
        self.calls: list[str] = []

    async def lead(self, role: str, worker: WorkerId, ttl: float) -> bool:
        self.calls.append(f"lead {role} {worker} {ttl:g}")
        if not self.reachable:
            raise StoreUnavailable("gone")
        return self.grants

    async def stop_leading(self, role: str, worker: WorkerId) -> None:
        self.calls.append(f"stop_leading {role} {worker}")
        if not self.reachable:
            raise StoreUnavailable("gone")


class Scene:
    def __init__(self) -> None:
        self.register = Register()
        self.seen: list[Event] = []
        self.now = 1000.0
        store = cast(Store, SimpleNamespace(workers=self.register))
        self.leadership = Leadership(
            store, Events(self.seen.append), "rollup", ME, ttl=30, monotonic=lambda: self.now
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_it_is_held_only_after_the_store_granted_it(scene: Scene) -> None:
    assert not scene.leadership.held
    assert await scene.leadership.ensure()
    assert scene.leadership.held


async def test_it_is_not_held_while_another_leads(scene: Scene) -> None:
    scene.register.grants = False
    assert not await scene.leadership.ensure()
    assert not scene.leadership.held


async def test_it_is_extended_after_a_third_of_its_ttl_and_not_before(scene: Scene) -> None:
    await scene.leadership.ensure()
    scene.now += 9.9
    assert await scene.leadership.ensure()
    assert scene.register.calls == ["lead rollup me 30"]
    scene.now += 0.1
    assert await scene.leadership.ensure()
    assert len(scene.register.calls) == 2


async def test_it_is_given_up_when_an_extension_fails(scene: Scene) -> None:
    await scene.leadership.ensure()
    scene.now += 15
    scene.register.reachable = False
    with pytest.raises(StoreUnavailable):
        await scene.leadership.ensure()
    assert not scene.leadership.held


async def test_it_is_in_doubt_when_the_ttl_has_passed_by_the_local_clock(scene: Scene) -> None:
    await scene.leadership.ensure()
    scene.now += 29.9
    assert scene.leadership.held
    scene.now += 0.1
    assert not scene.leadership.held


async def test_a_slow_grant_counts_from_before_the_call(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(role: str, worker: WorkerId, ttl: float) -> bool:
        scene.now += 31
        return True

    monkeypatch.setattr(scene.register, "lead", slow)
    assert not await scene.leadership.ensure()


async def test_resigning_frees_the_role_once(scene: Scene) -> None:
    await scene.leadership.ensure()
    await scene.leadership.resign()
    await scene.leadership.resign()
    assert scene.register.calls == ["lead rollup me 30", "stop_leading rollup me"]
    assert not scene.leadership.held


async def test_who_cannot_resign_leaves_the_role_to_its_ttl(scene: Scene) -> None:
    await scene.leadership.ensure()
    scene.register.reachable = False
    await scene.leadership.resign()
    assert not scene.leadership.held
    assert [event.name for event in scene.seen][-1] == "leader.resign_failed"


async def test_only_a_change_of_leadership_is_an_event(scene: Scene) -> None:
    for _ in range(3):
        await scene.leadership.ensure()
        scene.now += 10
    scene.register.grants = False
    for _ in range(3):
        await scene.leadership.ensure()
    assert [event.name for event in scene.seen] == ["leader.elected", "leader.stepped_down"]
