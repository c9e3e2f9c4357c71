"""What each view of `holdfast top` reads. Every reading is bounded, in rows and in time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec

from holdfast.client.client import Client
from holdfast.client.selection import FilterWords, job_filter
from holdfast.errors import StoreUnavailable
from holdfast.insights.explain import Explanation
from holdfast.insights.life import Life
from holdfast.insights.overview import Minute, Overview
from holdfast.job.what import What
from holdfast.store.contract.failures import Failure
from holdfast.store.contract.records import Page

READ_SECONDS = 5.0
"""How long one reading may take."""
JOBS_SHOWN = 100
FAILURES_SHOWN = 100
TICKS_KEPT = 120


class MovePace:
    """How many jobs were moved between two readings, a second. Only the last minutes can differ
    between two readings, so it does not matter that old ones leave the span."""

    def __init__(self) -> None:
        self._before: dict[datetime, dict[What, int]] | None = None
        self._at = 0.0
        self.ticks: deque[Minute] = deque(maxlen=TICKS_KEPT)

    def add(self, seen: Overview, at: float) -> None:
        found = {minute.at: minute.counts for minute in seen.minutes[-3:]}
        if self._before is not None:
            seconds = max(0.001, at - self._at)
            self.ticks.append(Minute(seen.now, _rates(found, self._before, seconds)))
        self._before, self._at = found, at


def _rates(
    now: Mapping[datetime, Mapping[What, int]],
    before: Mapping[datetime, Mapping[What, int]],
    seconds: float,
) -> dict[What, int]:
    rates: dict[What, int] = {}
    for minute, counts in now.items():
        known = before.get(minute, {})
        for what, number in counts.items():
            rates[what] = rates.get(what, 0) + number - known.get(what, 0)
    return {what: round(number / seconds) for what, number in rates.items()}


class Wanted(msgspec.Struct):
    """Which jobs are listed: the filter as it was typed, and where the page begins."""

    where: str = ""
    cursors: list[str] = msgspec.field(default_factory=list)

    @classmethod
    def check_text(cls, where: str) -> None:
        """Raise `BadOption` for a filter that cannot be read."""
        job_filter(**cls(where).words)

    @property
    def words(self) -> FilterWords:
        return {"where": self.where} if self.where.strip() else {}


class TopReader:
    """Reads one open store for one viewer, who sees no secrets. `pace` hears of every overview."""

    def __init__(self, client: Client, pace: MovePace) -> None:
        self._client = client
        self._pace = pace

    async def overview(self) -> Overview:
        async with _in_time():
            seen = await self._client.telemetry.overview()
            self._pace.add(seen, time.monotonic())
            return await self._client.shown.overview(seen)

    async def jobs(self, wanted: Wanted) -> Page:
        cursor = wanted.cursors[-1] if wanted.cursors else None
        async with _in_time():
            page = await self._client.page(limit=JOBS_SHOWN, cursor=cursor, **wanted.words)
            return await self._client.shown.page(page)

    async def failures(self) -> list[Failure]:
        async with _in_time():
            page = await self._client.failures.page(muted=True, limit=FAILURES_SHOWN)
            return await self._client.shown.failures(page.failures)

    async def job(self, job_id: str) -> tuple[Explanation, Life]:
        """Why it is not running now, and what has happened to it."""
        client = self._client
        async with _in_time():
            explanation = await client.shown.explanation(await client.explain(job_id))
            return explanation, await client.shown.life(await client.life(job_id))


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """A reading that takes too long is told as a store that does not answer."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            yield
    except TimeoutError:
        raise StoreUnavailable(f"no answer within {READ_SECONDS:g} s") from None
