"""Counters of a server that restarts: they go on from where they were."""

from __future__ import annotations

import signal

from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.testing.servers import ThrowawayValkey, find_valkey
from tests.conformance.builders import Scene
from tests.support.backends import opened
from tests.unit.test_metrics import Labels, read


async def counters(scene: Scene) -> dict[Labels, float]:
    return read(await Client(scene.store).telemetry.metrics())["holdfast_jobs_total"]


async def test_no_counter_goes_down_when_the_server_and_all_programs_restart(
    clock: ManualClock,
) -> None:
    with ThrowawayValkey(find_valkey(), fsync="always") as server:
        url = server.new_namespace()
        async with opened(url, clock) as store:
            scene = await Scene.on(store, clock)
            await scene.ended()
            clock.advance(minutes=2)
            await store.telemetry.fold(100)
            await scene.enqueue_many(5)
            before = await counters(scene)
        for how in (signal.SIGTERM, signal.SIGKILL):
            server.restart(how)
            async with opened(url, clock) as store:
                assert await counters(Scene(store, clock, scene.worker)) == before
    assert sum(before.values()) == 8
