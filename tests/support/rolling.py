"""Replicas of the schedule service that are restarted one after the other."""

from __future__ import annotations

import asyncio

from holdfast.clock import ManualClock
from holdfast.events import Events
from holdfast.schedule.model import Decision
from holdfast.schedule.service import ScheduleService
from tests.support.backends import Backend, opened, siblings
from tests.support.schedule_scene import Scene
from tests.support.waiting import wait_until


async def rolling_restarts(backend: Backend, restarts: int, pause: float = 2.3) -> list[Decision]:
    """Two replicas; the older one leaves and a while later a new one comes, again and again."""
    async with opened(await backend.empty()) as store, siblings(store, restarts + 2) as stores:
        scene = Scene(store, ManualClock())
        replicas = [ScheduleService(each, Events(), {}) for each in stores]
        await replicas[0].start()
        await replicas[1].start()
        await scene.declare(every=1)
        for number in range(restarts):
            await replicas[number].stop()
            await asyncio.sleep(pause)  # a program takes a while to start
            await replicas[number + 2].start()
        seen = len(await scene.rows())

        async def goes_on() -> bool:
            return len(await scene.rows()) > seen

        await wait_until(goes_on, 5, "a plan after the last restart")
        for replica in replicas:
            await replica.stop()
        return [row.decision for row in await scene.rows()]
