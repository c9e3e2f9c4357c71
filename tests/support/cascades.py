"""Cascades of skips that are cut off early, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.store.postgres import finishing_steps
from holdfast.store.postgres import settling as on_postgres
from holdfast.store.sqlite import settling as on_sqlite
from holdfast.store.valkey import constants, scripts


@contextmanager
def cut_off_at(limit: int) -> Iterator[None]:
    """A transaction or script skips about so many nodes, and owes the rest."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (finishing_steps, on_postgres, on_sqlite, constants):
            patch.setattr(module, "CASCADE_LIMIT", limit)
        scripts.script.cache_clear()
        yield
    scripts.script.cache_clear()
