"""A running worker says its facts with every beat, and no trouble with them costs it its lease."""

from __future__ import annotations

import asyncio
import platform
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.app import App
from holdfast.background.counters import LoopCounters, Swept
from holdfast.job.ids import WorkerId
from holdfast.store.contract.facts import SlotFacts, WorkerFacts
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo
from holdfast.worker import facts as gathering
from holdfast.worker.worker import Worker
from tests.support.backends import opened
from tests.support.waiting import wait_until
from tests.support.working import Shop

SOON = 0.6
"""A lease after a third of which a worker beats."""


class Sweeper:
    """A service that only counts."""

    name = "sweeper"

    def __init__(self, counters: LoopCounters) -> None:
        self.counters = {"promotion": counters}

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def told(store: Store, worker: WorkerId | None = None) -> WorkerInfo:
    [found] = [one for one in await store.workers.find() if worker in (None, one.id)]
    return found


async def test_a_registration_says_who_the_worker_is(live_store: Store) -> None:
    async def work() -> None: ...

    async with Shop(live_store, work).worker({"mail": 3, "eu*": 2}, lease=30) as worker:
        found = await told(live_store)
        assert (found.version, found.id) == (holdfast.__version__, worker.id)
        facts = found.facts
        assert facts.python == platform.python_version()
        assert facts.slots == {"mail": SlotFacts(free=3), "eu*": SlotFacts(free=2)}
        assert facts.memory is not None
        assert facts.memory > 2**20
        assert facts.threads is not None
        assert facts.threads >= 1
        assert (facts.unwritten, facts.leaving, facts.store_out_of_reach_for) == (0, False, 0.0)
        assert facts.counts["claimed"] == 0


async def test_a_beat_says_what_the_worker_does(live_store: Store) -> None:
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    async def work() -> None: ...

    shop = Shop(live_store, hold, work)
    for queue in ("mail", "mail", "eu-1"):
        await shop.enqueue(hold, queue=queue)
    await shop.enqueue(work, queue="mail")
    async with shop.worker({"mail": 5, "eu*": 2}, lease=SOON, poll=0.05):

        async def says_so() -> bool:
            facts = (await told(live_store)).facts
            slots = {"mail": SlotFacts(used=2, free=3), "eu*": SlotFacts(used=1, free=1)}
            counts = (facts.counts.get("claimed"), facts.counts.get("ended"))
            return facts.slots == slots and counts == (4, 1) and facts.cpu is not None

        await wait_until(says_so, 10, "the facts say what runs")
        facts = (await told(live_store)).facts
        assert facts.cpu is not None
        assert 0 <= facts.cpu < 64
        assert facts.up_for is not None
        assert 0 < facts.up_for < 60
        assert facts.loop_lag is not None
        release.set()


async def test_facts_are_told_while_the_loop_is_blocked(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    entered, release = threading.Event(), threading.Event()

    async def block() -> None:
        entered.set()
        release.wait(20)

    async def work() -> None:
        async with (
            opened(url) as store,
            Shop(store, block).worker(lease=SOON, max_block=60) as worker,
        ):
            await worker.drain()

    async with opened(url) as store:
        await Shop(store, block).enqueue(block)
        thread = threading.Thread(target=lambda: asyncio.run(work()))
        thread.start()
        try:
            assert await asyncio.to_thread(entered.wait, 10)

            async def lags() -> bool:
                return ((await told(store)).facts.loop_lag or 0) > 0.3

            await wait_until(lags, 10, "the facts tell of the blocked loop")
            assert (await told(store)).facts.slots == {"default": SlotFacts(used=1, free=3)}
        finally:
            release.set()
            await asyncio.to_thread(thread.join, 20)


async def test_an_error_in_the_facts_costs_neither_the_beat_nor_the_lease(
    live_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> int:
        raise OSError("no such file")

    monkeypatch.setattr(gathering, "resident_memory", broken)

    async def work() -> None: ...

    shop = Shop(live_store, work)
    async with shop.worker(lease=SOON) as worker:
        first = (await told(live_store)).heartbeat_at

        async def beats() -> bool:
            return (await told(live_store)).heartbeat_at != first

        await wait_until(beats, 10, "a beat is written")
        assert (await told(live_store)).facts == WorkerFacts()
        await shop.enqueue(work)
        assert await worker.drain() == 1
    [event] = shop.reported("worker.facts_failed")
    assert "no such file" in str(event.fields["error"])


async def test_reconcilers_are_told_with_their_last_error_and_without_passwords(
    live_store: Store,
) -> None:
    counters = LoopCounters(errors=2, items=Swept(found=5, mended=3, refused=2))
    counters.last_error = "no: postgres://ann:secret@db/jobs \x00 \ud800 " + "x" * 1_000

    async def work() -> None: ...

    shop = Shop(live_store, work)
    worker = Worker(
        live_store,
        shop.registry,
        shop.new_worker().options,
        shop.events,
        services=[Sweeper(counters)],
    )
    async with worker:
        found = (await told(live_store)).facts.reconcilers["promotion"]
    numbers = (found.found, found.mended, found.refused, found.failed, found.errors)
    assert numbers == (5, 3, 2, 0, 2)
    assert found.last_error is not None
    assert "ann:***@db" in found.last_error
    assert len(found.last_error) <= gathering.LONGEST_ERROR
    assert await live_store.workers.counts() == {
        **dict.fromkeys(("claimed", "ended", "handed_back", "refused_writes"), 0),
        **dict.fromkeys(("discarded", "telemetry_dropped"), 0),
        "reconciler.promotion.found": 5,
        "reconciler.promotion.mended": 3,
        "reconciler.promotion.refused": 2,
        "reconciler.promotion.failed": 0,
        "reconciler.promotion.errors": 2,
    }


async def test_a_worker_that_left_has_told_its_last_counts(live_store: Store) -> None:
    """The lease is long: no beat came between the registration and the departure."""

    async def work() -> None: ...

    shop = Shop(live_store, work)
    for _ in range(3):
        await shop.enqueue(work)
        await shop.drain(lease=60)
    counts = await live_store.workers.counts()
    assert (counts["claimed"], counts["ended"]) == (3, 3)


async def test_a_worker_that_was_forgotten_counts_nothing_twice(live_store: Store) -> None:
    """It goes on under a new name. What it told under the old one was kept when that was swept."""

    async def work() -> None: ...

    shop = Shop(live_store, work)
    for _ in range(2):
        await shop.enqueue(work)
    async with shop.worker(lease=SOON) as worker:
        await worker.drain()
        former = worker.id

        async def has_told() -> bool:
            return (await told(live_store, former)).facts.counts["ended"] == 2

        await wait_until(has_told, 10, "a beat tells the counts")
        await live_store.workers.deregister(former)
        await wait_until(lambda: worker.id != former, 10, "the worker takes a new name")
        await shop.enqueue(work)
        await worker.drain()
    counts = await live_store.workers.counts()
    assert (counts["claimed"], counts["ended"]) == (3, 3)


async def test_every_reconciler_of_an_app_is_told_from_the_start() -> None:
    app = App("sqlite://")

    @app.task
    async def work() -> None: ...

    async with app, app.worker({"default": 1}):
        [found] = await app.client.workers.all()
    told = found.facts.reconcilers
    assert {"lapsed_leases", "promotion", "retention", "tally"} <= told.keys()
    assert not any(one.errors for one in told.values())
