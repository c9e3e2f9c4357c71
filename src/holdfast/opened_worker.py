"""A worker of an app: what `app.worker(...)` answers with.

It stands apart from the app because it imports everything that runs jobs. A program that only
enqueues makes an app and never imports this module.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.background.backoff import Backoff, jittered
from holdfast.background.options import ReconcileOptions
from holdfast.background.replicas import Replicas
from holdfast.errors import StoreFull
from holdfast.handlers.registry import Registry
from holdfast.job.ids import WorkerId
from holdfast.job.serving import choice_of
from holdfast.services import make_services
from holdfast.steps.approvals import NO_KEYS
from holdfast.worker.asking import tasks_that_ask
from holdfast.worker.equipment import LEAVING_SECONDS, equipped
from holdfast.worker.last_resort import LastResort
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import CLOSING_SECONDS, Worker

if TYPE_CHECKING:
    from holdfast.app import App

REPORT_EVERY_SECONDS = 30.0
"""How often a worker that waits for room on its server says so."""


class OpenedWorker:
    """Opens the app, then starts the worker; stops the worker, then closes the app."""

    def __init__(self, app: App, options: WorkerOptions) -> None:
        self._app = app
        self.options = options
        self.registry: Registry | None = None  # what a test has equipped
        self._open = AsyncExitStack()
        self._worker: Worker | None = None
        self._alone = False
        self._last_resort: LastResort | None = None

    def alone(self, last_resort: LastResort | None) -> Self:
        """The worker is the whole program: it hears signals before it claims its first job."""
        self._alone, self._last_resort = True, last_resort
        return self

    async def __aenter__(self) -> Worker:
        async with AsyncExitStack() as stack:
            app = await stack.enter_async_context(self.opened_app())
            replicas = Replicas()
            options = ReconcileOptions(
                worker=self._own_id,
                audit_kept=app.settings.keep_audit,
                signing_keys=self.options.signing_keys,
            )
            services = make_services(app, options, replicas)
            registry = self.registry
            if registry is None:
                registry = await stack.enter_async_context(equipped(app))
            plain = registry is app.registry and app.lifespan is None
            stack.enter_context(app.job_lines)
            self._worker = Worker(
                app.store,
                registry,
                self.options,
                app.events,
                services,
                replicas,
                closing=CLOSING_SECONDS + (0.0 if plain else LEAVING_SECONDS),
            )
            if self._alone:
                stack.enter_context(self._worker.obeying_signals(self._last_resort))
            await stack.enter_async_context(self._worker)
            await self._tell_unserved(app)
            self._tell_of_missing_keys(app)
            self._open = stack.pop_all()
        return self._worker

    @asynccontextmanager
    async def opened_app(self) -> AsyncIterator[App]:
        """Open the app. If the server has no room for another connection, wait for room instead
        of raising: a worker that ended here would only be started again."""
        app, backoff, reported_at = self._app, Backoff(first=0.25, cap=5.0), -math.inf
        while True:
            try:
                await app.__aenter__()
                break
            except StoreFull as error:
                if time.monotonic() > reported_at + REPORT_EVERY_SECONDS:
                    reported_at = time.monotonic()
                    app.events.warning("worker.waits_for_room", error=str(error))
                await asyncio.sleep(jittered(backoff.next()))
        try:
            yield app
        finally:
            await app.__aexit__(None, None, None)

    async def _tell_unserved(self, app: App) -> None:
        """Name the queues of the app's tasks that nobody serves: their jobs would only wait."""
        left_out = [queue for queue in app.own_queues if not choice_of(queue, self.options.queues)]
        if not left_out:
            return
        workers = [worker for worker in await app.store.workers.find() if worker.available]
        for queue in left_out:
            if not any(worker.serves(queue) for worker in workers):
                tasks = [task.name for task in app.tasks.values() if task.options.queue == queue]
                app.events.warning(
                    "worker.queue_unserved", queue=queue, tasks=tasks, advice=f"--queues {queue}"
                )

    def _tell_of_missing_keys(self, app: App) -> None:
        """A job would find it out in the middle of its run."""
        if self.options.signing_keys is None:
            tasks = tasks_that_ask(handler for handler, _ in app.tasks_with_queues())
            if tasks:
                advice = f"signing_keys must be {NO_KEYS}"
                app.events.warning("worker.no_signing_keys", tasks=tasks, advice=advice)

    def _own_id(self) -> WorkerId | None:
        return None if self._worker is None else self._worker.id

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.aclose()
