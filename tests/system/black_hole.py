"""A way to a server that can go silent: lines stay open, new ones are taken, nothing answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class BlackHole:
    """Carries bytes both ways until it is told to swallow them."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._silent = False

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        who, at, _ = self._parts.netloc.rpartition("@")
        return self._parts._replace(netloc=f"{who}{at}127.0.0.1:{port}").geturl()

    def go_silent(self) -> None:
        self._silent = True

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()

    async def _connected(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, there = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        self._writers += [back, there]
        for reader, writer in ((near, there), (far, back)):
            task = asyncio.create_task(self._carry(reader, writer))
            self._tasks.add(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if not self._silent:
                    writer.write(data)
            if not self._silent:
                writer.close()


@asynccontextmanager
async def black_hole(url: str) -> AsyncIterator[BlackHole]:
    hole = BlackHole(url)
    await hole.start()
    try:
        yield hole
    finally:
        await hole.stop()
