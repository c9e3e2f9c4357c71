"""The check for leaks finds each kind of leak. A check that cannot fail would prove nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from types import ModuleType

import pytest

from tests.support import leaks
from tests.support.leaks import nothing_leaks


async def test_nothing_is_found_where_everything_was_given_back() -> None:
    async with nothing_leaks():
        sqlite3.connect(":memory:").close()
        await asyncio.create_task(asyncio.sleep(0))


async def test_a_task_that_goes_on_is_found() -> None:
    task: asyncio.Task[None] | None = None
    with pytest.raises(AssertionError, match="tasks"):
        async with nothing_leaks():
            task = asyncio.create_task(asyncio.sleep(60))
    assert task is not None
    task.cancel()


async def test_a_thread_that_goes_on_is_found() -> None:
    enough = threading.Event()
    with pytest.raises(AssertionError, match="threads"):
        async with nothing_leaks():
            threading.Thread(target=enough.wait, name="holdfast-test", daemon=True).start()
    enough.set()


async def test_a_process_that_goes_on_is_found() -> None:
    child: asyncio.subprocess.Process | None = None
    with pytest.raises(AssertionError, match="processes"):
        async with nothing_leaks():
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
            )
    assert child is not None
    await child.communicate(b"\n")


def test_a_process_without_a_command_line_is_seen_as_long_as_it_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = leaks._read
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        hidden = f"/proc/{child.pid}/cmdline"
        monkeypatch.setattr(leaks, "_read", lambda path: b"" if path == hidden else read(path))
        assert dict(leaks._commands())[child.pid] == "cat"
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and still listed
        assert child.pid not in dict(leaks._commands())


async def test_an_open_socket_is_found() -> None:
    pair: tuple[socket.socket, ...] = ()
    with pytest.raises(AssertionError, match="sockets"):
        async with nothing_leaks():
            pair = socket.socketpair()
    for end in pair:
        end.close()


@pytest.mark.parametrize("module", [sqlite3, sqlite3.dbapi2], ids=lambda one: one.__name__)
async def test_an_open_sqlite_connection_is_found_even_if_nobody_remembers_it(
    module: ModuleType,
) -> None:
    with pytest.raises(AssertionError, match=r"sqlite_connections: .* on memory"):
        async with nothing_leaks():
            module.connect(":memory:", check_same_thread=False)
