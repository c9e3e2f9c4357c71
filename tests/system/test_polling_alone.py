"""Where wakeups cannot be heard (behind a pooler, `listen=false`), a poll finds everything:
delayed jobs, retries, cancels and new schedules are no later than `poll` and half a second of an
idle machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from holdfast import Context, Retry
from holdfast.app import App
from holdfast.job.state import JobState
from holdfast.store.open import open_store
from tests.support.backends import BACKENDS, Backend
from tests.support.waiting import slowness, wait_until

POLL = 0.3


def late() -> float:
    return POLL + 0.5 * slowness()


@pytest.fixture(scope="module", params=["postgres", "valkey"])
def deaf_backend(request: pytest.FixtureRequest) -> Backend:
    """The stores whose wakeups come over a connection that may not be there."""
    return BACKENDS[request.param](request)


@pytest.fixture
async def url(deaf_backend: Backend) -> str:
    url = await deaf_backend.empty()
    await open_store(url).migrate()
    return f"{url}{'&' if '?' in url else '?'}listen=false"


@pytest.fixture
def app(url: str) -> App:
    return App(url, poll=POLL, lease=30)


@asynccontextmanager
async def idle_worker(app: App) -> AsyncIterator[None]:
    """One whose first looks at everything are over."""
    async with app, app.worker({"default": 4}):
        await asyncio.sleep(0.2)
        yield


async def test_a_delayed_job_starts_on_time(app: App) -> None:
    began: list[float] = []

    @app.task()
    async def note() -> None:
        began.append(time.monotonic())

    async with idle_worker(app):
        enqueued = time.monotonic()
        await note.using(delay=0.5).enqueue()
        await wait_until(lambda: bool(began), 10, "the job to start")
    assert 0.45 <= began[0] - enqueued <= 0.5 + late()


async def test_a_retry_comes_on_time(app: App) -> None:
    began: list[float] = []

    @app.task(retry=Retry(max_attempts=2, base=0.5, jitter=0))
    async def stumble() -> None:
        began.append(time.monotonic())
        if len(began) == 1:
            raise ValueError("once")

    async with idle_worker(app):
        await stumble.enqueue()
        await wait_until(lambda: len(began) == 2, 10, "the retry to start")
    assert began[1] - began[0] <= 0.5 + late()


async def test_a_cancel_reaches_the_handler_on_time(app: App) -> None:
    begun, cancelled = asyncio.Event(), list[float]()

    @app.task()
    async def wait_for_ever(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(time.monotonic())
            raise

    async with idle_worker(app):
        job = await wait_for_ever.enqueue()
        await begun.wait()
        asked = time.monotonic()
        await app.client.cancel(job.id)
        await wait_until(lambda: bool(cancelled), 12, "the handler to be told")
    assert cancelled[0] - asked <= late()


async def test_a_new_schedule_fires_on_time(app: App) -> None:
    began: list[float] = []

    @app.task()
    async def tick() -> None:
        began.append(time.monotonic())

    async with idle_worker(app):
        created = time.monotonic()
        await app.client.schedules.create("ticks", tick.scheduled(every=timedelta(seconds=1)))
        await wait_until(lambda: bool(began), 10, "the first plan to run")
    assert began[0] - created <= 1.0 + late()


async def test_a_deadline_ends_a_waiting_job_on_time(app: App) -> None:
    @app.task(queue="nobody-serves-it")
    async def never() -> None: ...

    async with idle_worker(app):
        asked = time.monotonic()
        job = await never.using(deadline=0.3).enqueue()
        await wait_until(lambda: has_expired(app, job.id), 10, "the job to expire")
        assert time.monotonic() - asked <= 0.3 + late()


async def has_expired(app: App, job_id: str) -> bool:
    return (await app.client.get(job_id)).state is JobState.EXPIRED
