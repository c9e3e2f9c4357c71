"""One program run to its end: what it wrote is the result, and any exit code but 0 an error."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from holdfast.errors import CommandFailed
from holdfast.handlers.minder import Minder
from holdfast.handlers.piping import Kept, Piped, gone, piped
from holdfast.job import checks

MOST_ERROR = 4 * 1024
"""Bytes from the end of standard error that the error of a job shows."""

LINGERING_SECONDS = 1.0
"""How long the output is read after the program has ended. A process that left the session of its
program, and still runs, is not waited for."""


class CommandOutput(msgspec.Struct, frozen=True):
    """What a program wrote that ended well. `cut`: it wrote more than is kept.

    >>> CommandOutput(stdout="640x480")
    CommandOutput(code=0, stdout='640x480', cut=False)
    """

    code: int = 0
    stdout: str = ""
    cut: bool = False


class RunOptions(msgspec.Struct, frozen=True):
    """How a program is run. When it is asked to end, it has `patience` seconds before it is killed.
    `max_output`: bytes of its standard output that the job keeps."""

    cwd: str | None = None
    patience: float = 3.0
    max_output: int = 64 * 1024

    def __post_init__(self) -> None:
        checks.seconds("patience", self.patience)
        checks.count("max_output", self.max_output, least=0)
        if self.cwd is not None:
            checks.kind("cwd", self.cwd, str, "the path of a folder as text")

    async def run(
        self, minder: Minder, argv: Sequence[str], env: Mapping[str, str], stdin: str
    ) -> CommandOutput:
        """Run the program to its end. Raises `CommandFailed` unless its exit code is 0."""
        async with piped(minder, argv, env, self.cwd) as running:
            return await self._followed(running, argv[0], stdin.encode())

    async def _followed(self, running: Piped, name: str, stdin: bytes) -> CommandOutput:
        out, err = Kept(self.max_output, first=True), Kept(MOST_ERROR)
        talking = asyncio.gather(
            _write(running.stdin, stdin), out.read(running.stdout), err.read(running.stderr)
        )
        try:
            code = await asyncio.shield(running.program.ended)
            await asyncio.wait([talking], timeout=LINGERING_SECONDS)
        except asyncio.CancelledError:
            await gone(running.program, self.patience)
            raise
        finally:
            talking.cancel()
            with suppress(asyncio.CancelledError):
                await talking
        if code != 0:
            raise CommandFailed(name, ending(code), err.text)
        return CommandOutput(code, out.text, out.cut)


async def _write(stdin: asyncio.StreamWriter, data: bytes) -> None:
    """A program need not read all that it is given."""
    with suppress(ConnectionError):
        stdin.write(data)
        await stdin.drain()
        stdin.close()


def ending(code: int) -> str:
    """How a program ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
