"""Looks every `poll` seconds for what no wakeup told of: polling is the truth, wakeups are hints.

One statement asks for everything: ready jobs, due times, cancels, changed schedules. What it finds
is told to the listeners of this process as a wakeup, so there is one way to hear of it. A worker
that hears nothing, behind a pooler or with a broken line, is no later than its polls.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from holdfast.background.outage import Outage
from holdfast.background.replicas import Replicas
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.job.ids import WorkerId
from holdfast.job.text import describe
from holdfast.store.contract.records import News, Topic, Wakeup
from holdfast.store.contract.store import Store
from holdfast.worker.watch import Watch

CENSUS = 10.0
"""Seconds between two looks at who else serves these queues, in a fleet of one; see `stretched`."""
JITTER = 0.1
"""How much a pause is shortened at random, so that workers do not poll in step."""


class Poller:
    """Of one worker; it keeps `replicas` and says what changed since its last look."""

    def __init__(
        self,
        store: Store,
        queues: Sequence[str],
        tasks: Sequence[str],
        events: Events,
        outage: Outage,
        replicas: Replicas,
        watch: Watch,
        *,
        poll: float,
        worker_id: Callable[[], WorkerId],
    ) -> None:
        self._store = store
        self._queues = queues
        self._tasks = tasks
        self._events = events
        self._outage = outage
        self._replicas = replicas
        self._watch = watch
        self._next_census = 0.0
        self._poll = poll
        self._worker_id = worker_id
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
        """The first look comes within a pause: the fetcher's first claim is on its way."""
        await asyncio.sleep(self._poll * random.random())
        while True:
            worker = self._worker_id()
            try:
                news = await self._store.workers.poll(worker, self._queues, self._tasks)
                self._outage.answered("poll")
                self._tell(worker, news)
                await self._keep_watch()
            except Exception as error:  # noqa: BLE001 - whatever it is, polling must go on
                await self._recover(error)
            else:
                await asyncio.sleep(self._poll * (1 - JITTER * random.random()))

    async def _keep_watch(self) -> None:
        loop = asyncio.get_running_loop()
        if self._watch.is_crowd and loop.time() >= self._next_census:
            self._next_census = loop.time() + self._replicas.stretched(CENSUS)
            self._watch.recount(await self._store.workers.list())
        self._watch.polled()

    async def _recover(self, error: Exception) -> None:
        if not isinstance(error, StoreUnavailable):
            self._events.error("poller.poll_failed", error=describe(error))
        self._outage.failed("poll", error)
        await self._outage.pause()

    def _tell(self, worker: WorkerId, news: News) -> None:
        tell = self._store.wakeups.tell
        self._replicas.recount(news.replicas)
        if news.ready:
            tell(Wakeup(Topic.READY))
        if news.due_in is not None and news.due_in <= self._poll:
            tell(Wakeup(Topic.DUE))  # it comes before the next look
        if news.cancels and self._asked != (worker, news.cancels):
            tell(Wakeup(Topic.CANCEL, worker))
        if self._schedules != news.schedules:
            tell(Wakeup(Topic.SCHEDULES))
        self._asked, self._schedules = (worker, news.cancels), news.schedules
