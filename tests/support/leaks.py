"""Always true, line 10: nothing is left behind.

    async with nothing_leaks():
        ...

What was there before the block is not held against it. Processes that live as long as the test
run on purpose (the watchdog of a test server, the resource tracker of multiprocessing) do not
count.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any

import psutil

from tests.support.kept_sessions import KEPT_SESSIONS

LIVES_ON = ("watchdog.py", "resource_tracker", "forkserver", "tests.support.forking")


@dataclass(frozen=True, slots=True)
class Belongings:
    """What this process holds that somebody has to give back."""

    tasks: frozenset[asyncio.Task[object]]
    threads: frozenset[str]
    processes: frozenset[str]
    sockets: frozenset[str]
    sqlite_connections: frozenset[sqlite3.Connection]

    @classmethod
    def now(cls) -> Belongings:
        return cls(
            frozenset(asyncio.all_tasks() - {asyncio.current_task()}),
            frozenset(f"{t.name} {t.ident}" for t in threading.enumerate() if _is_ours(t)),
            frozenset(_children()),
            frozenset(_sockets()),
            frozenset(_sqlite_connections()),
        )

    def beyond(self, before: Belongings) -> list[str]:
        """What is here that was not there before, named by its kind."""
        return [
            f"{kind}: {thing}"
            for kind in self.__slots__
            for thing in sorted(map(_shown, getattr(self, kind) - getattr(before, kind)))
        ]


@asynccontextmanager
async def nothing_leaks() -> AsyncIterator[None]:
    before = Belongings.now()
    yield
    leaked: list[str] = []
    for _ in range(50):
        leaked = Belongings.now().beyond(before)
        if not leaked:
            return
        # A transport that was told to close does so on a later turn of the loop.
        await asyncio.sleep(0.01)
    raise AssertionError("left behind:\n  " + "\n  ".join(leaked))


def _is_ours(thread: threading.Thread) -> bool:
    return thread.name.startswith("holdfast")


def _children() -> list[str]:
    return [
        f"{pid} {command}"
        for pid, command in _commands()
        if not any(name in command for name in LIVES_ON)
    ]


def _commands() -> Iterator[tuple[int, str]]:
    """Everything that descends from this process and has not ended. The kernel lists the children
    of a thread where it is built to: reading that takes a fiftieth of a look at every process of
    the machine, and this runs twice in every test."""
    if not os.path.exists("/proc/thread-self/children"):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it ended while we looked
                yield child.pid, " ".join(child.cmdline())
        return
    for pid in _descendants(os.getpid()):
        if command := _read(f"/proc/{pid}/cmdline") or _begun(pid):
            yield pid, command.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")


def _begun(pid: int) -> bytes:
    """The short name of a process without a command line, if it lives. One that has ended has none
    any more, and one that just begins has none yet, although whoever started it was told so."""
    name, _, state = _read(f"/proc/{pid}/stat").partition(b"(")[2].rpartition(b") ")
    return b"" if state[:1] in (b"", b"Z", b"X") else name


def _descendants(parent: int) -> Iterator[int]:
    for thread in _listed(f"/proc/{parent}/task"):
        for child in map(int, _read(f"/proc/{parent}/task/{thread}/children").split()):
            yield child
            yield from _descendants(child)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # the thread or the whole process ended while we looked


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # it ended


def _sockets() -> list[str]:
    """Every socket of this process. The pair that a loop keeps for itself is there before and
    after alike. Read from /proc where there is one: a hundred times as quick, without paths as
    objects, and this runs twice in every test."""
    descriptors = _listed("/proc/self/fd")
    if not descriptors:
        connections = psutil.Process().net_connections()
        return [f"{c.fd} {c.laddr} to {c.raddr}" for c in connections]
    links = []
    for descriptor in descriptors:
        try:
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            continue  # the descriptor of the listing itself
    kept = KEPT_SESSIONS.links
    return [link for link in links if link.startswith("socket:") and link not in kept]


_sqlite_opened: list[sqlite3.Connection] = []
_connect = sqlite3.connect


@wraps(_connect)
def _remembered(*place: Any, **options: Any) -> sqlite3.Connection:
    """Connections are remembered until they are seen closed, so one that was merely forgotten is
    not closed by the garbage collector before it is missed."""
    connection: sqlite3.Connection = _connect(*place, **options)
    _sqlite_opened.append(connection)
    return connection


# Not by an audit hook, although it would hear of every connection: Python calls it for each file
# that is opened and each module that is imported, and that took longer than all looks together.
sqlite3.connect = sqlite3.dbapi2.connect = _remembered  # type: ignore[assignment]  # is overloaded


def _sqlite_connections() -> list[sqlite3.Connection]:
    _sqlite_opened[:] = [connection for connection in _sqlite_opened if _is_open(connection)]
    return _sqlite_opened


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


def _shown(thing: object) -> str:
    return (
        f"{thing!r} on {_main_file(thing)}" if isinstance(thing, sqlite3.Connection) else f"{thing}"
    )


def _main_file(connection: sqlite3.Connection) -> str:
    try:
        return str(connection.execute("pragma database_list").fetchone()[2]) or "memory"
    except sqlite3.Error as elsewhere:
        return str(elsewhere)
