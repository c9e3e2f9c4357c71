"""A server of our own on a free port, gone without trace when it is stopped or we are."""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from holdfast.testing.servers.server import ServerFailed, ServerForTests
from holdfast.testing.servers.watchdog import Watchdog

PORT_TRIES = 10


class Throwaway(ServerForTests):
    """Has a directory of its own, and whoever owns it stops it."""

    port_is_taken: ClassVar[str]
    """What the server says where another program has its port."""
    _watchdog: Watchdog | None = None
    _owner = 0

    def start(self) -> None:
        if self._watchdog is not None:
            return
        self._watchdog = self._new_watchdog()
        self._owner = os.getpid()
        try:
            self._prepare()
            self._serve_on_a_free_port()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """In a forked child this does nothing: the server is its parent's."""
        if self._watchdog is None or self._owner != os.getpid():
            return
        self._watchdog.release()
        self._watchdog = None

    @property
    def directory(self) -> Path:
        if self._watchdog is None:
            raise ServerFailed("asking a server for its directory", "it was not started")
        return self._watchdog.directory

    @abstractmethod
    def _new_watchdog(self) -> Watchdog: ...

    def _prepare(self) -> None:
        """Fill the directory, once."""

    @abstractmethod
    def _take_port(self) -> None:
        """Choose a port that is free, and write it down for the server."""

    @abstractmethod
    def resume(self) -> None: ...

    def _serve_on_a_free_port(self) -> None:
        """A port that was free a moment ago may be taken by now: then the next one."""
        for tries_left in reversed(range(PORT_TRIES)):
            self._take_port()
            try:
                self.resume()
                return
            except ServerFailed as failed:
                if not tries_left or self.port_is_taken not in failed.output:
                    raise

    def _log(self) -> str:
        log = self.directory / "log"
        return log.read_text(errors="replace")[-4000:] if log.exists() else ""
