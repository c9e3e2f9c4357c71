"""Every conformance test gets a scene, and is held to leave nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene
from tests.support.backends import BACKENDS, Backend, ValkeyClusterNamespace
from tests.support.leaks import nothing_leaks

ALL_BACKENDS = {**BACKENDS, "valkey-cluster": ValkeyClusterNamespace}
"""Only here: a cluster has to pass every test of the contract. It is asked for by its mark."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """But for limits: a store of several partitions refuses them (`test_partitions`)."""
    here = Path(__file__).parent
    items[:] = [
        item for item in items if not (item.path.is_relative_to(here) and _is_left_out(item))
    ]


def _is_left_out(item: pytest.Item) -> bool:
    return item.path.name.startswith("test_limits") and "valkey-cluster" in item.name


@pytest.fixture(
    scope="session",
    params=[*BACKENDS, pytest.param("valkey-cluster", marks=pytest.mark.cluster)],
)
def backend(request: pytest.FixtureRequest) -> Backend:
    return ALL_BACKENDS[request.param](request)


@pytest.fixture(autouse=True)
async def _nothing_leaks() -> AsyncIterator[None]:
    async with nothing_leaks():
        yield


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    """An empty store with one worker at hand."""
    return await Scene.on(store, clock)
