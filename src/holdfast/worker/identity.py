"""The name under which a worker holds its lease, and what follows from losing it.

A lease that ran out while the store was out of reach is no reason to stop what
runs: whether another has taken the jobs over, only the store can say. Until it
answers nothing is claimed. Its first answer revives the lease under the same
name and says what was taken meanwhile. Only when the store no longer knows the
name, everything held under it is given up and the worker goes on under a new
one: were the old name used again, jobs whose handlers were stopped would look
as if they were still running.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version

from holdfast.background.outage import Outage
from holdfast.errors import StoreError, StoreUnavailable
from holdfast.events import Events
from holdfast.handlers.registry import Registry
from holdfast.job.ids import WorkerId, new_worker_id
from holdfast.job.text import describe
from holdfast.store.contract.records import Beat, Held, WorkerInfo
from holdfast.store.contract.store import Store
from holdfast.worker.attempt import Attempt, Stop
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.options import WorkerOptions
from holdfast.worker.runner import Runner
from holdfast.worker.watchdog import Frozen


class Identity:
    """Registers the worker, listens to its heartbeats, and renews it when it is lost."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        options: WorkerOptions,
        events: Events,
        outage: Outage,
        runner: Runner,
        is_behind: Callable[[float], bool],
        on_renewal: Callable[[], None],
        give_up: Callable[[Store, Frozen], Awaitable[None]],
    ) -> None:
        self._store = store
        self._registry = registry
        self._options = options
        self._events = events
        self._outage = outage
        self._runner = runner
        self._on_renewal = on_renewal
        self._renewal: asyncio.Task[None] | None = None
        self.id: WorkerId = new_worker_id()
        self.heartbeat = Heartbeat(
            store,
            events,
            self,
            lease=options.lease,
            max_block=options.longest_block,
            held=self._held,
            stuck=self._stuck,
            is_behind=is_behind,
            suspects=self._suspects,
            give_up=give_up,
        )

    async def begin(self) -> None:
        sent = time.monotonic()
        await self._register(self.id)
        self.heartbeat.start(self.id, sent)

    async def end(self) -> None:
        """Leave the store's list; what is still held becomes reclaimable at once."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        await self.heartbeat.stop()
        await self._deregister(self.id)

    @property
    def trusted(self) -> bool:
        """Whether the store still lets this worker run jobs, as far as we can know."""
        return self._renewal is None and self.heartbeat.lease_left > 0

    def on_beat(self, worker: WorkerId, beat: Beat, held: list[Held]) -> None:
        if worker != self.id:
            return
        if not beat.known:
            self._lose_everything("the store no longer knows this worker")
            return
        for job_id in beat.cancel:
            if (attempt := self._runner.running.get(job_id)) and not attempt.cancel_requested:
                attempt.tell_to_stop(Stop.CANCEL)
        fences = {one.id: one.fence for one in held}
        for job_id in beat.lost:
            attempt = self._runner.running.get(job_id)
            if attempt is not None and attempt.job.fence == fences.get(job_id):
                self._lose(attempt)

    def _lose(self, attempt: Attempt) -> None:
        if attempt.stop is Stop.LOST:
            return
        job = attempt.job
        self._events.warning("job.lost", job=job.id, queue=job.queue, attempt=job.attempt)
        self._runner.stop(attempt, Stop.LOST)

    def _lose_everything(self, why: str) -> None:
        if self._renewal is not None:
            return
        self._events.error(
            "worker.lease_lost", worker=self.id, reason=why, running=len(self._runner.running)
        )
        self._runner.stop_all(Stop.LOST)
        self._renewal = asyncio.create_task(self._renew(), name="holdfast-renewal")

    async def _renew(self) -> None:
        former, new = self.id, new_worker_id()
        while True:
            sent = time.monotonic()
            try:
                await self._register(new)
                break
            except Exception as error:  # noqa: BLE001 - without a name the worker can do nothing else
                if not isinstance(error, StoreUnavailable):
                    self._events.error("worker.renewal_failed", error=describe(error))
                self._outage.failed("register", error)
                await self._outage.pause()
        self.id = new
        self.heartbeat.follow(new, sent)
        self._renewal = None
        self._events.info("worker.renewed", former=former, worker=new)
        self._on_renewal()
        await self._deregister(former)

    async def _register(self, worker: WorkerId) -> None:
        info = WorkerInfo(
            id=worker,
            name=self._options.name,
            host=platform.node() or "localhost",
            pid=os.getpid(),
            queues=dict(self._options.queues),
            tasks=tuple(self._registry),
            version=own_version(),
        )
        await self._store.workers.register(info, self._options.lease)
        self._outage.answered("register")

    async def _deregister(self, worker: WorkerId) -> None:
        """Best effort: a name that cannot be taken off the list lapses by itself."""
        try:
            await self._store.workers.deregister(worker)
        except StoreError as error:
            self._events.warning("worker.not_deregistered", worker=worker, error=str(error))

    def _held(self) -> list[Held]:
        """Called from the heartbeat's thread: `copy` is one step for the interpreter."""
        running = self._runner.running.copy()
        return [Held(one.job.id, one.job.fence) for one in running.values()]

    def _stuck(self) -> dict[str, int]:
        return dict(Counter(one.job.queue for one in self._runner.stuck.copy()))

    def _suspects(self) -> list[str]:
        running = self._runner.running.copy()
        started = [one for one in running.values() if one.task is not None]
        return [f"{one.job.task} {one.job.id}" for one in started][:10]


def own_version() -> str:
    try:
        return version("holdfast")
    except PackageNotFoundError:
        return "unknown"
