"""Settings of the server: what it must not do, and what it promises to keep."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.errors import (
    StoreError,
    StoreUnavailable,
)
from holdfast.job.ends import HandedBack
from holdfast.job.unique import Unique
from holdfast.store.contract.health import Severity
from holdfast.store.contract.workers import Held
from holdfast.store.open import open_store
from holdfast.store.valkey.clients import Direct
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import (
    RETURNED,
    Scene,
    new_job,
)
from tests.support.backends import opened


async def test_all_settings_of_a_server_are_asked_for_at_once(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each further round would let a program wait for a server that is far away."""
    said: list[str] = []
    execute = Direct.execute_command

    async def noting(client: Direct, *words: Any) -> Any:
        said.append(words[0])
        answer = await execute(client, *words)
        said.append("answer")
        return answer

    monkeypatch.setattr(Direct, "execute_command", noting)
    async with opened(place):
        assert said[:8] == ["INFO", "CONFIG", "CONFIG", "CONFIG", *["answer"] * 4]


async def test_a_server_that_evicts_keys_is_refused(server: ThrowawayValkey, place: str) -> None:
    server.say("CONFIG", "SET", "maxmemory", 100_000_000)
    server.say("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        store = open_store(place)
        with pytest.raises(StoreError, match=r"allkeys-lru.*noeviction"):
            await store.open()
        server.say("CONFIG", "SET", "maxmemory", 0)
        await store.open()
        await store.close()
    finally:
        server.say("CONFIG", "SET", "maxmemory", 0)
        server.say("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_without_memory_an_enqueue_is_refused_whole_and_running_jobs_still_end(
    server: ThrowawayValkey, place: str
) -> None:
    async with opened(place) as store:
        scene = await Scene.on(store, ManualClock())
        await scene.enqueue_many(3)
        finishing, returning, held = await scene.claim(3)
        before = server.keys(place)
        server.say("CONFIG", "SET", "maxmemory", 1_000)
        try:
            for jobs in ([new_job()], [new_job(delay=60.0)], [new_job(unique=Unique("k"))]):
                with pytest.raises(StoreError, match="out of memory") as raised:
                    await store.jobs.insert(jobs)
                assert not isinstance(raised.value, StoreUnavailable)
            assert server.keys(place) == before
            assert (await scene.finish(finishing, RETURNED)).accepted
            assert (await scene.finish(returning, HandedBack())).accepted
            beat = await store.workers.heartbeat(scene.worker, 30, [Held(held.id, held.fence)])
            assert (beat.known, beat.lost) == (True, ())
        finally:
            server.say("CONFIG", "SET", "maxmemory", 0)
        assert (await scene.insert()).how == "created"


async def test_a_server_that_keeps_nothing_is_warned_about(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "holdfast.store.valkey"):
        async with opened(place) as store:
            assert store.durability.startswith("none")
            [told] = [f for f in await store.health.check() if f.check == "durability"]
    assert told.severity is Severity.WARNING
    assert any(line.startswith("the server may lose jobs") for line in caplog.messages)


@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_the_promise_is_that_of_the_append_only_file(
    server: ThrowawayValkey, place: str, fsync: str
) -> None:
    server.say("CONFIG", "SET", "appendonly", "yes")
    server.say("CONFIG", "SET", "appendfsync", fsync)
    try:
        async with opened(place) as store:
            assert store.durability.startswith(fsync)
    finally:
        server.say("CONFIG", "SET", "appendonly", "no")
