"""Takes from rates let others pass before they are on disk, and answer only then.

These tests need a server of their own, which they tell to write late, to wait for a standby that
never comes, and to stop at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from holdfast.limits.model import Rate
from holdfast.store.contract.limits import Take
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.servers import ThrowawayPostgres, find_postgres
from tests.stores.postgres.shared import connected, opened
from tests.support.waiting import wait_until

RATE = {"api": Rate(1_000, per=3_600)}
COUNTED = "select units from holdfast.bucket where name = 'api:' for update skip locked"


@pytest.fixture(scope="module")
def server() -> Iterator[ThrowawayPostgres]:
    with ThrowawayPostgres(find_postgres()) as server:
        yield server


async def fresh(server: ThrowawayPostgres) -> str:
    url = server.new_database()
    await PostgresStore(url).migrate()
    return url


async def setting(server: ThrowawayPostgres, name: str, value: str) -> None:
    async with connected(server.url) as connection:
        await connection.execute(f"alter system set {name} = '{value}'")
        await connection.execute("select pg_reload_conf()")


async def test_a_take_that_was_granted_outlives_a_crash_of_the_server(
    server: ThrowawayPostgres,
) -> None:
    await setting(server, "wal_writer_delay", "10s")  # nobody else writes the log in time
    async with opened(await fresh(server)) as store:
        await store.limits.declare(RATE)
        for _ in range(5):
            [taken] = await store.limits.take([Take("api:")])
            assert taken.granted
        server.restart("immediate")
        assert (await store.limits.get(["api:"]))[0].spent == 5


async def test_a_take_unlocks_its_bucket_before_it_is_durable_and_answers_after(
    server: ThrowawayPostgres,
) -> None:
    url = await fresh(server)
    async with opened(url) as store:
        await store.limits.declare(RATE)
        await store.limits.take([Take("api:")])
    await setting(server, "synchronous_standby_names", "nobody")
    server.restart("fast")
    async with opened(url) as store, connected(url) as other:
        await other.execute("set synchronous_commit = local")
        call = asyncio.create_task(store.limits.take([Take("api:")]))

        async def is_counted() -> bool:
            # The two takes may stand in two slices of the window.
            return sum(await other.fetchval(COUNTED) or ()) == 2

        try:
            await wait_until(is_counted, 10, "the take is counted, and its bucket unlocked")
            assert not call.done()
        finally:
            await setting(server, "synchronous_standby_names", "")
        assert [taken.granted for taken in await call] == [True]
