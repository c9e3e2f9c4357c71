"""A program with its standard streams, started through the minder."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import IO

import msgspec

from holdfast.handlers.minder import Minder, StartedProgram
from holdfast.job.text import clean

OWN_VARIABLES = "HOLDFAST_"
"""Settings of this program that others do not get: the address of the store may have a password."""

READ_BYTES = 65536


class Piped(msgspec.Struct, frozen=True):
    """A program that runs, and this end of its streams."""

    program: StartedProgram
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader


@asynccontextmanager
async def piped(
    minder: Minder,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    line: int = READ_BYTES,
) -> AsyncIterator[Piped]:
    """Start a program, and close the streams in the end; the program is not waited for. `line`: the
    longest line that is read from it. Raises `ProgramNotStarted`."""
    with ExitStack() as theirs, ExitStack() as ours:
        # As asyncio does it: not every system can wait for room in a pipe.
        near, far = socket.socketpair()
        theirs.callback(far.close)
        reader, stdin = await asyncio.open_connection(sock=near)
        ours.callback(stdin.close)
        stdout, out = await _readable(theirs, ours, line)
        stderr, err = await _readable(theirs, ours, line)
        variables = _environment() | dict(env)
        program = await minder.start(argv, variables, cwd, (far.fileno(), out, err))
        theirs.close()
        del reader  # the program says nothing on its standard input
        yield Piped(program, stdin, stdout, stderr)


async def _readable(
    theirs: ExitStack, ours: ExitStack, line: int
) -> tuple[asyncio.StreamReader, int]:
    reading, writing = os.pipe()
    theirs.callback(os.close, writing)
    pipe: IO[bytes] = os.fdopen(reading, "rb", buffering=0)  # the transport closes it
    reader = asyncio.StreamReader(limit=line)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    ours.callback(transport.close)
    return reader, writing


def _environment() -> dict[str, str]:
    return {name: it for name, it in os.environ.items() if not name.startswith(OWN_VARIABLES)}


async def gone(program: StartedProgram, patience: float) -> None:
    """End the program, and wait for that however often the waiting is cancelled: an attempt must
    not end before its program."""
    stopping = asyncio.ensure_future(program.stop(patience))
    while not stopping.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(stopping)


class Kept:
    """The last bytes that a stream brought, or with `first` the first ones, as text."""

    def __init__(self, most: int, *, first: bool = False) -> None:
        self._most = most
        self._first = first
        self._bytes = bytearray()
        self.cut = False

    async def read(self, stream: asyncio.StreamReader) -> None:
        """To its end. What is over the limit is read too, so that the program is not held up."""
        while data := await stream.read(READ_BYTES):
            self._bytes += data
            self.cut |= len(self._bytes) > self._most
            kept = self._bytes[: self._most] if self._first else self._bytes[-self._most :]
            self._bytes = kept if self._most else bytearray()

    @property
    def text(self) -> str:
        """Half a character at the cut is left out."""
        text = self._bytes.decode("utf-8", "ignore" if self.cut else "replace")
        return clean(text, self._most + 1)
