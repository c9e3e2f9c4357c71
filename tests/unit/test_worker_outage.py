"""When an outage of a worker's store begins and ends, and who is woken by that."""

from __future__ import annotations

import asyncio

from holdfast.background.outage import Outage
from holdfast.errors import StoreUnavailable
from holdfast.events import Event, Events

GONE = StoreUnavailable("gone")


def names(told: list[Event]) -> list[str]:
    return [event.name.removeprefix("worker.store_") for event in told]


def test_an_outage_is_over_when_every_verb_that_failed_is_answered() -> None:
    told: list[Event] = []
    outage = Outage(Events(told.append))
    outage.failed("finish", GONE)
    outage.over("claim")
    outage.failed("claim", GONE)
    outage.over("claim")
    assert names(told) == ["unavailable"]
    outage.over("finish")
    assert names(told) == ["unavailable", "back"]
    assert outage.lasted == 0


def test_a_verb_that_is_not_asked_any_more_keeps_no_outage_going() -> None:
    told: list[Event] = []
    outage = Outage(Events(told.append))
    outage.failed("report_progress", GONE)
    outage.over("report_progress")
    assert names(told) == ["unavailable", "back"]


def test_a_verb_waits_two_seconds_at_most_however_long_the_outage() -> None:
    outage = Outage(Events())
    for _ in range(100):
        outage.failed("finish", GONE)
        assert outage.wait() <= 2.0


async def test_a_verb_that_works_again_makes_the_others_try() -> None:
    outage = Outage(Events())
    for _ in range(12):
        outage.failed("finish", GONE)
    outage.failed("claim", GONE)
    waiting = asyncio.create_task(outage.pause())
    await asyncio.sleep(0)
    outage.over("page")
    await asyncio.sleep(0)
    assert not waiting.done()
    outage.over("claim")
    async with asyncio.timeout(10):
        await waiting
