"""The name under which a worker holds its lease, and what happens when the lease is lost.

A lease that lapsed while the store was out of reach is no reason to stop running handlers: only
the store can say whether another worker has taken the jobs over. Until the store answers, nothing
is claimed. Its first answer revives the lease under the same name and says which jobs were taken
meanwhile. Only when the store no longer knows the name, the worker gives up everything that it
holds and goes on under a new name. Under the old name, jobs whose handlers were stopped would
look as if they were still running.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable, Mapping

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.job.ids import WorkerId, new_worker_id
from holdfast.job.text import describe
from holdfast.store.contract.facts import WorkerFacts
from holdfast.store.contract.workers import Beat, Held, Order, WorkerInfo
from holdfast.telemetry.build import RELEASE
from holdfast.worker.attempt import Attempt, Stop
from holdfast.worker.facts import FactSheet
from holdfast.worker.finisher import Finisher
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.permits import Permits
from holdfast.worker.rescue import Rescue
from holdfast.worker.runner import Runner
from holdfast.worker.setup import WorkerSetup


def _nobody() -> None:
    """Until somebody listens."""


def _nothing(order: Order) -> None:
    """Until somebody obeys."""


class Identity:
    """Registers the worker, hears the answers to its heartbeats, and takes a new name when the
    store has forgotten the old one. Then `on_renewal` is called: claiming may go on. `on_order`
    is called with each order that an answer brings."""

    def __init__(
        self,
        setup: WorkerSetup,
        permits: Permits,
        runner: Runner,
        finisher: Finisher,
        rescue: Rescue,
        sheet: FactSheet,
    ) -> None:
        self._store = setup.store
        self._registry = setup.registry
        self._options = setup.options
        self._events = setup.events
        self._outage = setup.outage
        self._permits = permits
        self._runner = runner
        self._sheet = sheet
        self._renewal: asyncio.Task[None] | None = None
        self.on_renewal: Callable[[], None] = _nobody
        self.on_order: Callable[[Order], None] = _nothing
        self.id: WorkerId = new_worker_id()
        self.heartbeat = Heartbeat(setup, self, finisher, rescue)

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
        await self._deregister(self.id, self.facts())

    @property
    def trusted(self) -> bool:
        """Whether the worker's lease is alive, as far as the worker can know."""
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
        for order in beat.orders:
            self.on_order(order)

    def _lose(self, attempt: Attempt) -> None:
        if attempt.stop is Stop.LOST or attempt.taken is not None:
            return  # a handler that ended its own job may go on: the end is committed
        job = attempt.job
        self._events.warning("job.lost", job_id=job.id, queue=job.queue, attempt=job.attempt)
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
        self._sheet.begin_anew(self.heartbeat.told)
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
        self.on_renewal()
        await self._deregister(former)

    async def serve_nothing(self) -> None:
        """Say that this worker serves no queue any more. Best effort, as `_deregister`."""
        try:
            await self._register(self.id, {})
        except StoreError as error:
            self._events.warning("worker.still_listed", worker=self.id, error=str(error))

    async def _register(self, worker: WorkerId, queues: Mapping[str, int] | None = None) -> None:
        info = WorkerInfo(
            id=worker,
            name=self._options.name,
            host=platform.node() or "localhost",
            pid=os.getpid(),
            queues=self._permits.choices if queues is None else dict(queues),
            tasks=tuple(self._registry),
            version=RELEASE,
            facts=self.facts(),
        )
        await self._store.workers.register(info, self._options.lease)
        self._outage.over("register")

    async def _deregister(self, worker: WorkerId, facts: WorkerFacts | None = None) -> None:
        """Best effort: a name that cannot be taken off the list lapses by itself."""
        try:
            await self._store.workers.deregister(worker, facts)
        except StoreError as error:
            self._events.warning("worker.not_deregistered", worker=worker, error=str(error))

    def held(self) -> list[Held]:
        """Copying a dict is one step for the interpreter, so another thread may do it."""
        running = self._runner.running.copy()
        return [Held(one.job.id, one.job.fence) for one in running.values()]

    def facts(self) -> WorkerFacts:
        return self._sheet.read()

    def suspects(self) -> list[str]:
        running = self._runner.running.copy()
        started = [one for one in running.values() if one.task is not None]
        return [f"{one.job.task} {one.job.id}" for one in started][:10]
