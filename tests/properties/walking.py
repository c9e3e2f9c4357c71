"""Walks of one job through steps that hypothesis draws, checked after each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.clock import ManualClock
from holdfast.job.ids import JobId
from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene


class Walks(Protocol):
    async def step(self, word: str) -> None: ...
    async def check(self) -> None: ...
    async def finish(self) -> None: ...


async def walked(
    begin: Callable[[Scene, JobId], Walks], store: Store, clock: ManualClock, steps: list[str]
) -> None:
    scene = await Scene.on(store, clock)
    walk = begin(scene, await scene.enqueue())
    for word in steps:
        await walk.step(word)
        await walk.check()
    await walk.finish()
    await store.workers.deregister(scene.worker)
