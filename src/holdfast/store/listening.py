"""Wakeups over one connection that listens, and comes back by itself.

What a line says is `ready:mail=1,default` (one job, and some), `due`, `schedules` or
`cancel:<worker>`. A backend only knows how to hold one line; losing it, waiting, and telling the
listeners what they may have missed is the same everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable

from holdfast.store.contract import Listener
from holdfast.store.records import Topic, Wakeup

log = logging.getLogger("holdfast.store")

ASK_EVERY = 15.0
"""Seconds of silence after which a line is asked whether it still works: a peer that vanished
without a word (a failover, a dropped route) is silent exactly like an idle one."""
ASK_TIMEOUT = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0

_TOPICS = {topic.value: topic for topic in Topic}


class LineWakeups(ABC):
    """See `holdfast.store.contract.Wakeups`. Without `listen` nobody is ever called."""

    def __init__(self, *, listen: bool) -> None:
        self._listen = listen
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._missed = False

    @abstractmethod
    async def hold_a_line(self) -> None:
        """One connection's life: call `up` when it listens and `heard` for what it says;
        return or raise when it is gone."""

    async def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Returns once the line listens, so that nothing sent after this call is missed;
        or at once while the server is out of reach: the line comes back by itself."""
        self._listeners.append(listener)
        if self._listen:
            if self._task is None:
                self._task = asyncio.create_task(self._keep_listening(), name="holdfast-listen")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._listening.wait(), ASK_TIMEOUT)
        return lambda: self._unsubscribe(listener)

    async def close(self) -> None:
        task, self._task = self._task, None
        self._listeners.clear()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._listening.clear()
        self._missed = False

    @property
    def hears(self) -> bool:
        return self._listening.is_set()

    def up(self) -> None:
        """The line listens from now on; what was said before it did may have been missed."""
        self._listening.set()
        if self._missed:
            for topic in (Topic.READY, Topic.DUE, Topic.SCHEDULES):
                self.tell(Wakeup(topic))

    def heard(self, message: str) -> None:
        for wakeup in parse(message):
            self.tell(wakeup)

    def _unsubscribe(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def _keep_listening(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self.hold_a_line()
            except Exception as error:  # noqa: BLE001 - whatever ended it, polling alone is slow
                # Once an outage: what fails again before it ever listened is no news.
                level = (
                    logging.DEBUG
                    if self._missed and not self._listening.is_set()
                    else logging.WARNING
                )
                log.log(level, "listener lost its connection: %r", error)
            if self._listening.is_set():
                pause = FIRST_PAUSE
            self._listening.clear()
            self._missed = True
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, LONGEST_PAUSE)

    def tell(self, wakeup: Wakeup) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(wakeup)
            except Exception:
                log.exception("a wakeup listener failed", extra={"topic": wakeup.topic.value})


def parse(message: str) -> list[Wakeup]:
    """What a message means; one this version does not know means nothing."""
    topic, _, names = message.partition(":")
    known = _TOPICS.get(topic)
    return [] if known is None else [_wakeup(known, name) for name in names.split(",")]


def _wakeup(topic: Topic, text: str) -> Wakeup:
    name, _, jobs = text.partition("=")
    return Wakeup(topic, name, int(jobs) if jobs.isdecimal() else 0)
