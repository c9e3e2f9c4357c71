"""Several worker processes under one parent, which starts a child again when it dies.

Each child is a full worker with an id and a lease of its own; the parent runs no jobs and holds no
connection. Each child is started in a session of its own. So Ctrl-C in a terminal reaches only the
parent, and the parent passes it on once; otherwise every child would get it twice.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine
from typing import Any

from holdfast.background.backoff import Backoff
from holdfast.worker.os_signals import told_by_signals

logger = logging.getLogger("holdfast")

FIRST_RESTART_SECONDS = 0.2
LONGEST_RESTART_SECONDS = 30.0
STEADY_SECONDS = 30.0
"""A child that ran for so long had started well: its death counts as the first one again."""
WRONG_CALL = 2
"""The exit code of a child that was called wrongly: starting it again would not help."""
HANDOVER_SECONDS = 3.0
"""How long running jobs may go on after code changed; then they are handed back."""


class ProcessGroup:
    """Keeps `count` children alive until told to stop."""

    def __init__(
        self,
        arguments: list[str],
        count: int,
        *,
        name: str | None = None,
        until_done: bool = False,
        restart: bool = True,
    ) -> None:
        self._command = [sys.executable, "-m", "holdfast", *arguments]
        self._count = count
        self._name = name
        self._until_done = until_done
        self._restart = restart
        self._children: dict[int, Process] = {}
        self._stopping = asyncio.Event()
        self._renewed = asyncio.Event()
        self._signals = 0
        self._code = 0
        self.restarts = 0

    async def run(self, beside: Coroutine[Any, Any, None] | None = None) -> int:
        """Run until told to stop, with `beside` running next to the children. Returns the exit
        code: not 0 if the children were called wrongly."""
        companion = None if beside is None else asyncio.create_task(beside)
        with told_by_signals(self._on_signal):
            try:
                await asyncio.gather(*(self._keep(number) for number in range(1, self._count + 1)))
            finally:
                if companion is not None:
                    companion.cancel()
                    await asyncio.gather(companion, return_exceptions=True)
        return self._code

    async def renew(self) -> None:
        """Stop every child and let it be started again, with the code as it is now. Children that
        still run jobs after the handover get a second SIGTERM, which makes them hurry."""
        self._renewed.set()
        before = dict(self._children)
        _signal_all(before, signal.SIGTERM)
        waits = [asyncio.create_task(child.wait()) for child in before.values()]
        if waits:
            await asyncio.wait(waits, timeout=HANDOVER_SECONDS)
            _signal_all(before, signal.SIGTERM)
            await asyncio.wait(waits)

    async def _keep(self, number: int) -> None:
        backoff = Backoff(first=FIRST_RESTART_SECONDS, cap=LONGEST_RESTART_SECONDS)
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            started = loop.time()
            self._renewed.clear()
            code = await self._run_child(number)
            if self._stopping.is_set() or (code == 0 and self._until_done):
                return
            if code == WRONG_CALL and self._restart:
                self._code = code
                self._stop(signal.SIGTERM)
                return
            if loop.time() - started > STEADY_SECONDS:
                backoff.reset()
            await self._before_restart(number, code, backoff.next())

    async def _run_child(self, number: int) -> int:
        named = ["--name", f"{self._name}-{number}"] if self._name else []
        child = await asyncio.create_subprocess_exec(
            *self._command, *named, stdin=PIPE, start_new_session=True
        )
        self._children[number] = child
        if self._stopping.is_set():
            child.send_signal(signal.SIGTERM)
        try:
            return await child.wait()
        finally:
            del self._children[number]

    async def _before_restart(self, number: int, code: int, wait: float) -> None:
        if self._renewed.is_set():
            return
        if not self._restart:
            logger.warning("worker process %s ended (%s); waiting for a change", number, _how(code))
            await _first_of(self._renewed, self._stopping)
            return
        logger.warning(
            "worker process %s ended (%s); starting again in %.1f s", number, _how(code), wait
        )
        self.restarts += 1
        await _first_of(self._stopping, timeout=wait)

    def _on_signal(self, number: signal.Signals) -> None:
        self._stop(number)

    def _stop(self, number: signal.Signals) -> None:
        """Pass a signal on as SIGTERM. The second SIGTERM makes a child hurry; in place of the
        third, children are killed."""
        self._signals += 1
        self._stopping.set()
        logger.info("%s: stopping the worker processes (%s)", number.name, len(self._children))
        _signal_all(self._children, signal.SIGTERM if self._signals < 3 else signal.SIGKILL)


def _signal_all(children: dict[int, Process], number: signal.Signals) -> None:
    for child in children.values():
        if child.returncode is None:
            child.send_signal(number)


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


async def _first_of(*events: asyncio.Event, timeout: float | None = None) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiting in waits:
            waiting.cancel()
