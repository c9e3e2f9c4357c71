"""The pool: connections are kept between verbs, shared fairly, and closed when in doubt."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.store.postgres import pool as pools
from holdfast.store.postgres.connection import Session
from holdfast.store.postgres.store import PostgresStore
from tests.stores.postgres.shared import connected, opened, terminate
from tests.support.waiting import wait_until


async def backend(store: PostgresStore, seconds: float = 0.0) -> int:
    """Which server process answers, after so long."""

    async def ask(session: Session) -> int:
        return int(
            await session.connection.fetchval("select pg_backend_pid() from pg_sleep($1)", seconds)
        )

    return await store._connections.run(ask)


async def backends(store: PostgresStore, url: str, verbs: int) -> set[int]:
    """Which server processes answer so many verbs that are all under way at once, however long it
    takes to connect."""

    async def ask(session: Session) -> int:
        pid = "select pg_backend_pid() from pg_advisory_xact_lock_shared(1)"
        return int(await session.connection.fetchval(pid))

    async with connected(url) as gate:
        await gate.execute("select pg_advisory_lock(1)")
        asking = [asyncio.create_task(store._connections.run(ask)) for _ in range(verbs)]

        async def all_wait() -> bool:
            waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            return bool(await gate.fetchval(waiting) == verbs)

        await wait_until(all_wait, 20, "all of them are under way")
        await gate.execute("select pg_advisory_unlock(1)")
        return set(await asyncio.gather(*asking))


async def count(url: str) -> int:
    async with connected(url) as watch:
        return int(
            await watch.fetchval(
                "select count(*) from pg_stat_activity"
                " where application_name like 'holdfast-%' and datname = current_database()"
            )
        )


async def test_one_verb_after_another_uses_one_connection(url: str) -> None:
    async with opened(url) as store:
        assert len({await backend(store) for _ in range(5)}) == 1
        assert await count(url) == 1


async def test_verbs_beyond_the_connections_there_may_be_wait_for_one(url: str) -> None:
    async with opened(f"{url}?pool_size=2") as store:
        answers = await asyncio.gather(*(backend(store, 0.01) for _ in range(9)))
        assert len(answers) == 9
        assert len(set(answers)) == 2


async def test_a_connection_that_is_given_back_first_is_not_waited_past(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a connection takes longer than most verbs."""
    async with opened(f"{url}?pool_size=2") as store:
        pool = store._connections._pool
        assert pool is not None
        opening, connect = asyncio.Event(), pool._connect

        async def slowly() -> pools.Connection:
            await opening.wait()
            return await connect()

        monkeypatch.setattr(pool, "_connect", slowly)
        first, second = await asyncio.gather(backend(store, 0.05), backend(store))
        assert first == second
        opening.set()


async def test_a_verb_that_waits_too_long_for_a_connection_says_so(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(f"{url}?pool_size=1") as store:
        monkeypatch.setattr(pools, "ACQUIRE_TIMEOUT", 0.05)
        long = asyncio.create_task(backend(store, 0.5))
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            await backend(store)
        assert await long == await backend(store)


async def test_an_error_of_the_servers_costs_no_connection(url: str) -> None:
    async with opened(url) as store:
        before = await backend(store)
        with pytest.raises(Exception, match="division by zero"):
            await store._connections.run(
                lambda session: session.connection.fetchval("select 1 / 0")
            )
        assert await backend(store) == before


async def test_a_connection_whose_verb_was_cancelled_is_not_used_again(url: str) -> None:
    async with opened(f"{url}?pool_size=1") as store:
        before = await backend(store)
        asking = asyncio.create_task(backend(store, 30))

        async def asked() -> bool:
            async with connected(url) as watch:
                state = "select state from pg_stat_activity where pid = $1"
                return bool(await watch.fetchval(state, before) == "active")

        await wait_until(asked, 5, "the server sleeps")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await backend(store) != before
        assert await count(url) == 1


async def test_one_lost_connection_speaks_for_the_idle_ones(url: str) -> None:
    """All are cut while they are idle: the verb that notices opens one new connection, not four."""
    async with opened(f"{url}?pool_size=4") as store:
        old = await backends(store, url, 4)
        assert len(old) == 4
        await terminate(url)
        assert await backend(store) not in old
        assert await count(url) == 1


async def test_connections_that_idled_for_some_seconds_are_closed_but_for_the_last(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.1)
    async with opened(f"{url}?pool_size=2") as store:
        pids = await backends(store, url, 2)
        assert len(pids) == 2

        async def left() -> bool:
            return await count(url) == 1

        await wait_until(left, 5, "the connection that nobody needs is gone")
        assert await backend(store) in pids


async def test_closing_cuts_the_connection_of_a_verb_that_does_not_end(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for long: a server that sleeps on keeps every index from using its pages again."""
    monkeypatch.setattr(pools, "CLOSE_TIMEOUT", 0.1)
    store = PostgresStore(url)
    await store.open()
    asking = asyncio.create_task(backend(store, 1))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await asking
