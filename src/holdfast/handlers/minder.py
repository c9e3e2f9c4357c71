"""Starts programs for a worker, through a minder that outlives the worker.

`minding` is the other side, a small process of its own. It is started with the first program, and
again if somebody kills it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import ProgramNotStarted
from holdfast.handlers import minding

Streams = tuple[int, int, int]
"""The descriptors that a program has as its standard streams. Whoever starts it closes them."""

MINDER_KILLED = -int(signal.SIGKILL)
"""The exit code of a program whose minder was killed: it is killed as well."""


class StartedProgram:
    """One program that runs, in a session of its own."""

    def __init__(self, minder: Minder, number: int, name: str) -> None:
        self._minder = minder
        self.name = name
        self._number = number
        self.started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def send_signal(self, number: signal.Signals) -> None:
        """To the program and all that it started."""
        if not self.ended.done():
            await self._minder.say({"id": self._number, "signal": int(number)})

    async def stop(self, patience: float) -> None:
        """Ask the program to end, kill it after `patience` seconds, and wait until it is gone."""
        if patience > 0:
            await self.send_signal(signal.SIGTERM)
            await asyncio.wait([self.ended], timeout=patience)
        await self.send_signal(signal.SIGKILL)
        await asyncio.wait([self.ended])


class Minder:
    """Starts programs and hears how they end. All programs of a worker have the same minder."""

    def __init__(self) -> None:
        self._numbers = count()
        self._programs: dict[int, StartedProgram] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._listening: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, streams: Streams
    ) -> StartedProgram:
        """Start a program. Raises `ProgramNotStarted` if it cannot be."""
        number = next(self._numbers)
        program = self._programs[number] = StartedProgram(self, number, argv[0])
        order = {"id": number, "argv": list(argv), "env": dict(env), "cwd": cwd}
        try:
            await self.say(order, streams)
            await program.started
        except asyncio.CancelledError:
            await asyncio.shield(self._undo(program))
            raise
        return program

    async def _undo(self, program: StartedProgram) -> None:
        """The order may have been sent: what it started must not run on."""
        with suppress(ProgramNotStarted):
            await program.started
            await program.stop(0.0)

    async def say(self, order: Mapping[str, Any], streams: Sequence[int] = ()) -> None:
        async with self._turn:
            if self._socket is None:
                if not streams:
                    return  # the minder is gone, and its programs with it
                self._begin()
            assert self._socket is not None
            line = msgspec.json.encode(order) + b"\n"
            with suppress(ConnectionError):  # heard by `_listen` too, which ends every program
                sent = socket.send_fds(self._socket, [line], streams) if streams else 0
                await asyncio.get_running_loop().sock_sendall(self._socket, line[sent:])

    async def close(self) -> None:
        """End the minder, and with it every program that still runs."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_WR)
        if self._listening is not None:
            await self._listening

    def _begin(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(minding.__file__)), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal is for the worker
            )
        ours.setblocking(False)
        self._socket = ours
        self._listening = asyncio.create_task(self._listen(ours), name="holdfast-minder")

    async def _listen(self, minder: socket.socket) -> None:
        loop, read = asyncio.get_running_loop(), b""
        with suppress(ConnectionError):
            while data := await loop.sock_recv(minder, minding.READ_BYTES):
                *lines, read = (read + data).split(b"\n")
                for line in lines:
                    self._hear(msgspec.json.decode(line))
        minder.close()
        self._socket = None
        self._lost()

    def _hear(self, message: dict[str, Any]) -> None:
        number = message["id"]
        match message:
            case {"pid": pid}:
                self._programs[number].started.set_result(pid)
            case {"code": code}:
                self._programs.pop(number).ended.set_result(code)
            case {"kind": kind, "error": error}:
                program = self._programs.pop(number)
                program.ended.set_result(MINDER_KILLED)
                program.started.set_exception(ProgramNotStarted(program.name, f"{kind}: {error}"))

    def _lost(self) -> None:
        """The minder is gone: what it started must not go on without it."""
        assert self._process is not None
        self._process.wait()
        for program in self._programs.values():
            if program.started.done():
                with suppress(ProcessLookupError):
                    os.killpg(program.started.result(), signal.SIGKILL)
            else:
                program.started.set_exception(
                    ProgramNotStarted(program.name, "its minder was killed")
                )
            program.ended.set_result(MINDER_KILLED)
        self._programs.clear()


async def minder() -> AsyncIterator[Minder]:
    """The minder of a worker, as a resource that its commands and pools share."""
    one = Minder()
    try:
        yield one
    finally:
        await one.close()
