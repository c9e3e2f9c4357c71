"""Loops wait for a time or for whichever event comes first."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.background.backoff import Backoff, pause
from tests.support.leaks import nothing_leaks

SOON = 5.0
EVER = 3600.0


@pytest.mark.parametrize("which", [0, 1])
async def test_either_of_two_events_ends_a_pause_that_has_begun(which: int) -> None:
    events = asyncio.Event(), asyncio.Event()
    async with nothing_leaks():
        pausing = asyncio.create_task(pause(EVER, *events))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not pausing.done()
        events[which].set()
        await asyncio.wait_for(pausing, SOON)


async def test_an_event_that_is_already_set_allows_no_pause() -> None:
    event = asyncio.Event()
    event.set()
    await asyncio.wait_for(pause(EVER, asyncio.Event(), event), SOON)


async def test_time_ends_a_pause() -> None:
    async with nothing_leaks():
        await asyncio.wait_for(pause(0.001, asyncio.Event()), SOON)


async def test_a_cancelled_pause_leaves_nothing() -> None:
    async with nothing_leaks():
        pausing = asyncio.create_task(pause(EVER, asyncio.Event()))
        await asyncio.sleep(0)
        pausing.cancel()
        await asyncio.wait([pausing])


def test_a_backoff_doubles_up_to_its_cap_and_starts_over_when_reset() -> None:
    backoff = Backoff(first=1.0, cap=5.0)
    assert [backoff.next() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.reset()
    assert backoff.next() == 1.0
