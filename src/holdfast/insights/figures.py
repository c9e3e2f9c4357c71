"""Reads what the metrics of a store tell: nine questions, whose cost grows with queues, tasks,
workers and schedules, never with jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.schedule.model import Schedule
from holdfast.schedule.status import undecided_for
from holdfast.store.contract.store import Store
from holdfast.telemetry.of_store import Figures, ScheduleFigures

SCRAPE_SECONDS = 5.0
"""How long a scrape may take. Prometheus waits for ten seconds."""
CLOSE_SECONDS = 1.0


async def read_figures(store: Store, timeout: float = SCRAPE_SECONDS) -> Figures:
    """Read an open store. Raises `StoreUnavailable` after so many seconds without all answers."""
    with _bounded(timeout) as bound:
        async with bound:
            return await _read(store)


async def figures_of(store: Store, timeout: float = SCRAPE_SECONDS) -> Figures:
    """Open a store, read it and close it again, all within the same bound."""
    try:
        with _bounded(timeout) as bound:
            async with bound:
                await store.open()
                return await _read(store)
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await store.close()


@contextmanager
def _bounded(seconds: float) -> Iterator[asyncio.Timeout]:
    try:
        yield asyncio.timeout(seconds)
    except TimeoutError:
        raise StoreUnavailable(f"the store did not answer within {seconds:g} s") from None


async def _read(store: Store) -> Figures:
    now = await store.now()
    schedules = await store.schedules.find()
    cursors = await store.schedules.own_cursors() if schedules else {}
    return Figures(
        kind=store.kind,
        totals=await store.telemetry.totals(),
        tallies=await store.telemetry.tallies(),
        queues=await store.queues.find(),
        paused=await store.queues.paused(),
        workers=await store.workers.find(),
        counts=await store.workers.counts(),
        times=await store.telemetry.times(),
        schedules={one.name: _about(one, cursors.get(one.name), now) for one in schedules},
    )


def _about(schedule: Schedule, cursor: datetime | None, now: datetime) -> ScheduleFigures:
    """Only a planner knows when its plans are due. A rule that cannot be read is failing."""
    if schedule.definition.planner is not None:
        return ScheduleFigures(None, schedule.error is not None)
    try:
        late = undecided_for(schedule, cursor, now).total_seconds()
    except HoldfastError:
        return ScheduleFigures(None, failing=True)
    return ScheduleFigures(max(0.0, late), schedule.error is not None)
