"""Sessions that outlive connections: what one test leaves does no harm to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest

from holdfast.testing.servers import PostgresServer
from tests.support.kept_sessions import KEPT_SESSIONS

QUERY = "select n from generate_series(1, 3) as n where n > $1"


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """A database whose sessions are kept, and gone with the test."""
    url = postgres.new_database()
    KEPT_SESSIONS.serve(url)
    yield url
    KEPT_SESSIONS.forget(url)
    postgres.drop_database(url)


async def test_a_session_and_what_it_prepared_serve_the_next_connection(url: str) -> None:
    first = await asyncpg.connect(url)
    assert await first.fetchval(QUERY, 2) == 3
    await first.close()
    second = await asyncpg.connect(url)
    assert second.get_server_pid() == first.get_server_pid()
    assert await second.fetchval("select count(*) from pg_prepared_statements") > 1
    assert await second.fetchval(QUERY, 1) == 2
    await second.close()


async def test_a_statement_whose_preparing_was_interrupted_is_prepared_again(url: str) -> None:
    """The server has the statement, and whoever asked for it never heard of that."""
    first = await asyncpg.connect(url)
    asking = asyncio.create_task(first.fetchval(QUERY, 2))
    await asyncio.sleep(0)  # the server has been told to prepare, and has not answered
    asking.cancel()
    await asyncio.wait([asking])
    assert await first.fetchval("select $1::int", 7) == 7
    await first.close()
    second = await asyncpg.connect(url)
    assert second.get_server_pid() == first.get_server_pid()
    assert await second.fetchval(QUERY, 2) == 3
    await second.close()


async def test_a_listener_that_was_given_up_leaves_a_session_that_hears_nothing(url: str) -> None:
    heard: list[object] = []
    first = await asyncpg.connect(url)
    session = first.get_server_pid()
    await first.add_listener("news", lambda *news: heard.append(news))
    first.terminate()
    await asyncio.sleep(0.05)
    second = await asyncpg.connect(url)
    assert second.get_server_pid() == session
    await second.execute("notify news")
    assert await second.fetchval("select count(*) from pg_listening_channels()") == 0
    assert heard == []
    await second.close()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_connection_given_up_in_a_statement_takes_its_session_with_it(
    url: str, is_cancelled: bool
) -> None:
    first = await asyncpg.connect(url)
    session = first.get_server_pid()
    asking = asyncio.create_task(first.fetchval("select pg_sleep(60)"))
    await asyncio.sleep(0.05)
    if is_cancelled:
        asking.cancel()
        await asyncio.sleep(0.05)
    first.terminate()
    with pytest.raises((asyncio.CancelledError, asyncpg.PostgresError, asyncpg.InterfaceError)):
        await asking
    second = await asyncpg.connect(url)
    assert second.get_server_pid() != session
    await second.close()
