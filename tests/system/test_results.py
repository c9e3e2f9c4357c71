"""Waiting for results when retention or an outage comes between, on every store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from holdfast.client import results
from holdfast.client.client import Client
from holdfast.clock import ManualClock
from holdfast.errors import BadOption, ResultTimeout, UnknownJob
from holdfast.job.ends import Returned
from holdfast.store.contract.store import Store
from tests.conformance.builders import Scene
from tests.support.flaky import FlakyStore, Line
from tests.support.waiting import wait_until


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> Scene:
    return await Scene.on(store, clock)


@pytest.fixture
async def client(store: Store, line: Line) -> AsyncIterator[Client]:
    client = Client(FlakyStore(store, line))
    yield client
    await client.aclose()


async def test_a_job_that_was_pruned_between_two_looks_ends_the_wait(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "TRUST_SECONDS", 0.05)
    monkeypatch.setattr(results, "LONGEST_TRUST_SECONDS", 0.05)  # also if a check takes long
    looking = asyncio.Lock()
    outcomes = scene.store.jobs.outcomes

    async def not_in_between(ids: Any) -> Any:
        async with looking:
            return await outcomes(ids)

    monkeypatch.setattr(scene.store.jobs, "outcomes", not_in_between)
    claimed = await scene.running()
    waiting = asyncio.create_task(client.result(claimed.id))
    await asyncio.wait([waiting], timeout=0.05)
    async with looking:
        await scene.finish(claimed, Returned("7"))
        await scene.store.jobs.delete([claimed.id])
    async with asyncio.timeout(5):
        with pytest.raises(UnknownJob, match="retention removed it"):
            await waiting


async def test_a_timeout_holds_while_the_store_is_away(
    client: Client, scene: Scene, line: Line
) -> None:
    job = await scene.enqueue()
    line.cut = True
    began = time.monotonic()
    with pytest.raises(ResultTimeout, match="the store has not answered"):
        await client.result(job, timeout=0.1)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("looks", [0, 1])
async def test_a_timeout_holds_while_the_store_does_not_answer(
    client: Client, scene: Scene, line: Line, looks: int
) -> None:
    """Whether it fell silent before the first look or after it."""
    job = await scene.enqueue()
    waiting = asyncio.create_task(client.result(job, timeout=1))
    if looks:
        await wait_until(lambda: line.calls.count("outcomes") > 1, 5, "a look was answered")
    line.hold |= {"outcomes", "live", "get"}
    async with asyncio.timeout(10):
        with pytest.raises(ResultTimeout, match="is still ready" if looks else "not answered"):
            await waiting
    line.release()


async def test_a_result_that_is_there_is_had_without_waiting(client: Client, scene: Scene) -> None:
    claimed = await scene.running()
    with pytest.raises(ResultTimeout, match="still running"):
        await client.result(claimed.id, timeout=0)
    await scene.finish(claimed, Returned("7"))
    assert await client.result(claimed.id, timeout=0) == 7
    assert await client.result(claimed.id, timeout=timedelta(seconds=5)) == 7
    with pytest.raises(BadOption, match="timeout"):
        await client.result(claimed.id, timeout="1")  # type: ignore[arg-type]
