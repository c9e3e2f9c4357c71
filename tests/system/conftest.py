"""Fleets of real processes on every store that processes can share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.app import App
from holdfast.store.contract.store import Store
from holdfast.testing.servers import PostgresServer, postgres_server
from tests.support import program
from tests.support.backends import BACKENDS, Backend, opened
from tests.support.leaks import nothing_leaks
from tests.support.processes import Fleet, fleet_on
from tests.support.shell import Shell

SHARED = [kind for kind in BACKENDS if kind != "sqlite"]
"""A store in memory lives in one process; every other kind is shared by many."""


@pytest.fixture(scope="session", params=SHARED)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Without the store in memory: conformance holds it to the contract, and here it would only
    repeat what the file shows."""
    return BACKENDS[request.param](request)


@pytest.fixture(scope="session", params=SHARED)
def shared_backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param](request)


@pytest.fixture
async def shared_url(shared_backend: Backend) -> str:
    return await shared_backend.own()


@pytest.fixture(scope="session")
def durable_postgres() -> Iterator[PostgresServer]:
    """A server of our own, since it is going to be stopped the hard way, with fsync on, since
    what it acknowledged has to be there afterwards."""
    with postgres_server(own=True, durable=True) as server:
        yield server


@pytest.fixture
def fleet(shared_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet_on(shared_url, tmp_path) as fleet:
        yield fleet


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A folder with an app, where a test runs commands; no process outlives the test."""
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        shell.end()


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[App]:
    """The test's own seat at the store, with the tasks that the fleet runs."""
    with program.app.using_store(fleet.url):
        async with program.app:
            yield program.app


@pytest.fixture
async def sealed_store(backend: Backend) -> AsyncIterator[Store]:
    """A live store for a test after which nothing may be left: no task, thread or process of a
    worker, and no connection of the store."""
    url = await backend.empty()
    async with nothing_leaks(), opened(url) as store:
        yield store
