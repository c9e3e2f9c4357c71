"""One child process of a group, as its parent sees it.

The child's standard input is a socket that it shares with its parent. The parent never writes to
it, and it ends when the parent dies, for any reason: then the child leaves. The child writes a line
about its health twice a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.worker.health import LONGEST_LAG_SECONDS
from holdfast.worker.notify import VARIABLES

LONGEST_LINE = 2**20
LAST_WORDS_SECONDS = 0.5


class Member:
    """A process that was started. `gone` is set at its end, `ready` when it claims jobs for the
    first time, `retiring` when it wants a successor, `drained` when an operator told it to leave.
    `done` is a task that ends with `gone`."""

    def __init__(self, process: Process, line: socket.socket) -> None:
        self.ready, self.retiring = asyncio.Event(), asyncio.Event()
        self.drained = False
        self.gone = asyncio.Event()
        self.started_at = time.monotonic()
        self.code: int | None = None
        self._process = process
        self._health: Mapping[str, Any] = {"live": True, "ready": False, "started": False}
        self._heard: float | None = None
        self._listening = asyncio.create_task(self._listen(line))
        self.done = asyncio.create_task(self._wait())

    @classmethod
    async def start(cls, command: Sequence[str]) -> Member:
        """In a session of its own, so that Ctrl-C in a terminal reaches only the parent. systemd
        is told by the parent alone."""
        environment = {key: value for key, value in os.environ.items() if key not in VARIABLES}
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=theirs.fileno(), start_new_session=True, env=environment
            )
        return cls(process, ours)

    def tell(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    @property
    def health(self) -> dict[str, Any]:
        """What it last said. A child that said something once and is silent now is not live."""
        silent = self._heard is not None and time.monotonic() > self._heard + LONGEST_LAG_SECONDS
        live = bool(self._health["live"]) and not silent
        ready = bool(self._health["ready"]) and not self.gone.is_set()
        return {**self._health, "live": live, "ready": ready, "pid": self._process.pid}

    async def _wait(self) -> int:
        self.code = await self._process.wait()
        # Its last words may still be on their way; a child of the child may hold the socket open.
        await asyncio.wait([self._listening], timeout=LAST_WORDS_SECONDS)
        self._listening.cancel()
        self.gone.set()
        return self.code

    async def _listen(self, line: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=line, limit=LONGEST_LINE)
        try:
            async for text in reader:
                self._hear(text)
        finally:
            writer.close()

    def _hear(self, text: bytes) -> None:
        try:
            said = json.loads(text)
        except ValueError:
            return  # what a handler wrote to its standard input, or half a line
        if not isinstance(said, dict) or not {"live", "ready", "started"} <= said.keys():
            return
        self._health, self._heard = said, time.monotonic()
        if said["ready"]:
            self.ready.set()
        if said.get("leaving") in ("limit", "reload"):
            self.retiring.set()
        self.drained = said.get("leaving") == "drain"
