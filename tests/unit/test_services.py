"""The one list of background services: complete, and the same for workers and for tests."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import holdfast
from holdfast.app import App
from holdfast.background.reconciler import Reconciler
from holdfast.services import make_services
from holdfast.testing import Harness


def concrete(kind: type[Any]) -> Iterator[type[Reconciler]]:
    for each in kind.__subclasses__():
        yield from concrete(each)
        if not inspect.isabstract(each) and each.__module__.startswith("holdfast."):
            yield each


def import_everything() -> None:
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


async def test_every_reconciler_of_the_package_is_started() -> None:
    import_everything()
    async with App("sqlite://") as app:
        started = {type(loop) for each in make_services(app) for loop in each.loops}
    wanted = set(concrete(Reconciler))
    assert wanted
    assert wanted <= started


async def test_a_worker_starts_every_service_of_the_list() -> None:
    app = App("sqlite://")
    async with app, app.worker({"default": 1}) as worker:
        names = [service.name for service in worker._services]
        assert names == [service.name for service in make_services(app)]


async def test_the_harness_runs_every_service_of_the_list_when_time_passes() -> None:
    async with Harness(App("sqlite://")) as harness:
        ran: list[str] = []
        for service in harness._services:
            _record(service, ran)
        await harness.advance(1)
        assert ran == [service.name for service in make_services(harness.app)]


def _record(service: object, ran: list[str]) -> None:
    async def run_once() -> None:
        ran.append(service.name)  # type: ignore[attr-defined]

    service.run_once = run_once  # type: ignore[attr-defined]
