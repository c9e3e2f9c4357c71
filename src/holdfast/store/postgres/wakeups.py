"""Wakeups on Postgres: one connection that listens, and comes back by itself.

A payload is `ready:mail,default`, `due`, `schedules` or `cancel:<worker>`. The line is asked
now and then whether it still works, because a peer that vanished without a word
(a failover, a dropped route) is silent exactly like an idle one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import Any

import asyncpg

from holdfast.store.contract import Listener, Topic, Wakeup
from holdfast.store.postgres.connection import Connections

log = logging.getLogger("holdfast.store.postgres")

ASK_EVERY = 15.0
ASK_TIMEOUT = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0

_TOPICS = {topic.value: topic for topic in Topic}


class PostgresWakeups:
    """See `holdfast.store.contract.Wakeups`. Without `listen` nobody is ever called."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()

    async def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Returns once the line listens, so that nothing sent after this call is missed;
        or at once while the server is out of reach: the line comes back by itself."""
        self._listeners.append(listener)
        if self._connections.options.listen:
            if self._task is None:
                self._task = asyncio.create_task(self._keep_listening(), name="holdfast-listen")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._listening.wait(), ASK_TIMEOUT)
        return lambda: self._unsubscribe(listener)

    def _unsubscribe(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def close(self) -> None:
        task, self._task = self._task, None
        self._listeners.clear()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_listening(self) -> None:
        pause, missed = FIRST_PAUSE, False
        while True:
            try:
                await self._listen(missed)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                if self._listening.is_set():
                    pause = FIRST_PAUSE
                log.warning("listener lost its connection", extra={"error": str(error)})
            self._listening.clear()
            missed = True
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _listen(self, missed: bool) -> None:
        """One connection's life: returns or raises when it is gone."""
        line = await asyncpg.connect(
            **self._connections.settings(f"{self._connections.role}-listen")
        )
        gone = asyncio.Event()
        line.add_termination_listener(lambda _: gone.set())
        try:
            await line.add_listener(self._connections.options.channel, self._heard)
            self._listening.set()
            if missed:
                for topic in (Topic.READY, Topic.DUE, Topic.SCHEDULES):
                    self._tell(Wakeup(topic))
            while not gone.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(gone.wait(), ASK_EVERY)
                    return
                await line.fetch(self._connections.scripts["ping"], timeout=ASK_TIMEOUT)
        finally:
            line.terminate()

    def _heard(self, _line: Any, _pid: int, _channel: str, payload: Any) -> None:
        for wakeup in parse(str(payload)):
            self._tell(wakeup)

    def _tell(self, wakeup: Wakeup) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(wakeup)
            except Exception:
                log.exception("a wakeup listener failed", extra={"topic": wakeup.topic.value})


def parse(payload: str) -> list[Wakeup]:
    """What a notification means; one this version does not know means nothing."""
    topic, _, names = payload.partition(":")
    known = _TOPICS.get(topic)
    return [] if known is None else [Wakeup(known, name) for name in names.split(",")]
