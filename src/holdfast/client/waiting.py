"""Waiting for ends: all who wait in a program share one poller for jobs and one for flows.

A store does not announce that a job has ended: nobody waits for most jobs, and an announcement
would cost each of them. So one poller asks the store about everything that is awaited, together. It
asks about one thing often at first and then less and less often, however many others are awaited.
What has been awaited equally long forms a group, and each group has a time of its next poll.

Only the poller calls the store. Each waiter measures its own timeout, so a call to the store that
hangs delays nobody beyond the timeout that was given.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from holdfast.errors import NotOpen, StoreUnavailable

FIRST_WAIT_SECONDS = 0.002
LONGEST_WAIT_SECONDS = 0.25
WAIT_GROWTH = 1.4
EARLY_SHARE = 0.25
"""A group may be polled early by this share of its wait, together with a group that is due."""

REST_FACTOR = 30
"""Polls take at most one part in 30 of a program's time. After a poll, what it asked about is left
alone for 30 times as long as the poll took. The poller as a whole also rests: 30 times as long as
the poll took, but at most 30 times `SHORT_POLL_SECONDS`. That rest begins only when the poller has
been busy for `BURST_SECONDS`."""
LONGEST_REST_SECONDS = 5.0
SHORT_POLL_SECONDS = 0.0005
BURST_SECONDS = 0.5

Key = TypeVar("Key", bound=str)
Answer = TypeVar("Answer")


class _Group(msgspec.Struct, Generic[Key], frozen=True):
    """Ids that are polled next at the same time, `due`, after a wait of `wait` seconds."""

    due: float
    wait: float
    ids: list[Key]


class EndWaiter(ABC, Generic[Key, Answer]):
    """Answers any number of waits with one polling task."""

    def __init__(self) -> None:
        self._awaited: dict[Key, list[asyncio.Future[Answer]]] = {}
        self._groups: list[_Group[Key]] = []
        self._rested = 0.0
        self._joined = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def ask(self, ids: list[Key]) -> None:
        """Ask the store about these, and `tell` or `fail` those that need not wait any longer."""

    @abstractmethod
    def too_late(self, key: Key, seconds: float) -> Exception:
        """What a waiter gets whose time is up."""

    def forget(self, key: Key) -> None:
        """Nobody waits for it any more."""

    async def answer(self, key: Key, timeout: float | None) -> Answer:
        """Wait for the answer, or for the timeout. An outage of the store is waited out."""
        future = self._join(key)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise self.too_late(key, timeout or 0.0) from None
        finally:
            self._awaited[key].remove(future)
            if not self._awaited[key]:
                del self._awaited[key]
                self.forget(key)

    def tell(self, key: Key, answer: Answer) -> None:
        for future in self._awaited.get(key, ()):
            if not future.done():
                future.set_result(answer)

    def fail(self, key: Key, error: Exception) -> None:
        for future in self._awaited.get(key, ()):
            if not future.done():
                future.set_exception(error)

    async def aclose(self) -> None:
        """Raise `NotOpen` in every waiter: no answer can come any more."""
        for key in list(self._awaited):
            self.fail(key, NotOpen())
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _join(self, key: Key) -> asyncio.Future[Answer]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._awaited.setdefault(key, []).append(future)
        self._groups.append(_Group(loop.time(), FIRST_WAIT_SECONDS / WAIT_GROWTH, [key]))
        self._joined.set()
        if self._task is None:
            self._task = asyncio.create_task(self._poll(), name="holdfast-results")
        return future

    async def _poll(self) -> None:
        now = asyncio.get_running_loop().time
        try:
            while self._awaited:
                await self._until_due()
                groups = self._take_due(now())
                began = now()
                answered = await self._ask(list(dict.fromkeys(self._still(groups))))
                took = now() - began if answered else 0.0
                self._rested = max(self._rested, began - BURST_SECONDS)
                self._rested += REST_FACTOR * min(took, SHORT_POLL_SECONDS)
                rest = min(REST_FACTOR * took, LONGEST_REST_SECONDS)
                self._put_back(groups, now(), max(LONGEST_WAIT_SECONDS, rest))
        finally:
            self._groups.clear()
            self._task = None

    async def _until_due(self) -> None:
        loop = asyncio.get_running_loop()
        if self._rested > loop.time():
            await asyncio.sleep(self._rested - loop.time())
        self._joined.clear()
        due = min(group.due for group in self._groups)
        if due > loop.time():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._joined.wait()

    def _take_due(self, now: float) -> list[_Group[Key]]:
        due, later = list[_Group[Key]](), list[_Group[Key]]()
        for group in self._groups:
            (due if group.due - EARLY_SHARE * group.wait <= now else later).append(group)
        self._groups = later
        return due

    def _put_back(self, groups: list[_Group[Key]], now: float, longest: float) -> None:
        """Put what was polled into groups again: ids whose next wait is equally long form one."""
        again: defaultdict[float, list[Key]] = defaultdict(list)
        for group in groups:
            again[min(longest, group.wait * WAIT_GROWTH)] += self._still([group])
        self._groups += [
            _Group(now + wait, wait, list(dict.fromkeys(ids))) for wait, ids in again.items() if ids
        ]

    def _still(self, groups: Iterable[_Group[Key]]) -> list[Key]:
        return [one for group in groups for one in group.ids if one in self._awaited]

    async def _ask(self, ids: list[Key]) -> bool:
        """Answers whether the store answered. An outage is not reported to anybody: each waiter has
        a timeout of its own. Any other error is raised in the waiters of these ids."""
        if not ids:
            return False
        try:
            await self.ask(ids)
        except StoreUnavailable:
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the waiters' to see
            for one in ids:
                self.fail(one, error)
        return True
