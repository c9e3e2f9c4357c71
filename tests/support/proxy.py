"""A TCP proxy in front of a server: it passes, swallows everything, loses answers, or is cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto
from urllib.parse import urlsplit


class Mode(Enum):
    PASS = auto()
    BLACK_HOLE = auto()  # nothing gets through in either direction, and nobody is told
    LOSE_ANSWERS = auto()  # requests get through, answers do not
    CUT = auto()  # connections are refused and broken


class Proxy:
    """Runs on a loop and thread of its own, so that a busy test cannot slow it down."""

    def __init__(self, url: str) -> None:
        self._asked_for = self._server = urlsplit(url)
        self.mode = Mode.PASS
        self.swallowed = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)
        self._thread.start()
        self._started.wait(10)

    @property
    def url(self) -> str:
        """The first place, by way of the proxy."""
        who, at, _ = self._asked_for.netloc.rpartition("@")
        return self._asked_for._replace(netloc=f"{who}{at}127.0.0.1:{self.port}").geturl()

    def go_silent(self) -> None:
        self.mode = Mode.BLACK_HOLE

    def lead_to(self, url: str) -> None:
        """From now on the address is that of another server."""
        self._server = urlsplit(url)
        self.break_connections()

    def break_connections(self) -> None:
        """End every connection of this moment."""
        self._loop.call_soon_threadsafe(self._abort)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(5)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._wind_up(server))
        self._loop.close()

    def _end(self) -> None:
        self._abort()
        self._loop.stop()

    async def _wind_up(self, server: asyncio.Server) -> None:
        server.close()  # or the collector finds it, in a test of somebody else
        carrying = asyncio.all_tasks() - {asyncio.current_task()}
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self.mode is Mode.CUT:
            back.transport.abort()
            return
        try:
            far, forth = await asyncio.open_connection(self._server.hostname, self._server.port)
        except OSError:
            back.transport.abort()
            return
        self._writers |= {back, forth}
        try:
            await asyncio.gather(
                self._carry(near, forth, Mode.BLACK_HOLE),
                self._carry(far, back, Mode.BLACK_HOLE, Mode.LOSE_ANSWERS),
            )
        except OSError:
            pass
        finally:
            self._writers -= {back, forth}
            back.transport.abort()
            forth.transport.abort()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *swallowed_in: Mode
    ) -> None:
        while data := await reader.read(65_536):
            if self.mode in swallowed_in:
                self.swallowed += len(data)
            else:
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def proxy_to(url: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
