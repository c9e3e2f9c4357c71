"""One connection carries the calls of many callers: no caller gets the answer of another, and no
caller waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.store.valkey.clients import Direct
from holdfast.store.valkey.resp import Connection, ResponseError

PATIENCE = 5.0


class Peer:
    """The other end of the connection: it answers what a test tells it, when the test says so."""

    def __init__(self) -> None:
        self.lines = 0
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()

    async def dial(self, patience: float = PATIENCE) -> Connection:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(patience), host, port)
        return connection

    def say(self, text: bytes) -> None:
        self._writers[-1].write(text)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines += 1
        self._writers.append(writer)
        while some := await reader.read(65_536):
            self.heard.put_nowait(some)


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    await peer.start()
    yield peer
    await peer.stop()


async def test_answers_go_to_those_who_asked_in_their_order(peer: Peer) -> None:
    connection = await peer.dial()
    asked = [connection.ask(("ECHO", n)) for n in range(3)]
    await peer.heard.get()
    peer.say(b"$1\r\n0\r\n$1\r")
    peer.say(b"\n1\r\n$1\r\n2\r\n")
    assert await asyncio.gather(*asked) == [b"0", b"1", b"2"]
    connection.cut(ConnectionError())


async def test_a_caller_that_gives_up_leaves_the_next_its_own_answer(peer: Peer) -> None:
    connection = await peer.dial()
    gone, stays = connection.ask(("ECHO", "gone")), connection.ask(("ECHO", "stays"))
    gone.cancel()
    await peer.heard.get()
    peer.say(b"+gone\r\n+stays\r\n")
    assert await stays == b"stays"
    connection.cut(ConnectionError())


async def test_an_error_is_raised_where_its_command_was_asked(peer: Peer) -> None:
    connection = await peer.dial()
    wrong, right = connection.ask(("NONSENSE",)), connection.ask(("PING",))
    await peer.heard.get()
    peer.say(b"-ERR unknown command\r\n+PONG\r\n")
    with pytest.raises(ResponseError, match="unknown command"):
        await wrong
    assert await right == b"PONG"
    connection.cut(ConnectionError())


async def test_a_line_that_stays_silent_is_cut_and_all_who_wait_are_told(peer: Peer) -> None:
    connection = await peer.dial(patience=0.05)
    waiting = [connection.ask(("PING",)) for _ in range(3)]
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in told] == [TimeoutError] * 3
    with pytest.raises(ConnectionError):
        await connection.ask(("PING",))


async def test_a_closed_line_fails_those_who_wait_on_it(peer: Peer) -> None:
    connection = await peer.dial()
    waiting = connection.ask(("PING",))
    await peer.heard.get()
    peer._writers[-1].close()
    with pytest.raises(ConnectionError, match="closed"):
        await waiting


async def test_many_callers_share_one_attempt_to_connect(peer: Peer) -> None:
    client = Direct(peer.dial)
    calls = [asyncio.create_task(client.execute_command("PING")) for _ in range(5)]
    await peer.heard.get()
    peer.say(b"+PONG\r\n" * 5)
    assert await asyncio.gather(*calls) == [b"PONG"] * 5
    assert (peer.lines, client.connection_number) == (1, 1)
    await client.aclose()


async def test_a_master_that_became_a_replica_is_left(peer: Peer) -> None:
    client = Direct(peer.dial)
    refused = asyncio.create_task(client.execute_command("SET", "a", "b"))
    await peer.heard.get()
    peer.say(b"-READONLY You can't write against a read only replica.\r\n")
    with pytest.raises(ResponseError, match="READONLY"):
        await refused
    again = asyncio.create_task(client.execute_command("SET", "a", "b"))
    await peer.heard.get()
    peer.say(b"+OK\r\n")
    assert await again == b"OK"
    assert peer.lines == 2
    await client.aclose()
