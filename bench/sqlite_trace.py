"""SQLite's statements, counted inside the worker's process by the driver's own trace.

Apart from the other stores' counting, so that a worker under test imports none of what that needs.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Any

LOOK, BRACKET, STATEMENT = 0, 1, 2


def kind_of(statement: str) -> int:
    """LOOK is a glance at `data_version`, which reads a counter and no table; a BRACKET begins or
    ends a transaction, which sends nothing anywhere by itself; all else is a STATEMENT."""
    first = statement.split(maxsplit=1)[0].lower()
    if first == "pragma" and "data_version" in statement:
        return LOOK
    return BRACKET if first in ("begin", "commit", "rollback") else STATEMENT


def sqlite_statements_marked(mark: Callable[[int], object]) -> None:
    """From now on in this process, by its kind as `kind_of` has it."""
    connect = sqlite3.connect
    lock = threading.Lock()

    def seen(statement: str) -> None:
        with lock:
            mark(kind_of(statement))

    def connect_traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        connection.set_trace_callback(seen)
        return connection

    sqlite3.connect = connect_traced  # type: ignore[assignment]  # only the driver can count
