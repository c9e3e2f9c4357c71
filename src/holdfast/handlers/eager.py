"""The switch by which jobs run where they are enqueued, and the jobs that ran so.

Every app has one, and in production it is off. So what runs such jobs (`holdfast.worker.eager`) is
imported with the first of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.events import Events
from holdfast.handlers.registry import Handler
from holdfast.job.ids import JobId
from holdfast.job.record import Inserted, Job, NewJob
from holdfast.job.state import JobState

if TYPE_CHECKING:
    from holdfast.handlers.resources import Overrides

KEPT = 1_000
"""How many jobs that ran are remembered, the newest."""


class EagerRun(msgspec.Struct, frozen=True):
    """A job that ran, as a store would show it, and what its attempt raised."""

    job: Job
    error: Exception | None


class RunsEagerly(Protocol):
    """Runs one job at once. `resources` are given in place of what functions make."""

    async def run(self, handler: Handler, job: NewJob, resources: Overrides | None) -> EagerRun: ...
    def run_sync(self, handler: Handler, job: NewJob, resources: Overrides | None) -> EagerRun: ...


class EagerJobs:
    """Runs jobs of one app where they are enqueued, while it is `on`.

    With `raises` a job that fails raises its handler's error at the enqueue. Otherwise only its
    handle tells.
    """

    def __init__(self, on: bool, events: Events, make_runner: Callable[[], RunsEagerly]) -> None:
        self.on = on
        self._raises = True
        self._resources: Overrides | None = None
        self._events = events
        self._runner = cache(make_runner)
        self._ran: OrderedDict[JobId, Job] = OrderedDict()
        self._told = False

    @contextmanager
    def switched_on(self, raises: bool, resources: Overrides | None = None) -> Iterator[None]:
        before = self.on, self._raises, self._resources
        self.on, self._raises, self._resources = True, raises, resources
        try:
            yield
        finally:
            self.on, self._raises, self._resources = before

    def find(self, job_id: JobId) -> Job | None:
        """A job that ran here."""
        return self._ran.get(job_id)

    def tell(self) -> None:
        """Warn once: in production, jobs would be lost with their process."""
        if self.on and not self._told:
            self._told = True
            self._events.warning("program.eager", raises=self._raises)

    async def run(self, handler: Handler, job: NewJob) -> Inserted:
        """Run a job for a caller with an event loop."""
        self.tell()
        return self._keep(await self._runner().run(handler, job, self._resources))

    def run_sync(self, handler: Handler, job: NewJob) -> Inserted:
        """Run a job for a caller without an event loop."""
        self.tell()
        return self._keep(self._runner().run_sync(handler, job, self._resources))

    def _keep(self, ran: EagerRun) -> Inserted:
        job, error = ran.job, ran.error
        self._ran[job.id] = job
        while len(self._ran) > KEPT:
            self._ran.popitem(last=False)
        if error is not None and self._raises and job.state is JobState.FAILED:
            raise error
        return Inserted(job.id, "created")
