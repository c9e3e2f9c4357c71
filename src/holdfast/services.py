"""The background services of a worker, in one list.

`App.worker` starts every service of the list with its worker. The tests' `Harness` makes the same
list, and calls `run_once` on each service whenever a test moves the clock. A new service is added
here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from holdfast.background.options import ReconcileOptions
from holdfast.background.replicas import Replicas
from holdfast.background.service import Loop, Service
from holdfast.events import Events
from holdfast.handlers.registry import Handler
from holdfast.insights.publishing import CatalogueService
from holdfast.limits.definition import Limit
from holdfast.limits.service import LimitService
from holdfast.operations.service import OperationService
from holdfast.reconcile.standard import ReconcileService
from holdfast.schedule.model import Definition
from holdfast.schedule.providers import Providers
from holdfast.schedule.service import ScheduleService
from holdfast.store.contract.store import Store


class ServiceHost(Protocol):
    """What the services need of their app."""

    @property
    def store(self) -> Store: ...
    @property
    def events(self) -> Events: ...
    @property
    def schedules(self) -> Mapping[str, Definition]: ...
    @property
    def limits(self) -> Mapping[str, Limit]: ...
    @property
    def providers(self) -> Providers: ...
    def tasks_with_queues(self) -> Iterable[tuple[Handler, str]]:
        """Every task of the app, with the queue that its jobs go to."""
        ...


class BackgroundService(Service, Protocol):
    """A Service that can also do its work once, without its loops."""

    @property
    def loops(self) -> Sequence[Loop]:
        """What the service keeps running: reconcilers and other loops."""
        ...

    async def run_once(self) -> object:
        """Do everything that is due now, and return when it is done."""
        ...


MakeService = Callable[[ServiceHost, ReconcileOptions, Replicas], BackgroundService]


def _schedules(
    host: ServiceHost, options: ReconcileOptions, replicas: Replicas
) -> BackgroundService:
    return ScheduleService(
        host.store, host.events, host.schedules, host.providers, options, replicas=replicas
    )


def _reconcilers(
    host: ServiceHost, options: ReconcileOptions, replicas: Replicas
) -> BackgroundService:
    return ReconcileService(host.store, host.events, options, replicas=replicas)


def _operations(
    host: ServiceHost, options: ReconcileOptions, replicas: Replicas
) -> BackgroundService:
    return OperationService(host.store, host.events, options, replicas=replicas)


def _catalogue(
    host: ServiceHost, options: ReconcileOptions, replicas: Replicas
) -> BackgroundService:
    return CatalogueService(host.store, host.events, host.tasks_with_queues, options)


def _limits(host: ServiceHost, options: ReconcileOptions, replicas: Replicas) -> BackgroundService:
    return LimitService(host.store, host.events, host.limits, options)


# Limits come first: a job of a limit that the store does not know waits. Then schedules: a plan
# that fires makes a job, and the same pass can still promote the job.
SERVICES: tuple[MakeService, ...] = (_limits, _schedules, _reconcilers, _operations, _catalogue)


def make_services(
    host: ServiceHost,
    options: ReconcileOptions | None = None,
    replicas: Replicas | None = None,
) -> list[BackgroundService]:
    """One of each service; none of them is started. All of them share the options and the count
    of replicas."""
    options, replicas = options or ReconcileOptions(), replicas or Replicas()
    return [make(host, options, replicas) for make in SERVICES]
