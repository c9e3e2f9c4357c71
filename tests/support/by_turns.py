"""Tests that need seconds for real processes run on one store each in `make test`, by turns.

Which store it is follows from the name of the test, so that every run asks the same, and each kind
of store has its part of the tests. On the other stores they are `long`: `make long` runs them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import pytest

STORES = ("sqlite-file", "postgres", "valkey")


def leave_to_make_long(items: Iterable[pytest.Item]) -> None:
    for item in items:
        store = store_of(item)
        if store is not None and item.get_closest_marker("by_turns") is not None:
            name = item.nodeid.removesuffix("]").replace(store, "")
            if store != STORES[zlib.crc32(name.encode()) % len(STORES)]:
                item.add_marker(pytest.mark.long)


def store_of(item: pytest.Item) -> str | None:
    """The store that a test is given; None if it chooses its own."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return None
    params = item.callspec.params
    store = params.get("backend", params.get("shared_backend"))
    return store if isinstance(store, str) else None
