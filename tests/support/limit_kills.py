"""Jobs through limits while workers are killed, one sleeps through its lease, and somebody recounts
all the time."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.app import App
from holdfast.store.contract.store import Store
from tests.support import books, limited
from tests.support.killing import kill_one_every, stop_between_heartbeats
from tests.support.limited import MOST
from tests.support.overlaps import most_at_once, runs_of
from tests.support.processes import Fleet, Process, fleet_on
from tests.support.waiting import comes_true, wait_until

PROGRAM = "tests.support.limited"
LEASE = 2.0


@dataclass(frozen=True, slots=True)
class Size:
    keys: int
    jobs: int
    milliseconds: tuple[float, float] = (5, 20)
    slots: int = 20
    every: float = 1.0
    most_kills: int = 1_000
    within: float = 100.0

    def arguments(self, seed: int = 7) -> Iterator[tuple[str, float]]:
        """A tenth of the keys has half of the jobs, so that limits hold up and not only count."""
        chance, busy = random.Random(seed), max(1, self.keys // 10)
        for _ in range(self.jobs):
            key = chance.randrange(busy if chance.random() < 0.5 else self.keys)
            yield f"k{key}", chance.uniform(*self.milliseconds)


@dataclass
class Looks:
    """What the one who recounts saw."""

    count: int = 0
    wrong: list[object] = field(default_factory=list)


@contextmanager
def limited_fleet(url: str, folder: Path) -> Iterator[Fleet]:
    with fleet_on(url, folder, PROGRAM) as fleet:
        yield fleet


@asynccontextmanager
async def seat_at(fleet: Fleet) -> AsyncIterator[App]:
    """The test's own seat at the store, with the tasks that the fleet runs."""
    with limited.app.using_store(fleet.url):
        async with limited.app:
            yield limited.app


async def survive_kills(fleet: Fleet, app: App, size: Size) -> list[Process]:
    """All jobs end, though a worker is killed time and again; answers who was killed. No look at
    the log, the buckets or the books may show anything wrong."""
    sleeper, asleep = await put_one_to_sleep(fleet, app)
    jobs = await limited.hold.enqueue_many(size.arguments())
    ids = [asleep, *(handle.id for handle in jobs)]
    survivor = fleet.start("worker", queues={"default": size.slots, "asleep": 1}, lease=LEASE)
    others = [fleet.worker(size.slots, lease=LEASE) for _ in range(3)]
    await fleet.ready(survivor, *others)
    async with recounting(app.store) as looks:
        killed = await kill_one_every(
            size.every,
            fleet,
            app,
            slots=size.slots,
            lease=LEASE,
            within=size.within,
            most=size.most_kills,
        )
        await the_sleeper_is_refused(fleet, sleeper)
    assert looks.wrong == [], "a bucket counted other than its leases"
    assert looks.count > 10, "nobody looked"
    judge_runs(fleet, size)
    await books.the_books_balance(app.store, ids, fleet.diary.entries())
    await nothing_is_held(app.store)
    assert fleet.diary.events("limit.miscounted") == []
    return killed


def judge_runs(fleet: Fleet, size: Size) -> None:
    """By what handlers wrote, and by nothing that the store said."""
    entries = fleet.diary.entries()
    runs = runs_of(entries, fleet.processes)
    most = most_at_once(runs)
    assert max(most.values()) == MOST, f"more at once than {MOST}: {most}"
    lapsed = sum(entry.what == "started" for entry in entries) - len(runs)
    assert lapsed <= size.jobs / 50, f"{lapsed} attempts outlived their lease: nothing is shown"


async def put_one_to_sleep(fleet: Fleet, app: App) -> tuple[Process, str]:
    """A worker that holds a permit of a key that others want, and is stopped for longer than its
    lease."""
    await app.store.limits.declare({limited.tenant.limit: limited.tenant.settings})
    sleeper = fleet.start("sleeper", queues={"asleep": 1}, lease=LEASE)
    await fleet.ready(sleeper)
    handle = await limited.outsleep.enqueue("k0", str(fleet.folder / "wake"))
    await wait_until(
        lambda: bool(fleet.diary.entries("started", pid=sleeper.pid)), 10, "it holds a permit"
    )
    await stop_between_heartbeats(sleeper, app)
    return sleeper, handle.id


async def the_sleeper_is_refused(fleet: Fleet, sleeper: Process) -> None:
    (fleet.folder / "wake").touch()
    sleeper.send(signal.SIGCONT)
    await wait_until(
        lambda: bool(fleet.diary.entries("finish", pid=sleeper.pid)), 10, "the sleeper tries to end"
    )
    tried = fleet.diary.entries("finish", pid=sleeper.pid)
    assert [entry.accepted for entry in tried] == [False]
    taken = [entry for entry in fleet.diary.entries("reclaim") if entry.accepted]
    assert taken, "nothing was taken from the dead"
    sleeper.terminate()
    await sleeper.exit_code(within=10)


@asynccontextmanager
async def recounting(store: Store) -> AsyncIterator[Looks]:
    """Compare all buckets with their leases again and again, in another session."""
    looks, own = Looks(), store.sibling()
    await own.open()

    async def look() -> None:
        while True:
            found = await own.limits.recount(1_000, mend=False)
            looks.count += 1
            looks.wrong += found.wrong
            await asyncio.sleep(0.1)

    looking = asyncio.create_task(look())
    try:
        yield looks
    finally:
        looking.cancel()
        await asyncio.wait([looking])
        await own.close()
    if not looking.cancelled() and (error := looking.exception()) is not None:
        raise error


async def nothing_is_held(store: Store) -> None:
    """No job runs: every bucket counts zero."""
    found = await store.limits.buckets(None, 1_000)
    assert {one.name: one.in_use for one in found if one.in_use} == {}
    assert (await store.limits.recount(1_000, mend=False)).wrong == ()


async def naive_workers_exceed(fleet: Fleet, app: App, size: Size) -> dict[str, int]:
    """The same jobs with workers that count before they claim; answers the most at once."""
    await limited.hold_naively.enqueue_many(size.arguments())
    workers = [fleet.start("naive", queues={"default": size.slots}, lease=LEASE) for _ in range(3)]
    await fleet.ready(*workers)

    def exceeded() -> bool:
        return max(_most(fleet).values(), default=0) > MOST

    await comes_true(exceeded, 20, look_every=0.2)
    return _most(fleet)


def _most(fleet: Fleet) -> dict[str, int]:
    return most_at_once(runs_of(fleet.diary.entries(), fleet.processes))


def at_least_so_many(killed: Sequence[Process], count: int) -> None:
    assert len(killed) >= count, "the run was over before it was rough"
