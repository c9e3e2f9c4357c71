"""Tests of whole workers run on one store each in `make test`, by turns.

What a worker, a client and a command do lies above the contract, and the suites of the contract run
on every store. So a test of `tests/system` that could run on each of three stores runs on one of
them, which follows from its name: every run asks the same, and each kind of store has its part of
the tests. On the other stores the test is `long`: `make long` runs it there. Tests elsewhere that
take seconds have the mark `by_turns` for the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

SYSTEM = Path(__file__).parents[1] / "system"
STORES = ("sqlite-file", "postgres", "valkey")


def leave_to_make_long(items: Iterable[pytest.Item]) -> None:
    for item in items:
        store = store_of(item)
        if store in STORES and takes_turns(item) and store != turn_of(item.nodeid, str(store)):
            item.add_marker(pytest.mark.long)


def takes_turns(item: pytest.Item) -> bool:
    return SYSTEM in item.path.parents or item.get_closest_marker("by_turns") is not None


def store_of(item: pytest.Item) -> object:
    """The store that a test is given, if it does not choose one itself."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("backend", params.get("shared_backend"))


def turn_of(test: str, store: str) -> str:
    """The store on which `make test` runs a test, of which this is the name on one of them."""
    name = test.replace(store, "")
    return STORES[zlib.crc32(name.encode()) % len(STORES)]
