"""The verbs on workers: `client.workers.drain("mailer-1")`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from holdfast.client.acting import Acts
from holdfast.enqueue.options import Seconds
from holdfast.errors import UnknownWorker
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.ids import WorkerId
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo

WATCH_SECONDS = 0.25
"""Seconds between two looks at workers that are to leave."""


class WorkerVerbs:
    """Read who is working, and tell workers to leave."""

    def __init__(self, store: Store, acts: Acts | None = None) -> None:
        self._store = store
        self._acts = acts or Acts()

    async def all(self) -> list[WorkerInfo]:
        """Every registered worker, oldest first. A lapsed worker is listed until it is swept."""
        return await self._store.workers.find()

    async def named(self, worker: str) -> list[WorkerInfo]:
        """The worker with this id, or every worker of this name; `UnknownWorker` if there is
        none."""
        found = await self.all()
        meant = [one for one in found if worker in (one.id, one.name)]
        if not meant:
            raise UnknownWorker(worker, sorted({one.name for one in found}))
        return meant

    async def drain(self, worker: str, *, by: str | None = None) -> list[WorkerInfo]:
        """Tell the worker with this id, or every worker of this name, to leave: it claims no more,
        lets what runs finish up to its grace, hands back the rest, and its process ends with exit
        code 0. Answers those that were told, as they were before. `left` waits for them."""
        async with self._acts.act(self._store, by, Noun.WORKERS, Verb.DRAIN, worker) as act:
            meant = await self.named(worker)
            told = set(await self._store.workers.request_drain([one.id for one in meant]))
            act.changed = len(told)
        return [one for one in meant if one.id in told]

    async def left(
        self, ids: Iterable[WorkerId], timeout: Seconds | None = None
    ) -> list[WorkerInfo]:
        """Wait until none of these workers is alive. Answers those that are still on the list: the
        ones that lapsed, and after the timeout also those that have not left yet."""
        seconds = None if timeout is None else checks.wait("timeout", timeout)
        waited_for, began = set(ids), time.monotonic()
        while True:
            still = [one for one in await self.all() if one.id in waited_for]
            late = seconds is not None and time.monotonic() - began >= seconds
            if late or not any(one.alive for one in still):
                return still
            await asyncio.sleep(WATCH_SECONDS)
