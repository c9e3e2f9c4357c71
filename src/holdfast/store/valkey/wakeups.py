"""Wakeups on Valkey: one connection that subscribes, and comes back by itself.

A message is `ready:<queue>`, `due`, `cancel:<worker>` or `schedules`. The line is asked now and
then whether it still works, because a peer that vanished without a word (a failover, a dropped
route) is silent exactly like an idle one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import Any

from redis import exceptions

from holdfast.errors import StoreUnavailable
from holdfast.store.contract import Listener, Topic, Wakeup
from holdfast.store.valkey.clients import close_client
from holdfast.store.valkey.connection import Connections

log = logging.getLogger("holdfast.store.valkey")

ASK_EVERY = 15.0
ASK_TIMEOUT = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0

_TOPICS = {topic.value: topic for topic in Topic}
_LOST = (OSError, TimeoutError, StoreUnavailable, exceptions.RedisError)


class ValkeyWakeups:
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
        self._listening.clear()

    async def _keep_listening(self) -> None:
        pause, missed = FIRST_PAUSE, False
        while True:
            try:
                await self._listen(missed)
            except _LOST as error:
                if self._listening.is_set():
                    pause = FIRST_PAUSE
                log.warning("listener lost its connection", extra={"error": str(error)})
            self._listening.clear()
            missed = True
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _listen(self, missed: bool) -> None:
        """One connection's life: raises when it is gone."""
        client = self._connections.listener()
        try:
            async with client.pubsub() as line:
                await line.subscribe(self._connections.channel)
                await self._confirmed(line)
                self._listening.set()
                if missed:
                    self._tell(Wakeup(Topic.READY))
                    self._tell(Wakeup(Topic.DUE))
                    self._tell(Wakeup(Topic.SCHEDULES))
                await self._hear(line)
        finally:
            await close_client(client)

    async def _confirmed(self, line: Any) -> None:
        message = await line.get_message(timeout=ASK_TIMEOUT)
        if message is None or message["type"] != "subscribe":
            raise TimeoutError("the server did not confirm the subscription")

    async def _hear(self, line: Any) -> None:
        asked = False
        while True:
            message = await line.get_message(timeout=ASK_TIMEOUT if asked else ASK_EVERY)
            if message is None:
                if asked:
                    raise TimeoutError("the server does not answer")
                await line.ping()
            elif message["type"] == "message":
                for wakeup in parse(message["data"].decode()):
                    self._tell(wakeup)
            asked = message is None

    def _tell(self, wakeup: Wakeup) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(wakeup)
            except Exception:
                log.exception("a wakeup listener failed", extra={"topic": wakeup.topic.value})


def parse(message: str) -> list[Wakeup]:
    """What a message means; one this version does not know means nothing."""
    topic, _, name = message.partition(":")
    known = _TOPICS.get(topic)
    return [] if known is None else [Wakeup(known, name)]
