"""A Valkey that is killed, cut off, frozen and made to forget again and again."""

from __future__ import annotations

import asyncio
import random

import pytest

from holdfast.app import App
from holdfast.testing.servers import ThrowawayValkey
from tests.support.load import everything_happened_once, finish, more_jobs_return, under_load
from tests.support.processes import Fleet
from tests.system.test_valkey_outages import (
    asleep_for,
    durable_valkey,
    killed_again_and_again,
    shared_url,
)

__all__ = ["durable_valkey", "shared_url"]

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

FAULTS = 30


async def test_five_seconds_without_an_answer_are_waited_out(
    fleet: Fleet, app: App, durable_valkey: ThrowawayValkey
) -> None:
    await asleep_for(fleet, app, durable_valkey, seconds=5.0)


async def test_many_kills_lose_nothing(
    fleet: Fleet, app: App, durable_valkey: ThrowawayValkey
) -> None:
    await killed_again_and_again(fleet, app, durable_valkey, times=20)


async def test_a_minute_of_every_fault_loses_nothing(
    fleet: Fleet, app: App, durable_valkey: ThrowawayValkey
) -> None:
    chance = random.Random(6)
    faults = (
        ("SCRIPT", "FLUSH"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("CLIENT", "KILL", "TYPE", "pubsub"),
        ("DEBUG", "SLEEP", "0.5"),
    )
    workers, enqueuer = await under_load(fleet)
    for _ in range(FAULTS):
        if chance.random() < 0.3:
            await asyncio.to_thread(durable_valkey.restart)
        else:
            await asyncio.to_thread(durable_valkey.say, *chance.choice(faults))
        await more_jobs_return(fleet, chance.randrange(10, 200))
    await finish(fleet, app, enqueuer)
    assert all(worker.alive for worker in workers)
    await everything_happened_once(fleet, app)
