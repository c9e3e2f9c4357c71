"""How a worker's process ends when it cannot end by itself.

A loop that does not turn, a thread that does not come back or a store that does not answer may
keep a process for ever. Only a program that is nothing but a worker may be ended like this: the
command line asks for it, and an embedded worker never does.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from types import TracebackType
from typing import Final, NoReturn, Self

logger = logging.getLogger("holdfast")

LATE: Final = 3
"""Exit code of a process that was told to leave and could not in time."""
FROZEN: Final = 4
"""Exit code of a process whose event loop did not turn."""
FLUSH_SECONDS = 0.5
"""Seconds that flushing the logs may take."""


class LastResort:
    """Ends the process when its time is over, unless the `with` block ends before."""

    def __init__(self) -> None:
        self._by = math.inf
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._by = math.inf
            self._changed.notify()

    def arm(self, seconds: float) -> None:
        """End the process in so many seconds. A later call can only make that sooner. Any thread
        may call this."""
        with self._changed:
            self._by = min(self._by, time.monotonic() + seconds)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._wait, name="holdfast-last-resort", daemon=True
                )
                self._thread.start()

    def _wait(self) -> None:
        with self._changed:
            while (left := self._by - time.monotonic()) > 0:
                if left == math.inf:
                    self._thread = None
                    return
                self._changed.wait(left)
        self.leave(LATE, "the worker could not leave in time")

    def leave(self, code: int, why: str) -> NoReturn:
        """End the process at once. Its children are killed first: they would go on with jobs that
        this worker has given up. Where nobody imported `multiprocessing`, there are none."""
        if (used := sys.modules.get("multiprocessing")) is not None:
            for child in used.active_children():
                child.kill()
        words = threading.Thread(target=_say, args=(code, why), daemon=True)
        words.start()
        words.join(FLUSH_SECONDS)
        os._exit(code)


def _say(code: int, why: str) -> None:
    """Runs in a thread of its own: the blocked thread may hold the lock of a log."""
    logger.error("%s: its process ends with exit code %s", why, code)
    for handler in (*logging.getLogger().handlers, *logger.handlers):
        handler.flush()
    sys.stdout.flush()
    sys.stderr.flush()
