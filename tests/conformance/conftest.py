"""Every conformance test gets a scene, and is held to leave nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast.clock import ManualClock
from holdfast.store.contract.records import Capability
from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene
from tests.support.backends import BACKENDS, Backend, ValkeyClusterNamespace
from tests.support.leaks import nothing_leaks

ALL_BACKENDS = {**BACKENDS, "valkey-cluster": ValkeyClusterNamespace}
"""Only here: a cluster has to pass every test of the contract. It is asked for by its mark."""


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


@pytest.fixture
def totals(store: Store) -> None:
    """For tests of queues with a total."""
    if Capability.QUEUE_TOTALS not in store.capabilities:
        pytest.skip(f"this store does not {Capability.QUEUE_TOTALS}")
