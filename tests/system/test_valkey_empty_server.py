"""For a while the address of the store leads to a server that has no job: a replica that has not
synced, or a new master. A worker takes what such a server says for an outage, and forgets nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.store.contract.store import Store
from holdfast.store.valkey.finishing import ValkeyFinishing
from holdfast.store.valkey.workers import ValkeyWorkers
from holdfast.testing.servers import ThrowawayValkey, find_valkey
from holdfast.testing.servers.ports import free_port
from tests.conformance.builders import new_job
from tests.support.backends import opened
from tests.support.proxy import proxy_to
from tests.support.waiting import wait_until
from tests.support.working import ONCE, Shop

JOBS = 40
SHORT = 1.5


@pytest.fixture(scope="module")
def home() -> Iterator[ThrowawayValkey]:
    with ThrowawayValkey(find_valkey()) as server:
        yield server


@pytest.fixture(scope="module", params=["replica", "master"])
def empty(request: pytest.FixtureRequest) -> Iterator[ThrowawayValkey]:
    """The replica follows a master that does not answer, so it never has anything."""
    follows = f"replicaof 127.0.0.1 {free_port('Valkey')}"
    settings = (follows,) if request.param == "replica" else ()
    with ThrowawayValkey(find_valkey(), settings=settings) as server:
        yield server


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many calls of a verb have come back, with an answer or an error."""
    tried: Counter[str] = Counter()

    def count(nouns: type[Any], verb: str) -> None:
        call = getattr(nouns, verb)

        async def counted(*args: Any) -> Any:
            try:
                return await call(*args)
            finally:
                tried[verb] += 1

        monkeypatch.setattr(nouns, verb, counted)

    count(ValkeyFinishing, "finish")
    count(ValkeyWorkers, "heartbeat")
    return tried


class Handlers:
    """Handlers that wait until the test lets them go on, and count how often each job ran."""

    def __init__(self) -> None:
        self.ran: Counter[int] = Counter()
        self.go_on = asyncio.Event()

    async def work(self, n: int) -> int:
        self.ran[n] += 1
        await self.go_on.wait()
        return n

    @property
    def all_run(self) -> bool:
        return len(self.ran) == JOBS

    @property
    def ran_once(self) -> bool:
        return self.ran == dict.fromkeys(range(JOBS), 1)


async def filled(store: Store, handlers: Handlers) -> tuple[Shop, list[JobId]]:
    async def work(n: int) -> int:
        return await handlers.work(n)

    shop = Shop(store, work)
    return shop, [await shop.enqueue(work, n, policy=ONCE) for n in range(JOBS)]


async def all_ended(store: Store, ids: Sequence[JobId]) -> list[Job]:
    jobs: list[Job] = []

    async def look() -> bool:
        nonlocal jobs
        jobs = await store.jobs.get(ids)
        return all(job.ended for job in jobs)

    await wait_until(look, 20, "all jobs have ended")
    return jobs


def succeeded_at_once(jobs: Sequence[Job]) -> bool:
    return {(job.state, job.attempts) for job in jobs} == {(JobState.SUCCEEDED, 1)}


async def until_asked(tried: Counter[str], verb: str, shop: Shop, believed: str) -> None:
    """The first call meets the connection that is cut, and the next one the other server. A worker
    that believes that server reports it, and does not call again."""
    enough = tried[verb] + 3

    def is_asked() -> bool:
        return tried[verb] >= enough or bool(shop.reported(believed))

    await wait_until(is_asked, 20, f"the other server is asked to {verb}")


async def test_ends_are_kept_until_the_store_is_there_again(
    home: ThrowawayValkey, empty: ThrowawayValkey, tried: Counter[str]
) -> None:
    url, handlers = home.new_namespace(), Handlers()
    async with proxy_to(url) as proxy, opened(proxy.url) as store, opened(url) as seen:
        shop, ids = await filled(store, handlers)
        async with shop.worker({"default": JOBS}) as worker:
            await wait_until(lambda: handlers.all_run, 10, "all handlers run")
            proxy.lead_to(empty.url)
            handlers.go_on.set()
            await until_asked(tried, "finish", shop, "job.end_refused")
            proxy.lead_to(home.url)
            jobs = await all_ended(seen, ids)
            assert worker.health()["refused"] == 0
    assert handlers.ran_once
    assert succeeded_at_once(jobs)
    assert empty.say("DBSIZE") in (0, "0")


async def test_handlers_go_on_while_heartbeats_meet_an_empty_server(
    home: ThrowawayValkey, empty: ThrowawayValkey, tried: Counter[str]
) -> None:
    url, handlers = home.new_namespace(), Handlers()
    async with proxy_to(url) as proxy, opened(proxy.url) as store, opened(url) as seen:
        shop, ids = await filled(store, handlers)
        async with shop.worker({"default": JOBS}, lease=SHORT):
            await wait_until(lambda: handlers.all_run and tried["heartbeat"] > 0, 10, "all run")
            proxy.lead_to(empty.url)
            await until_asked(tried, "heartbeat", shop, "worker.lease_lost")
            proxy.lead_to(home.url)
            await wait_until(
                lambda: bool(shop.reported("heartbeat.recovered")), 20, "a heartbeat is answered"
            )
            handlers.go_on.set()
            jobs = await all_ended(seen, ids)
    assert handlers.ran_once
    assert succeeded_at_once(jobs)
    assert not shop.reported("worker.lease_lost")
    assert empty.say("DBSIZE") in (0, "0")


async def test_an_empty_server_takes_no_job(home: ThrowawayValkey, empty: ThrowawayValkey) -> None:
    url = home.new_namespace()
    async with proxy_to(url) as proxy, opened(proxy.url) as store:
        proxy.lead_to(empty.url)
        with pytest.raises(StoreUnavailable, match="no store in this namespace"):
            await store.jobs.insert([new_job()])
        proxy.lead_to(home.url)
        await store.jobs.insert([new_job()])
    assert empty.say("DBSIZE") in (0, "0")


async def test_an_end_that_the_server_forgot_is_written_again(home: ThrowawayValkey) -> None:
    """It acknowledged the ends, and came back from a snapshot that it had made before."""
    handlers = Handlers()
    url = home.new_namespace()
    async with opened(url) as store:
        shop, ids = await filled(store, handlers)
        async with shop.worker({"default": JOBS}, lease=30):
            await wait_until(lambda: handlers.all_run, 10, "all handlers run")
            home.say("SAVE")
            handlers.go_on.set()
            await all_ended(store, ids)
            await asyncio.to_thread(home.restart)
            jobs = await all_ended(store, ids)
    assert handlers.ran_once
    assert succeeded_at_once(jobs)
    assert len(shop.reported("job.end_repeated")) == JOBS
