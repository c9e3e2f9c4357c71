"""Tells systemd how the program is (the protocol of `sd_notify`), if systemd asks for it.

A unit of `Type=notify` counts as started with READY=1. With `WatchdogSec=` systemd restarts the
program if no WATCHDOG=1 comes for so long. Each message is a datagram to the socket that the
environment names.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping

logger = logging.getLogger("holdfast")

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Systemd:
    """The way to systemd. Call it with the health of the program, again and again."""

    def __init__(self, path: str, watchdog: float | None) -> None:
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        self._watchdog = watchdog
        self._told = ""
        self._fed = float("-inf")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Systemd | None:
        """None where no systemd listens."""
        path = environ.get("NOTIFY_SOCKET", "")
        if not path.startswith(("/", "@")):
            return None
        microseconds, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID")
        fed = microseconds.isdecimal() and pid in (None, str(os.getpid()))
        return cls(path, int(microseconds) / 1e6 if fed else None)

    @property
    def look_every(self) -> float | None:
        """How often it must be called, in seconds; None if that does not matter."""
        return None if self._watchdog is None else self._watchdog / 4

    def __call__(self, health: Mapping[str, object]) -> None:
        """Each change is told once. WATCHDOG=1 is told while the program is live, three times in
        the time that systemd grants."""
        leaving = health.get("leaving")
        if leaving == "reload":
            microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
            self._change_to("RELOADING=1", f"MONOTONIC_USEC={microseconds}")
        elif leaving in ("stop", "drain"):
            self._change_to("STOPPING=1")
        elif health["ready"]:
            self._change_to("READY=1")
        now = time.monotonic()
        if self._watchdog is not None and health["live"] and now >= self._fed + self._watchdog / 3:
            self._fed = now
            self.tell("WATCHDOG=1")

    def _change_to(self, state: str, *more: str) -> None:
        if state != self._told:
            self._told = state
            self.tell(state, *more)

    def tell(self, *lines: str) -> None:
        """A systemd that is not there any more must not harm the program."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
                line.setblocking(False)
                line.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            logger.debug("systemd was not told %s: %s", lines[0], error)
