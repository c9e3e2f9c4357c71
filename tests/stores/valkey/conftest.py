"""A server for each file, which its tests may set, restart and cut off; an empty store on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.clock import ManualClock
from holdfast.testing.servers import ThrowawayValkey, find_valkey
from tests.conformance.builders import Scene
from tests.support.backends import opened


@pytest.fixture(scope="module")
def server() -> Iterator[ThrowawayValkey]:
    with ThrowawayValkey(find_valkey()) as server:
        yield server


@pytest.fixture
def partitions() -> int:
    return 1


@pytest.fixture
def place(server: ThrowawayValkey, partitions: int) -> Iterator[str]:
    """The URL of a store that nobody has opened."""
    url = server.new_namespace(partitions=partitions)
    yield url
    server.clear(url)


@pytest.fixture
async def scene(place: str, clock: ManualClock) -> AsyncIterator[Scene]:
    async with opened(place, clock) as store:
        yield await Scene.on(store, clock)
