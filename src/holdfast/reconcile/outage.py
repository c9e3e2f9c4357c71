"""One event when the store goes out of reach, one when it is back, however many noticed."""

from __future__ import annotations

import time

from holdfast.errors import StoreUnavailable
from holdfast.events import Events


class Outage:
    """Shared by all reconcilers of a process.

    It lasts from the first that could not reach the store until all who could
    not have reached it again, so one verb that fails among others that work
    does not make it flap.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._cut_off: set[str] = set()
        self._began = 0.0

    def noticed(self, name: str, error: StoreUnavailable) -> None:
        if not self._cut_off:
            self._began = time.monotonic()
            self._events.warning("reconcile.store_unavailable", reconciler=name, error=str(error))
        self._cut_off.add(name)

    def over(self, name: str) -> None:
        if name not in self._cut_off:
            return
        self._cut_off.remove(name)
        if not self._cut_off:
            lasted = time.monotonic() - self._began
            self._events.info("reconcile.store_back", reconciler=name, seconds=round(lasted, 3))
