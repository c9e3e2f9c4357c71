"""Wakeups over one connection that listens, and comes back by itself.

What a line says is `ready:mail=1,default` (one job, and some), `due`, `schedules` or
`cancel:<worker>`. What is about a few jobs is said on a channel of its own, which is not listened
to while everybody here dozes. A backend only knows how to open one line; losing it, waiting, and
telling the listeners what they may have missed is the same everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from typing import Protocol

from holdfast.store.audience import Audience
from holdfast.store.contract.records import EVERY_TOPIC, Topic, Wakeup
from holdfast.store.contract.wakeups import Listener

log = logging.getLogger("holdfast.store")

ASK_EVERY = 15.0
"""Seconds of silence after which a line is asked whether it still works: a peer that vanished
without a word (a failover, a dropped route) is silent exactly like an idle one."""
ASK_TIMEOUT = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0

_TOPICS = {topic.value: topic for topic in Topic}


class Ear(Protocol):
    """One connection that listens. `gone` is done once nothing more will be heard."""

    gone: asyncio.Future[None]

    async def listen(self, channel: str) -> None: ...
    async def unlisten(self, channel: str) -> None: ...
    async def ask(self) -> None:
        """Raises unless the other side answers."""

    def cut(self) -> None: ...


def channel_of_few(channel: str) -> str:
    """The scripts know it too."""
    return f"{channel}_few"


class ListeningWakeups(ABC):
    """See `holdfast.store.contract.wakeups.Wakeups`. Without `listen` nobody is ever called."""

    def __init__(self, *, listen: bool) -> None:
        self._listen = listen
        self._audience = Audience()
        self._turned = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._missed = False

    @abstractmethod
    async def open_ear(self) -> Ear:
        """A connection that calls `heard` for what it hears."""

    @property
    @abstractmethod
    def channel(self) -> str: ...

    async def subscribe(
        self, listener: Listener, topics: Set[Topic] = EVERY_TOPIC
    ) -> Callable[[], None]:
        """Returns once the line listens, so that nothing sent after this call is missed;
        or at once while the server is out of reach: the line comes back by itself."""
        self._audience.add(listener, topics)
        if self._listen:
            if self._task is None:
                self._task = asyncio.create_task(self._keep_listening(), name="holdfast-listen")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._listening.wait(), ASK_TIMEOUT)
        return lambda: self._audience.remove(listener)

    def doze(self, listener: Listener, dozes: bool) -> None:
        self._audience.doze(listener, dozes)
        self._turned.set()

    async def close(self) -> None:
        task, self._task = self._task, None
        self._audience.clear()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._listening.clear()
        self._missed = False

    @property
    def hears(self) -> bool:
        return self._listening.is_set()

    def _up(self) -> None:
        """The line listens from now on; what was said before it did may have been missed."""
        self._listening.set()
        if self._missed:
            for topic in (Topic.READY, Topic.DUE, Topic.SCHEDULES):
                self.tell(Wakeup(topic))

    def heard(self, message: str) -> None:
        for wakeup in parse(message):
            self.tell(wakeup)

    async def _hold_a_line(self) -> None:
        """One connection's life; returns or raises when it is gone."""
        ear = await self.open_ear()
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                await ear.listen(self.channel)
            hears_few = await self._turn(ear, False)
            self._up()
            while not ear.gone.done():
                if await self._is_turned(ear):
                    hears_few = await self._turn(ear, hears_few)
                else:
                    async with asyncio.timeout(ASK_TIMEOUT):
                        await ear.ask()
        finally:
            ear.cut()

    async def _turn(self, ear: Ear, hears_few: bool) -> bool:
        """Listen to what is said of a few jobs, unless nobody would hear it."""
        self._turned.clear()
        wanted = not self._audience.dozes
        if wanted != hears_few:
            change = ear.listen if wanted else ear.unlisten
            async with asyncio.timeout(ASK_TIMEOUT):
                await change(channel_of_few(self.channel))
        return wanted

    async def _is_turned(self, ear: Ear) -> bool:
        """Waits until somebody dozes or no longer does, the line is gone, or silent for long."""
        turned = asyncio.ensure_future(self._turned.wait())
        try:
            await asyncio.wait(
                (turned, ear.gone), timeout=ASK_EVERY, return_when=asyncio.FIRST_COMPLETED
            )
            return turned.done()
        finally:
            turned.cancel()

    async def _keep_listening(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._hold_a_line()
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
        for listener in self._audience.of(wakeup):
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
