"""Wakeups by NOTIFY, and what the server reports of its health."""

from __future__ import annotations

import asyncpg
import pytest

from holdfast.clock import ManualClock
from holdfast.store.contract.wakeups import Topic, Wakeup
from holdfast.store.listening import parse
from tests.conformance.builders import (
    Scene,
    new_job,
)
from tests.stores.postgres.shared import connected, opened, terminate
from tests.support.waiting import wait_until


async def test_a_listener_that_lost_its_connection_comes_back_and_says_look_at_everything(
    url: str,
) -> None:
    async with opened(url) as store:
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(heard.append)
        assert await terminate(url, "holdfast-store-listen-%") == 1
        await wait_until(lambda: Wakeup(Topic.READY) in heard, 10, "the listener is back")
        assert heard == [Wakeup(Topic.READY), Wakeup(Topic.DUE), Wakeup(Topic.SCHEDULES)]
        await store.jobs.insert([new_job(queue="mail")])
        await wait_until(lambda: Wakeup(Topic.READY, "mail", 1) in heard, 5, "it hears again")


async def test_a_listener_comes_back_after_an_error_that_nobody_foresaw(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = asyncpg.connect

    async def odd(**_: object) -> None:
        monkeypatch.setattr(asyncpg, "connect", connect)
        raise EOFError("the server hung up in the middle of a word")

    async with opened(url) as store:
        heard: list[Wakeup] = []
        monkeypatch.setattr(asyncpg, "connect", odd)
        await store.wakeups.subscribe(heard.append)
        await store.jobs.insert([new_job(queue="mail")])
        await wait_until(lambda: Wakeup(Topic.READY, "mail", 1) in heard, 5, "it hears again")


async def test_one_statement_wakes_each_queue_once(url: str) -> None:
    async with opened(url) as store:
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(heard.append)
        await store.jobs.insert([new_job(queue=name) for name in ("a", "b", "a", "b", "a")])
        await store.jobs.insert([new_job(queue="last")])
        await wait_until(lambda: Wakeup(Topic.READY, "last", 1) in heard, 5, "all was heard")
        assert [wakeup.name for wakeup in heard] == ["a", "b", "last"]


async def test_so_many_queues_that_no_payload_holds_them_wake_everybody(url: str) -> None:
    async with opened(url) as store:
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(heard.append)
        await store.jobs.insert([new_job(queue=f"queue-with-a-long-name-{n}") for n in range(300)])
        await wait_until(lambda: bool(heard), 5, "a wakeup came")
        assert heard == [Wakeup(Topic.READY, "")]


@pytest.mark.parametrize("option", ["listen=false", "pooler=true"])
async def test_a_store_that_may_not_listen_opens_no_connection_for_it(
    url: str, option: str
) -> None:
    async with opened(f"{url}?{option}") as store, connected(url) as watch:
        await store.wakeups.subscribe(lambda _: None)
        listening = "select count(*) from pg_stat_activity where application_name like '%listen%'"
        assert await watch.fetchval(f"{listening} and datname = current_database()") == 0


async def test_a_listener_that_fails_does_not_silence_the_others(url: str) -> None:
    def broken(_: Wakeup) -> None:
        raise ValueError("not my day")

    async with opened(url) as store:
        heard: list[Wakeup] = []
        await store.wakeups.subscribe(broken)
        await store.wakeups.subscribe(heard.append)
        await store.jobs.insert([new_job()])
        await wait_until(lambda: bool(heard), 5, "the second listener heard")


def test_a_payload_of_another_version_is_ignored() -> None:
    assert parse("weather:sunny") == []
    assert parse("ready:a,b") == [Wakeup(Topic.READY, "a"), Wakeup(Topic.READY, "b")]
    assert parse("ready:a=1,b=20") == [Wakeup(Topic.READY, "a", 1), Wakeup(Topic.READY, "b", 20)]
    assert parse("due") == [Wakeup(Topic.DUE)]


async def test_an_old_transaction_is_pointed_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.postgres.health.OLD_SNAPSHOT_SECONDS", 0.0)
    async with opened(url) as store, connected(url) as forgotten:
        async with forgotten.transaction():
            await forgotten.fetch("select 1")
            findings = {one.check: one for one in await store.health.check()}
        pid = forgotten.get_server_pid()
        assert f"pid {pid}" in findings["oldest transaction"].saw


async def test_scene_times_come_from_the_servers_clock(url: str) -> None:
    async with opened(url) as store, connected(url) as connection:
        await connection.execute("set time zone 'Pacific/Chatham'")
        scene = await Scene.on(store, ManualClock())
        claimed = await scene.running()
        there = await connection.fetchval("select now()")
        assert abs((there - claimed.claimed_at).total_seconds()) < 60
        assert claimed.claimed_at.utcoffset() is not None
