"""Sessions of a Postgres server that outlive the connections of tests.

A store opens its connections anew in every test, on the test's own event loop. A new session costs
the server a process and all that it has to learn of the catalogue: some 25 ms of CPU for a test of
a millisecond. So a session whose connection was closed in order is reset and kept.
The next connection with the same parameters gets its socket, and the server's greeting once more.
Nothing of asyncpg is replaced but the way to the server: each connection is a new one of its own.

A session keeps the statements that it has prepared: to parse and plan one costs the server more
than to run it on a few rows. A statement has the same name on every connection. If we know that
the session has it, a connection hears at once how the server described it the first time. The
session may have it though we do not know: whoever prepared it was interrupted before the server had
described it. So every other preparing closes the name first, which is no error if nobody has it.
What asyncpg asks the server about built-in types is asked once, too.

A listener gives its connection up instead of closing it. That is as good, if the server had nothing
left to answer. A connection that was given up in the middle of a statement, lost, or closed inside
a transaction takes its session with it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import urlsplit

import asyncpg
from asyncpg.protocol import Protocol

from tests.support.postgres_messages import (
    IS_RESET,
    NOTIFIED,
    PREPARED,
    READY,
    RESET,
    TERMINATE,
    closing,
    kinds,
    text,
)

_Untyped: Any = asyncpg.Connection
Key = tuple[object, ...]
Factory = Callable[[], asyncio.BaseProtocol]


class Session:
    """A socket on which the server waits, how it greeted the first connection, and how it described
    each statement that is prepared here."""

    def __init__(self, sock: socket.socket, greeting: bytes, prepared: dict[bytes, bytes]) -> None:
        self.sock = sock
        self.greeting = greeting
        self.prepared = prepared
        self.pid = os.getpid()

    @property
    def link(self) -> str:
        """The name of the socket in `/proc/self/fd`."""
        return f"socket:[{os.fstat(self.sock.fileno()).st_ino}]"

    def is_reset(self) -> bool:
        """Whether the server has answered to the reset, and has said nothing else."""
        self.sock.settimeout(5)
        answer = b""
        try:
            while not answer.endswith(READY):
                more = self.sock.recv(4096)
                if not more:
                    return False
                answer += more
        except OSError:
            return False
        told = "".join(kinds(answer))
        return told.replace(NOTIFIED, "") == IS_RESET


class KeptSessions:
    """All that are kept in this process, by server and parameters. They are those of the tests' own
    thread: a thread of heartbeats that was told to end in the middle of connecting could wait for
    ever on one that was kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: defaultdict[Key, list[Session]] = defaultdict(list)
        self._databases: set[str] = set()
        self._ports: set[int] = set()
        self._connect: Any = None

    @property
    def links(self) -> set[str]:
        """The sockets that are nobody's leak."""
        with self._lock:
            return {session.link for idle in self._idle.values() for session in idle}

    def serve(self, url: str) -> None:
        """Keep sessions of this database from now on."""
        self._databases.add(database_of(url))
        self._ports.add(urlsplit(url).port or 0)
        if self._connect is None:
            self._connect = asyncpg.connect
            asyncpg.connect = self._connect_by_us

    def serves(self, address: tuple[str, int]) -> bool:
        """Whether this is the server itself, and no proxy that may not let a reset pass."""
        return address[1] in self._ports

    def forget(self, url: str) -> None:
        self._databases.discard(database_of(url))
        if not self._databases and self._connect is not None:
            asyncpg.connect, self._connect = self._connect, None
            for idle in self._idle.values():
                while idle:
                    idle.pop().sock.close()

    async def _connect_by_us(self, dsn: str | None = None, **options: Any) -> Any:
        elsewhere = threading.current_thread() is not threading.main_thread()
        if elsewhere or dsn is None or database_of(dsn) not in self._databases:
            return await self._connect(dsn, **options)
        loop = asyncio.get_running_loop()
        own = {"loop": _Loop(loop, self), "connection_class": _Connection}
        connection = await self._connect(dsn, **own, **{"ssl": False} | options)
        connection._loop = loop
        return connection

    def keep(self, key: Key, session: Session) -> None:
        with self._lock:
            self._idle[key].append(session)

    def take(self, key: Key) -> Session | None:
        while True:
            with self._lock:
                idle = self._idle[key]
                session = idle.pop() if idle else None
            if session is None or (session.pid == os.getpid() and session.is_reset()):
                return session
            session.sock.close()


class _Connection(_Untyped):  # type: ignore[misc]  # what is private has no types
    """Names its statements as every other connection does."""

    _names: ClassVar[dict[str, str]] = {}

    async def _get_statement(self, query: str, timeout: Any, **options: Any) -> Any:
        if self._stmt_cache_enabled and not options.get("named"):
            options["named"] = self._names.setdefault(query, f"kept_{len(self._names)}")
        return await super()._get_statement(query, timeout, **options)

    def _cancel_current_command(self, *waiting: Any) -> None:
        """What cancels is on its way, and may reach the server after all answers."""
        self._transport.is_interrupted = True
        super()._cancel_current_command(*waiting)


class _Loop:
    """The running loop, but for how it connects to the server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, kept: KeptSessions) -> None:
        self._loop = loop
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, factory: Factory, *address: Any, **options: Any) -> Any:
        protocol = factory()
        if not isinstance(protocol, Protocol):  # one that only tells the server to cancel
            return await self._loop.create_connection(lambda: protocol, *address, **options)
        transport = _Transport(self._loop, self._kept, protocol, address)
        protocol.connection_made(transport)
        await transport.connect()
        return transport, protocol


class _Transport(asyncio.Protocol):
    """Stands between the protocol of a connection and the socket of a session."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, kept: KeptSessions, protocol: Any, address: Any
    ) -> None:
        self._loop = loop
        self._kept = kept
        self._protocol = protocol
        self._address = address
        self._first = b""  # what the protocol sends before anything else: its parameters
        self._greeting = b""
        self._prepared: dict[bytes, bytes] = {}
        self._preparing = b""
        self._description = b""
        self._wire: Any = None
        self._is_ending = False
        self._is_idle = False  # the server waits for the next statement, outside of a transaction
        self.is_interrupted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)

    async def connect(self) -> None:
        session = self._kept.take((*self._address, self._first))
        if session is None:
            await self._loop.create_connection(lambda: self, *self._address)
            self._wire.write(self._first)
            return
        session.sock.setblocking(False)
        self._greeting, self._prepared = session.greeting, session.prepared
        await self._loop.create_connection(lambda: self, sock=session.sock)
        self._protocol.data_received(session.greeting)

    # What the protocol calls -----------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._wire is None else self._wire.get_extra_info(name, default)

    def write(self, data: Any) -> None:
        if self._wire is None:
            self._first += bytes(data)
        elif bytes(data) == TERMINATE:
            self._is_ending = True  # if it is aborted, that comes before the loop's next turn
            self._loop.call_soon(self._end)
        else:
            self._say(bytes(data))

    def _say(self, message: bytes) -> None:
        """To the server, unless it was told the same before, and that was to prepare."""
        self._learn()
        if message.startswith(b"P"):
            name = text(message, 5)
            if name in self._prepared:
                self._loop.call_soon(self._protocol.data_received, self._prepared[name])
                return
            self._preparing, self._description = name, b""
            message = closing(name) + message
        elif message.startswith(b"C") and message[5:6] == b"S":
            self._prepared.pop(text(message, 6), None)
        self._is_idle = False
        self._wire.write(message)

    def _learn(self) -> None:
        """All that the server has said since it was told to prepare a statement is its description;
        nobody says anything before that is there."""
        if self._preparing and "".join(kinds(self._description)) in PREPARED:
            self._prepared[self._preparing] = self._description
        self._preparing = b""

    def abort(self) -> None:
        is_done = self._is_idle and not self.is_interrupted
        if self._is_ending and is_done and self._kept.serves(self._address):
            return  # it ends with the loop's next turn
        self._is_ending = False
        if self._wire is not None:
            self._wire.abort()

    def _end(self) -> None:
        if not self._is_ending:
            return
        sock = self._wire.get_extra_info("socket")
        if not self._wire.is_closing() and self._greeting.endswith(READY):
            self._wire.write(RESET)
            own = socket.socket(fileno=os.dup(sock.fileno()))
            session = Session(own, self._greeting, self._prepared)
            self._kept.keep((*self._address, self._first), session)
        self._wire.close()

    # What the wire calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if not self._greeting.endswith(READY):
            self._greeting += data
        if self._preparing:
            self._description += data
        if data.endswith(READY):
            self._is_idle = True
        if not self._is_ending:
            self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return bool(self._protocol.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


def database_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


KEPT_SESSIONS = KeptSessions()
