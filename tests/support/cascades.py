"""Cascades of skips that are cut off early, on every store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from holdfast.store.postgres import finishing_steps
from holdfast.store.postgres import settling as on_postgres
from holdfast.store.sqlite import settling as on_sqlite
from holdfast.store.valkey import connection, constants, scripts

Kept = Callable[..., Any]


@contextmanager
def cut_off_at(limit: int) -> Iterator[None]:
    """A transaction or script skips about so many nodes, and owes the rest."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (finishing_steps, on_postgres, on_sqlite, constants):
            patch.setattr(module, "CASCADE_LIMIT", limit)
        shared, written, script = _scripts_with(limit)
        patch.setattr(scripts, "constants", shared)
        patch.setattr(scripts, "_written", written)
        patch.setattr(connection, "script", script)
        yield


@cache
def _scripts_with(limit: int) -> tuple[Kept, Kept, Kept]:
    """Valkey's scripts with this limit, kept beside those without it: no test puts all of them
    together anew."""
    return (
        cache(constants.constants.__wrapped__),
        cache(scripts._written.__wrapped__),
        cache(scripts.script.__wrapped__),
    )
