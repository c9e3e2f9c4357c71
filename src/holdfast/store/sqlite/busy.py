"""Trying again while another process holds the lock.

SQLite's own busy handler sleeps up to 100 ms between tries. Trying again every millisecond or
so, with jitter, lets many processes take turns instead.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.errors import StoreUnavailable
from holdfast.store.sqlite.errors import OF_THE_ROW, is_busy, named

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.0005
LONGEST_PAUSE_SECONDS = 0.005
OVERTAKEN_SECONDS = 0.025
"""After a wait of so long, other processes have plainly had the lock several times."""
EAGER_PAUSE_SECONDS = 0.002
"""The pause of an overtaken process: short enough to meet the gap that the others then leave."""


class BusyRetry:
    """Repeats work until it finds the lock free, and names all other errors of the driver.

    Gives up after `seconds`, and at once while the store is being closed: closing would otherwise
    take as long. `on_overtaken` is called whenever the lock is found taken after a long wait.
    """

    def __init__(self, seconds: float, where: str, on_overtaken: Callable[[], None]) -> None:
        self._seconds = seconds
        self._where = where
        self._on_overtaken = on_overtaken
        self.is_closing = False

    def run(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        began, pause = time.monotonic(), FIRST_PAUSE_SECONDS
        while True:
            try:
                return work(*args, **kwargs)
            except (sqlite3.Error, *OF_THE_ROW) as error:
                if not is_busy(error):
                    raise named(error, self._where) from error
                lasted = time.monotonic() - began
                if lasted > self._seconds or self.is_closing:
                    raise self._gave_up() from error
            if lasted > OVERTAKEN_SECONDS:
                self._on_overtaken()
                pause = EAGER_PAUSE_SECONDS
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    def _gave_up(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._where} was busy for {self._seconds:g} s: another program holds a write "
            "transaction open; end it, or raise busy_timeout in the URL"
        )
