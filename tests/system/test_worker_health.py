"""What `Worker.health()` says to a probe, asked from another thread."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast.store.contract.store import Store
from holdfast.worker import health
from tests.support.waiting import wait_until
from tests.support.working import Shop


async def test_a_worker_that_is_not_started_is_live_but_not_ready(store: Store) -> None:
    worker = Shop(store).new_worker()
    assert worker.health() == {"live": True, "ready": False, "started": False}


async def test_a_loop_that_does_not_turn_is_not_live(
    sealed_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LONGEST_LAG_SECONDS", 0.5)
    async with Shop(sealed_store).worker(lease=30, max_block=600) as worker:
        await wait_until(lambda: worker.health()["live"] is True, 10, "the loop is watched")
        said: list[object] = []

        def ask() -> None:
            until = time.monotonic() + 10
            while time.monotonic() < until and False not in said:
                said.append(worker.health()["live"])
                time.sleep(0.02)

        asking = asyncio.create_task(asyncio.to_thread(ask))
        await asyncio.sleep(0.05)
        until = time.monotonic() + 10
        while time.monotonic() < until and False not in said:  # the loop is blocked all this time
            time.sleep(0.02)  # noqa: ASYNC251
        await asking
        assert False in said
        await wait_until(lambda: worker.health()["live"] is True, 10, "the loop turns again")


async def test_a_heartbeat_thread_that_has_ended_is_not_live(
    sealed_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LONGEST_LAG_SECONDS", 3.0)
    async with Shop(sealed_store).worker(lease=30) as worker:
        assert worker.health()["live"] is True
        pipeline = worker._pipeline
        assert pipeline is not None
        await pipeline.identity.heartbeat.stop()
        await wait_until(lambda: worker.health()["live"] is False, 10, "nobody keeps the lease")


async def test_a_worker_that_is_asked_to_leave_is_not_ready_at_once(sealed_store: Store) -> None:
    async with Shop(sealed_store).worker(lease=30) as worker:
        assert worker.health()["ready"] is True
        worker.request_stop()
        said = worker.health()
        assert (said["ready"], said["leaving"], said["started"]) == (False, "stop", True)
