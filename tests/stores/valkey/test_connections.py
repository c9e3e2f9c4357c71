"""Connections of the Valkey store: lost, refused, and without an answer."""

from __future__ import annotations

import asyncio

import pytest
from redis import exceptions

from holdfast.errors import (
    StoreError,
    StoreUnavailable,
)
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.wakeups import Topic
from holdfast.store.open import open_store
from holdfast.store.valkey.store import ValkeyStore
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import (
    Scene,
    new_job,
)
from tests.support.backends import opened
from tests.support.listening import listening


async def test_connections_killed_between_calls_are_made_again(
    place: str, server: ThrowawayValkey
) -> None:
    """Those killed in the middle of the work are the business of the tests of outages."""
    async with opened(place) as store:
        for _ in range(20):
            killed = await asyncio.to_thread(server.say, "CLIENT", "KILL", "TYPE", "normal")
            assert int(str(killed)) >= 1
            await store.jobs.insert([new_job() for _ in range(10)])
        assert await store.jobs.count(JobFilter()) == {JobState.READY: 200}


async def test_a_listener_comes_back_and_looks_at_everything(
    scene: Scene, server: ThrowawayValkey
) -> None:
    async with listening(scene.store) as ear:
        await asyncio.to_thread(server.say, "CLIENT", "KILL", "TYPE", "pubsub")
        assert await ear.hears(Topic.READY, "")
        assert await ear.hears(Topic.DUE, "")
        assert await ear.hears(Topic.SCHEDULES, "")
        ear.heard.clear()
        await scene.enqueue(queue="mail")
        assert await ear.hears(Topic.READY, "mail")


async def test_an_unreachable_server_is_said_to_be_so_without_the_password() -> None:
    store = open_store("valkey://me:sesame@127.0.0.1:1/0")
    with pytest.raises(StoreUnavailable, match="out of reach") as raised:
        await store.open()
    assert "sesame" not in str(raised.value)
    assert "127.0.0.1:1" in str(raised.value)


async def test_a_wrong_password_is_not_worth_another_try(server: ThrowawayValkey) -> None:
    server.say("CONFIG", "SET", "requirepass", "sesame")
    try:
        store = open_store(server.url.replace("//", "//:wrong@"))
        with pytest.raises(StoreError, match="refuses this program") as raised:
            await store.open()
        assert not isinstance(raised.value, StoreUnavailable)
        async with opened(server.url.replace("//", "//:sesame@")) as welcome:
            await welcome.now()
    finally:
        _say_with_password(server, "CONFIG", "SET", "requirepass", "")
        server.clear("?namespace=holdfast")


def _say_with_password(server: ThrowawayValkey, *words: str) -> None:
    from holdfast.testing.servers.resp import say

    say(server.addresses[0], *words, password="sesame")


async def test_a_claim_whose_reply_is_lost_is_not_repeated_and_can_be_found(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.enqueue_many(9)
    await scene.claim(1)  # so that the server knows the script, and the store its server
    store = scene.store
    assert isinstance(store, ValkeyStore)
    client = store._connections._client
    assert client is not None
    real, sent = client.execute_command, 0

    async def lose_the_reply(*words: object, **options: object) -> object:
        nonlocal sent
        sent += 1
        await real(*words, **options)
        raise exceptions.ConnectionError("the line was cut after the server had answered")

    with monkeypatch.context() as cut:
        cut.setattr(client, "execute_command", lose_the_reply)
        with pytest.raises(StoreUnavailable):
            await scene.claim(5)
    assert sent == 1
    which = JobFilter(states=frozenset({JobState.RUNNING}))
    assert len((await store.jobs.page(which, 20)).jobs) == 1 + 5
