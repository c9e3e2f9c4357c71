"""Reading streams: all who follow in a program share one reader.

A follower asks for what is behind its position when it has worked off what it had, so a slow one
holds up nobody and nothing is kept for it. The reader asks the store at once for those who have
just come. Those for whom there was nothing are asked for again when a wakeup names their job, and
every `POLL_SECONDS` in any case: wakeups may be lost, and a job that has ended tells nobody.
All that are to be asked for share one call. A call begins as soon as the one before it has
returned, but polls take at most half of a program's time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from holdfast.errors import NotOpen, StoreUnavailable
from holdfast.job.stream import KEY_LENGTH, Followed, FollowFrom
from holdfast.store.contract.store import Store
from holdfast.store.contract.wakeups import Topic, Wakeup

POLL_SECONDS = 0.5
"""Between two looks for somebody whom no wakeup named."""
DEAF_POLL_SECONDS = 0.05
"""The same where wakeups do not arrive at this moment."""
READ_BATCH = 500
"""Followers that are asked for in one call."""
ROW_LIMIT = 100
"""Rows of frames that one call brings for a follower."""

Answer = asyncio.Future[Followed]
ANY = ""


class StreamReader:
    """Answers any number of followers with one task."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._due: dict[Answer, FollowFrom] = {}
        self._idle: dict[Answer, FollowFrom] = {}
        self._named: set[str] = set()
        self._stirred = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None

    async def behind(self, want: FollowFrom) -> Followed:
        """What there is behind a position; waits until there is something, or the job is over. An
        outage of the store is waited out."""
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="holdfast-follow")
        answer: Answer = asyncio.get_running_loop().create_future()
        self._due[answer] = want
        self._stirred.set()
        try:
            return await answer
        finally:
            self._due.pop(answer, None)
            self._idle.pop(answer, None)

    async def now(self, want: FollowFrom) -> Followed:
        """What there is behind a position now."""
        [found] = await self.store.streams.read([want], ROW_LIMIT)
        return found

    async def aclose(self) -> None:
        """Raise `NotOpen` in every follower: no frame can come any more."""
        self._fail([*self._due, *self._idle], NotOpen())
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _hear(self, wakeup: Wakeup) -> None:
        self._named.add(wakeup.name)
        self._stirred.set()

    async def _work(self) -> None:
        """Runs while somebody follows."""
        loop = asyncio.get_running_loop()
        try:
            self._unsubscribe = await self.store.wakeups.subscribe(self._hear, {Topic.STREAMS})
            polled = loop.time()
            while self._due or self._idle:
                if loop.time() >= polled + self._pause:
                    polled, self._named = loop.time(), {ANY}
                self._wake_named()
                if self._due:
                    began = loop.time()
                    await self._read(self._take())
                    await asyncio.sleep(loop.time() - began)
                else:
                    await self._until_stirred(polled + self._pause - loop.time())
        finally:
            self._task = None
            if self._unsubscribe is not None:
                self._unsubscribe()

    @property
    def _pause(self) -> float:
        return POLL_SECONDS if self.store.wakeups.hears else DEAF_POLL_SECONDS

    async def _until_stirred(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._stirred.wait()
        self._stirred.clear()

    def _wake_named(self) -> None:
        named, self._named = self._named, set()
        if not named:
            return
        for answer, want in list(self._idle.items()):
            if ANY in named or want.id[-KEY_LENGTH:] in named:
                self._due[answer] = self._idle.pop(answer)

    def _take(self) -> dict[Answer, FollowFrom]:
        """Whoever is asked for is idle from now on: a wakeup that comes meanwhile counts."""
        taken = dict(list(self._due.items())[:READ_BATCH])
        for answer, want in taken.items():
            del self._due[answer]
            self._idle[answer] = want
        return taken

    async def _read(self, asked: dict[Answer, FollowFrom]) -> None:
        """One position is asked for once, however many followers are there."""
        wants = list(dict.fromkeys(asked.values()))
        try:
            found = await self.store.streams.read(wants, ROW_LIMIT)
        except StoreUnavailable:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the followers' to see
            self._fail(list(asked), error)
            return
        answers = dict(zip(wants, found, strict=True))
        for answer, want in asked.items():
            followed = answers[want]
            if (followed.frames or not followed.live) and not answer.done():
                answer.set_result(followed)

    def _fail(self, answers: list[Answer], error: Exception) -> None:
        for answer in answers:
            if not answer.done():
                answer.set_exception(error)
