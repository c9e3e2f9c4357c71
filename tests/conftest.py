"""Servers, clocks and stores for every suite."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from holdfast.clock import ManualClock
from holdfast.store.contract.store import Store
from holdfast.testing.servers import (
    PostgresServer,
    ThrowawayCluster,
    ValkeyServer,
    postgres_server,
    valkey_cluster,
    valkey_server,
)
from tests.support.backends import (
    BACKENDS,
    INSPECTABLE,
    Backend,
    Inspectable,
    ValkeyNamespace,
    WarmPostgres,
    opened,
)
from tests.support.by_turns import leave_to_make_long
from tests.support.copied_data import copy_data_from
from tests.support.pooled import PROGRAM_VARIABLE, PooledPostgres
from tests.support.spreading import folder_of_run, folders_of
from tests.support.warming import warm_up

# Deadlines measure the machine, not the code: two cores shared by parallel suites.
# Where a change is judged (CI is set), every run asks the same questions; others explore.
settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,
)
settings.register_profile(
    "chaos", parent=settings.get_profile("default"), max_examples=2000, derandomize=False
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def interrupt(number: int, frame: FrameType | None) -> None:
    """As Python does by itself. But if it is Python's own handler that it finds, asyncio sets one
    of its own whenever a loop begins to run, and that is six times in a test."""
    signal.default_int_handler(number, frame)


# A run in a shell's background inherits SIGINT and SIGQUIT as ignored, and one under nohup SIGHUP.
# So would every process that a test starts and then interrupts.
signal.signal(signal.SIGINT, interrupt)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Thousands of collected tests live until the end: the garbage collector need not walk through them
# again and again, neither while they are collected nor afterwards.
gc.disable()


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_to_make_long(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    copy_data_from(folder_of_run(folders_of(session.config)))
    if session.config.getoption("processes", 0):
        warm_up()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for each test process. Where none can be had the test fails, it never skips."""
    pooler = os.environ.get(PROGRAM_VARIABLE)
    with PooledPostgres(pooler) if pooler else postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def warm_postgres(request: pytest.FixtureRequest) -> WarmPostgres:
    return WarmPostgres(request)


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    """The same for Valkey or Redis; what it holds need not survive it."""
    with valkey_server() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_nodes() -> Iterator[ThrowawayCluster]:
    """A cluster of three."""
    with valkey_cluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _no_key_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test on Valkey fails if it leaves a key behind that retention would not remove.

    It looks when the stores of the test are closed: it is set up before them, hence ends after.
    """
    yield
    for name in ("backend", "shared_backend"):
        used = request.node.funcargs.get(name) if name in request.fixturenames else None
        if isinstance(used, ValkeyNamespace):
            used.settle()


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every kind of store in turn."""
    return BACKENDS[request.param](request)


@pytest.fixture(scope="session", params=INSPECTABLE)
def inspectable(request: pytest.FixtureRequest) -> Inspectable:
    """Every kind of store whose tables can be looked into from outside."""
    return INSPECTABLE[request.param](request)


@pytest.fixture
def clock() -> ManualClock:
    """Starts a second before a leap day, where careless arithmetic shows."""
    return ManualClock(datetime(2028, 2, 28, 23, 59, 59, tzinfo=UTC))


@pytest.fixture
async def store(backend: Backend, clock: ManualClock) -> AsyncIterator[Store]:
    """An opened, migrated, empty store that believes the manual clock."""
    async with opened(await backend.empty(), clock) as store:
        yield store


@pytest.fixture
async def live_store(backend: Backend) -> AsyncIterator[Store]:
    """An opened, migrated, empty store with a clock of its own."""
    async with opened(await backend.empty()) as store:
        yield store
