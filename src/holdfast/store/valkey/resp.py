"""One connection on which calls do not wait for each other.

A server answers the commands of a connection in their order, so a call needs no connection of its
own: it is written at once, and the oldest waiting caller gets the next answer. The driver's client
uses a pool, two streams and five coroutines for every command, which costs more than the server
does; here a call is a write and a future.

If a caller gives up, its place in the order stays and its answer is thrown away. A connection that
has not answered for `patience` seconds is cut, and every waiting caller gets an error.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis

Heard = Callable[[bytes], None]


class ResponseError(Exception):
    """The server answered with this error."""


class Connection(asyncio.Protocol):
    """A connection to one server. `heard` gets the messages of the channels that it subscribed."""

    def __init__(self, patience: float, heard: Heard | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._patience = patience
        self._heard = heard
        self._reader = hiredis.Reader(replyError=ResponseError)
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def ask(self, words: Sequence[Any]) -> asyncio.Future[Any]:
        """Send a command; the future gets the answer, or the error that came instead of it."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self._transport is None:
            answer.set_exception(ConnectionError("the connection is cut"))
            return answer
        self._transport.write(hiredis.pack_command(tuple(words)))
        self._waiting.append((answer, self._loop.time()))
        if self._watch is None:
            self._watch = self._loop.call_later(self._patience, self._check_patience)
        return answer

    def cut(self, error: Exception) -> None:
        """Give the connection up; all waiting callers get this error."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if not self.lost.done():
            self.lost.set_result(None)
        while self._waiting:
            answer, _ = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(error)

    def _check_patience(self) -> None:
        """One timer serves all calls. It is set again only while a caller waits."""
        self._watch = None
        if not self._waiting:
            return
        left = self._waiting[0][1] + self._patience - self._loop.time()
        if left > 0:
            self._watch = self._loop.call_later(left, self._check_patience)
        else:
            self.cut(TimeoutError(f"no answer within {self._patience:g} s"))

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's only looks like one
        plain: socket.socket | None = transport.get_extra_info("socket")
        if plain is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._take(reply)
        except hiredis.ProtocolError as error:
            self.cut(ConnectionError(f"the server does not speak the protocol: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.cut(ConnectionError(f"the server closed the connection: {exc or 'no reason'}"))

    def _take(self, reply: Any) -> None:
        if self._heard is not None and isinstance(reply, list) and reply[0] == b"message":
            self._heard(reply[2])
            return
        if not self._waiting:
            # The server says something unasked, such as that it has too many clients, and then
            # closes the connection.
            return
        answer, _ = self._waiting.popleft()
        if answer.done():
            return
        if isinstance(reply, ResponseError):
            answer.set_exception(reply)
        else:
            answer.set_result(reply)
