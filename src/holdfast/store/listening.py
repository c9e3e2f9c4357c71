"""Wakeups over one connection that listens, and is replaced when it is lost.

A message is `ready:mail=1,default` (one job of `mail`, some of `default`), `due`, `schedules`,
`paused:<queue>`, `lead:<role>`, `cancel:<worker>` or `streams:<ends of ids>`. Messages about a few
jobs go to a channel of their own; this process does not listen to it while all its listeners doze.
So do messages about streams, which only those listen to who follow some. A backend only knows how
to open one connection. To notice its loss, to wait, and to tell the listeners what they may have
missed is the same everywhere, and is done here.
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
from holdfast.store.contract.wakeups import USUAL_TOPICS, Listener, Topic, Wakeup

log = logging.getLogger("holdfast.store")

ASK_AFTER_SECONDS = 15.0
"""After so long a silence the server is asked whether it is still there: a server that vanished
without a word (a failover, a dropped route) is as silent as an idle one."""
ASK_TIMEOUT = 5.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 10.0

_TOPICS = {topic.value: topic for topic in Topic}


class Ear(Protocol):
    """One connection that listens. `gone` is done as soon as the connection is lost."""

    gone: asyncio.Future[None]

    async def listen(self, channel: str) -> None: ...
    async def unlisten(self, channel: str) -> None: ...
    async def ask(self) -> None:
        """Raise unless the server answers."""

    def cut(self) -> None: ...


def channel_of_few(channel: str) -> str:
    """The channel of messages about a few jobs. The scripts know this name too."""
    return f"{channel}_few"


def channel_of_streams(channel: str) -> str:
    """The channel of messages about streams. The scripts know this name too."""
    return f"{channel}_streams"


class ListeningWakeups(ABC):
    """See `holdfast.store.contract.wakeups.Wakeups`. Without `listen` nobody is ever called."""

    def __init__(self, *, listen: bool) -> None:
        self._listen = listen
        self._audience = Audience()
        self._audience_changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._missed = False

    @abstractmethod
    async def open_ear(self) -> Ear:
        """Open a connection that calls `heard` with each message."""

    @property
    @abstractmethod
    def channel(self) -> str: ...

    async def subscribe(
        self, listener: Listener, topics: Set[Topic] = USUAL_TOPICS
    ) -> Callable[[], None]:
        """Returns as soon as the connection listens, so that no message sent after this call is
        missed. While the server is out of reach it returns after a moment, without a connection."""
        self._audience.add(listener, topics)
        self._audience_changed.set()
        if self._listen:
            if self._task is None:
                self._task = asyncio.create_task(self._keep_listening(), name="holdfast-listen")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._listening.wait(), ASK_TIMEOUT)
        return lambda: self._unsubscribe(listener)

    def _unsubscribe(self, listener: Listener) -> None:
        self._audience.remove(listener)
        self._audience_changed.set()

    def doze(self, listener: Listener, dozes: bool) -> None:
        self._audience.doze(listener, dozes)
        self._audience_changed.set()

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
        """The connection listens from now on. During an outage messages were missed."""
        self._listening.set()
        if self._missed:
            for topic in (Topic.READY, Topic.DUE, Topic.SCHEDULES, Topic.STREAMS):
                self.tell(Wakeup(topic))

    def heard(self, message: str) -> None:
        for wakeup in parse(message):
            self.tell(wakeup)

    async def _hold_a_connection(self) -> None:
        """The life of one connection; returns or raises when it is lost."""
        ear = await self.open_ear()
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                await ear.listen(self.channel)
            heard = await self._follow_audience(ear, frozenset())
            self._up()
            while not ear.gone.done():
                if await self._has_changed(ear):
                    heard = await self._follow_audience(ear, heard)
                else:
                    async with asyncio.timeout(ASK_TIMEOUT):
                        await ear.ask()
        finally:
            ear.cut()

    async def _follow_audience(self, ear: Ear, heard: frozenset[str]) -> frozenset[str]:
        """Listen to messages about a few jobs, unless every listener dozes, and to those about
        streams, if somebody follows one."""
        self._audience_changed.clear()
        few, streams = channel_of_few(self.channel), channel_of_streams(self.channel)
        asked = {few: self._audience.hears_few, streams: self._audience.follows}
        wanted = frozenset(channel for channel, is_asked in asked.items() if is_asked)
        async with asyncio.timeout(ASK_TIMEOUT):
            for channel in wanted - heard:
                await ear.listen(channel)
            for channel in heard - wanted:
                await ear.unlisten(channel)
        return wanted

    async def _has_changed(self, ear: Ear) -> bool:
        """Wait until the audience wants to hear something else (True), or the connection is lost or
        was silent for long (False)."""
        changed = asyncio.ensure_future(self._audience_changed.wait())
        try:
            await asyncio.wait(
                (changed, ear.gone), timeout=ASK_AFTER_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            return changed.done()
        finally:
            changed.cancel()

    async def _keep_listening(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._hold_a_connection()
            except Exception as error:  # noqa: BLE001 - whatever ended it, polling alone is slow
                # A warning once per outage; repeated failures to reconnect are debug messages.
                level = (
                    logging.DEBUG
                    if self._missed and not self._listening.is_set()
                    else logging.WARNING
                )
                log.log(level, "listener lost its connection: %r", error)
            if self._listening.is_set():
                pause = FIRST_PAUSE_SECONDS
            self._listening.clear()
            self._missed = True
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def tell(self, wakeup: Wakeup) -> None:
        for listener in self._audience.of(wakeup):
            try:
                listener(wakeup)
            except Exception:
                log.exception("a wakeup listener failed", extra={"topic": wakeup.topic.value})


def parse(message: str) -> list[Wakeup]:
    """What a message means; a topic that this version does not know means nothing."""
    topic, _, names = message.partition(":")
    known = _TOPICS.get(topic)
    return [] if known is None else [_wakeup(known, name) for name in names.split(",")]


def _wakeup(topic: Topic, text: str) -> Wakeup:
    name, _, jobs = text.partition("=")
    return Wakeup(topic, name, int(jobs) if jobs.isdecimal() else 0)
