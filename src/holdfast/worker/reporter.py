"""Tells others again and again how a program is: systemd, or the parent of its process.

A thread of its own does it, so that a blocked event loop is told too.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import msgspec

from holdfast.worker.health import PRIVATE, AskHealth

logger = logging.getLogger("holdfast")

LOOK_SECONDS = 0.5

Hears = Callable[[Mapping[str, object]], None]


class Reporter:
    """Hands the health on inside its `with` block, and once more at the end."""

    def __init__(self, ask: AskHealth, hears: Hears, look_every: float = LOOK_SECONDS) -> None:
        self._ask = ask
        self._hears = hears
        self._look_every = look_every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-reporter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._tell()

    def _run(self) -> None:
        while not self._over.wait(self._look_every):
            self._tell()

    def _tell(self) -> None:
        try:
            self._hears(self._ask())
        except Exception:
            logger.exception("health could not be told")


class ToParent:
    """Writes the health as one line of JSON to the socket that a child process shares with its
    parent. A line that the parent has no room for is left out: the next one says more."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def __call__(self, health: Mapping[str, object]) -> None:
        shown = {key: value for key, value in health.items() if key not in PRIVATE}
        line = msgspec.json.encode(shown) + b"\n"
        try:
            self._line.send(line, socket.MSG_DONTWAIT)
        except OSError as error:  # no room, or no parent any more: then the child leaves by itself
            logger.debug("the parent was not told: %s", error)
