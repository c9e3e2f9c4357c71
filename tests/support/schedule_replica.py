"""A replica as a process of its own: evaluates all schedules again and again until it is killed.

The store's clock is a file that the test writes; the process's own clock is wrong by `skew`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from holdfast import clock as own_clock
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.schedule.evaluator import Evaluator
from holdfast.store.open import open_store


class FileClock:
    """The time that a file tells: the same for every process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def override(self) -> datetime | None:
        return datetime.fromtimestamp(float(self._path.read_text()), UTC)

    def set(self, moment: datetime) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text(repr(moment.timestamp()))
        fresh.replace(self._path)


async def evaluate_until_killed(url: str, path: Path, skew: float) -> None:
    real = time.time
    time.time = lambda: real() + skew
    own_clock.utcnow = lambda: datetime.fromtimestamp(real() + skew, UTC)
    store = open_store(url, clock=FileClock(path))
    await store.open()
    evaluator = Evaluator(store, Events(), monotonic=lambda: time.monotonic() + skew)
    while True:
        try:
            await evaluator.run_once()
        except StoreUnavailable as error:
            print(f"the store is away: {error}", file=sys.stderr)
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    asyncio.run(evaluate_until_killed(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))
