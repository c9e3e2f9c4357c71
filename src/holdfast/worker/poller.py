"""Asks the store every `poll` seconds what is new: polling is the truth, wakeups are hints.

One statement asks for everything: ready jobs, due times, cancels, changed schedules, operations to
run, lapsed workers, errands. The poller passes what it finds on to the listeners of this process as
a wakeup, so all news come the same way. A worker that hears no wakeups, behind a pooler or with a
broken connection, is late by one poll at most.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from holdfast.errors import StoreUnavailable
from holdfast.job.ids import WorkerId
from holdfast.job.text import describe
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.contract.workers import News
from holdfast.worker.identity import Identity
from holdfast.worker.permits import Permits
from holdfast.worker.setup import WorkerSetup
from holdfast.worker.watch import Watch

CENSUS_SECONDS = 10.0
"""Seconds between two counts of the workers that serve these queues, for a single worker; many
workers count less often (`Replicas.stretched`)."""
JITTER = 0.1
"""By how much of itself a pause is shortened at random, so that workers do not poll in step."""


class Poller:
    """Keeps the count of replicas, and tells what changed since the poll before."""

    def __init__(
        self,
        setup: WorkerSetup,
        permits: Permits,
        identity: Identity,
        watch: Watch,
        look_for_queues: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = setup.store
        self._permits = permits
        self._tasks = tuple(setup.registry)
        self._events = setup.events
        self._outage = setup.outage
        self._replicas = setup.replicas
        self._poll = setup.options.poll
        self._identity = identity
        self._watch = watch
        self._look_for_queues = look_for_queues
        self._next_census = 0.0
        self._asked: tuple[WorkerId, int] | None = None
        self._schedules: int | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_polling(), name="holdfast-poller")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _keep_polling(self) -> None:
        """The first poll comes within one pause. There is no hurry: the fetcher's first claim is
        on its way."""
        await asyncio.sleep(self._poll * random.random())
        while True:
            worker = self._identity.id
            try:
                await self._look_for_queues()
                queues = tuple(self._permits.slots)
                news = await self._store.workers.poll(worker, queues, self._tasks)
                self._outage.over("poll")
                self._tell(worker, news)
                await self._keep_watch()
            except Exception as error:  # noqa: BLE001 - whatever it is, polling must go on
                await self._recover(error)
            else:
                await asyncio.sleep(self._poll * (1 - JITTER * random.random()))

    async def _keep_watch(self) -> None:
        loop = asyncio.get_running_loop()
        if self._watch.is_crowd and loop.time() >= self._next_census:
            self._next_census = loop.time() + self._replicas.stretched(CENSUS_SECONDS)
            self._watch.recount(await self._store.workers.find())
        self._watch.polled()

    async def _recover(self, error: Exception) -> None:
        if not isinstance(error, StoreUnavailable):
            self._events.error("poller.poll_failed", error=describe(error))
        self._outage.failed("poll", error)
        await self._outage.pause()

    def _tell(self, worker: WorkerId, news: News) -> None:
        tell = self._store.wakeups.tell
        self._replicas.recount(news.replicas, lapsed=news.lapsed)
        if news.ready:
            tell(Wakeup(Topic.READY))
        if news.due_in is not None and news.due_in <= self._poll:
            tell(Wakeup(Topic.DUE))  # before the next poll
        if news.cancels and self._asked != (worker, news.cancels):
            tell(Wakeup(Topic.CANCEL, worker))
        if self._schedules != news.schedules:
            tell(Wakeup(Topic.SCHEDULES))
        if news.operations:
            tell(Wakeup(Topic.OPERATIONS))
        if news.errands:
            tell(Wakeup(Topic.ERRANDS))
        self._asked, self._schedules = (worker, news.cancels), news.schedules
