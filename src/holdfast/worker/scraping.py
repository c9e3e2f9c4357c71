"""Reads the store for whoever scrapes a worker's health port.

The figures are those of the whole store, so all workers would give the same. A scrape reads
through a store of its own in a thread of its own: it is answered while the worker's loop is
blocked and while its connections are all in use. Figures are kept for some seconds, so however
many ask one process, its store is asked a few times a minute.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from holdfast.errors import StoreError
from holdfast.insights.figures import SCRAPE_SECONDS, figures_of
from holdfast.job.text import describe
from holdfast.store.contract.store import Store
from holdfast.telemetry.of_store import Figures

logger = logging.getLogger("holdfast")

KEPT_SECONDS = 5.0


class Scraper:
    """Any thread may ask. `make_store` gives a store that is not open. An answer that failed is
    kept as long as a good one: a store in trouble must not be asked more often."""

    def __init__(
        self,
        make_store: Callable[[], Store],
        timeout: float = SCRAPE_SECONDS,
        kept: float = KEPT_SECONDS,
    ) -> None:
        self._make_store = make_store
        self._timeout = timeout
        self._kept = kept
        self._turn = threading.Lock()
        self._reading: Future[Figures | None] | None = None
        self._ended_at = 0.0
        self._failing = False

    @property
    def kind(self) -> str:
        return self._make_store().kind

    def figures(self) -> Figures | None:
        """None if the store does not answer in time. Whoever asks while a reading goes on shares
        it. A store that is silent may keep a reading for longer than anybody waits: to close a
        connection takes time too."""
        try:
            return self._current().result(self._timeout)
        except TimeoutError:
            self._tell(f"no answer within {self._timeout:g} s")
            return None

    def _current(self) -> Future[Figures | None]:
        with self._turn:
            reading = self._reading
            if reading is None or (reading.done() and self._is_old()):
                reading = self._reading = Future()
                threading.Thread(
                    target=self._read, args=(reading,), name="holdfast-scrape", daemon=True
                ).start()
            return reading

    def _is_old(self) -> bool:
        return time.monotonic() - self._ended_at > self._kept

    def _read(self, reading: Future[Figures | None]) -> None:
        """In a thread of its own."""
        found = None
        try:
            found = asyncio.run(figures_of(self._make_store(), self._timeout))
            self._failing = False
        except StoreError as error:
            self._tell(describe(error))
        except Exception:
            logger.exception("the store cannot be scraped")
        finally:
            self._ended_at = time.monotonic()
            reading.set_result(found)

    def _tell(self, why: str) -> None:
        """Once for each trouble: scrapes come all day long."""
        if not self._failing:
            self._failing = True
            logger.warning("the store cannot be scraped: %s", why)
