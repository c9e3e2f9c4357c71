"""Rates and budgets in a fleet of real processes."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import quantiles

from holdfast.app import App
from holdfast.job.state import JobState
from holdfast.limits.model import BucketInfo, Budget, Rate
from holdfast.store.contract.store import Store
from tests.support import books, limited
from tests.support.limit_kills import LEASE
from tests.support.overlaps import Run, most_at_once, runs_of
from tests.support.processes import Fleet
from tests.support.waiting import wait_until
from tests.support.windows import claims_in, most_in_a_window, used_between

WORKERS, SLOTS = 4, 5
BULK = 20_000
PURSE = "purse:"


async def rate_is_kept(fleet: Fleet, app: App, most: int, seconds: float) -> float:
    """More jobs than may begin in so many seconds. No window of a second may let more begin than
    the rate says; answers the share of the rate that was used."""
    await app.store.limits.put("calls", Rate(most, per=1.0))
    await limited.call.enqueue_many(() for _ in range(round(most * (seconds + 5))))
    workers = await fleet.workers(WORKERS, slots=most // WORKERS + 1, lease=20.0)
    await wait_until(lambda: bool(fleet.diary.entries("claimed")), 10, "somebody begins")
    began = min(asked for asked, _ in claims_in(fleet.diary.entries()))
    await asyncio.sleep(began + seconds + 0.5 - time.monotonic())
    for worker in workers:
        worker.kill()
    claims = claims_in(fleet.diary.entries())
    worst = most_in_a_window(claims, 1.0)
    assert worst <= most, f"{worst} began in one second, of at most {most}"
    assert len({entry.pid for entry in fleet.diary.entries("claimed")}) > 1, "one did all of it"
    return used_between(claims, began, began + seconds) / (most * seconds)


async def budget_balances(fleet: Fleet, app: App, hard: int, kills: int) -> None:
    """Jobs that cost twice as much as there is, while workers are killed: nothing begins beyond the
    budget, and what is spent is what those cost that returned."""
    await app.store.limits.put("purse", Budget(hard))
    await limited.spend.enqueue_many(_costs(2 * hard))
    async with watching(app.store, hard) as looks:
        await fleet.workers(WORKERS, slots=SLOTS, lease=LEASE)
        await kill_some(fleet, kills)
        info = await _settled(app.store)
    assert max(looks) <= hard, "more was spent or reserved than there is"
    assert len(looks) > 10, "nobody looked"
    entries = fleet.diary.entries()
    began = {entry.job: int(entry.text) for entry in entries if entry.what == "started"}
    jobs = await books.all_of(app.store, began)
    returned = [job.id for job in jobs if job.state is JobState.SUCCEEDED]
    assert info.spent == sum(began[job] for job in returned), "the books do not balance"
    assert any(job.crashes for job in jobs), "nobody was killed at work"
    noted = {entry.job for entry in entries if entry.what == "returned"}
    assert noted >= set(returned), "the store has ends that no handler came to"


def _costs(total: int) -> list[tuple[int, float]]:
    chance, costs = random.Random(total), list[tuple[int, float]]()
    while total > 0:
        costs.append((chance.randint(1, 40), chance.uniform(200, 900)))
        total -= costs[-1][0]
    return costs


@asynccontextmanager
async def watching(store: Store, hard: int) -> AsyncIterator[list[int]]:
    """All that was spent or reserved at each look, in another session."""
    looks, own = list[int](), store.sibling()
    await own.open()

    async def look() -> None:
        while True:
            [info] = await own.limits.get([PURSE])
            looks.append(info.spent + info.in_use)
            assert (await own.limits.recount(100, mend=False)).wrong == ()
            await asyncio.sleep(0.03)

    looking = asyncio.create_task(look())
    try:
        yield looks
    finally:
        looking.cancel()
        await asyncio.wait([looking])
        await own.close()
    if not looking.cancelled() and (error := looking.exception()) is not None:
        raise error


async def kill_some(fleet: Fleet, kills: int) -> None:
    """One after the other, but for the first; another comes in its place."""
    chance = random.Random(kills)
    for _ in range(kills):
        await asyncio.sleep(0.7)
        chance.choice(fleet.alive()[1:]).kill()
        await fleet.ready(fleet.worker(SLOTS, lease=LEASE))


async def _settled(store: Store) -> BucketInfo:
    """When nobody runs, and the next in line costs more than is left."""
    found: list[BucketInfo] = []

    async def nothing_more_begins() -> bool:
        found[:] = await store.limits.get([PURSE])
        [info] = found
        return not info.in_use and info.needs is not None and info.needs > info.room

    await wait_until(nothing_more_begins, 60, "all that the budget lets begin has ended")
    return found[0]


async def deploy_over_a_total(fleet: Fleet, app: App, total: int, workers: int) -> float:
    """Every worker is told to leave and another one comes, one after the other, while a queue has a
    total. Never more run than that, and nobody pays an attempt for it; answers the share of the
    total that ran between the first deploy and the last."""
    await app.client.queues.tune("default", max_running=total)
    old = await fleet.workers(workers, slots=total // 2, lease=10.0)
    handles = await limited.plain.enqueue_many((200.0,) for _ in range(total * 60 * workers))
    await wait_until(lambda: len(_runs(fleet)) >= 2 * total, 20, "the queue is busy")
    began = time.monotonic()
    for worker in old:
        new = fleet.worker(total // 2, lease=10.0)
        await fleet.ready(new)
        worker.terminate()
        assert await worker.exit_code(within=15) == 0
    ended = time.monotonic()
    jobs = await books.all_of(app.store, [handle.id for handle in handles])
    waiting = sum(job.state is JobState.READY for job in jobs)
    assert waiting > total, "the queue was empty before the deploy was over"
    assert most_at_once(_runs(fleet))["total"] == total
    paid = [job for job in jobs if job.crashes or job.attempts > 1]
    assert not paid, f"{len(paid)} jobs paid for the deploy"
    ran = sum(max(0.0, min(run.ended, ended) - max(run.began, began)) for run in _runs(fleet))
    return ran / (total * (ended - began))


def _runs(fleet: Fleet) -> list[Run]:
    return runs_of(fleet.diary.entries(), fleet.processes)


@dataclass(frozen=True, slots=True)
class Flood:
    """Seconds that jobs of small tenants waited at the 99th percentile, alone and beside a tenant
    with far more jobs."""

    alone: float
    beside: float


async def flood(fleet: Fleet, app: App, heavy: int, tenants: int, each: int) -> Flood:
    """The heavy tenant's jobs are there first."""
    await fleet.workers(2, slots=20, lease=20.0)
    alone = await _waits_of_small_ones(fleet, tenants, each)
    for _ in range(0, heavy, BULK):
        await limited.share.enqueue_many(("heavy", 5.0) for _ in range(min(BULK, heavy)))
    beside = await _waits_of_small_ones(fleet, tenants, each)
    return Flood(alone, beside)


async def _waits_of_small_ones(fleet: Fleet, tenants: int, each: int) -> float:
    sent = time.monotonic()
    small = [(f"small-{n % tenants}", 5.0) for n in range(tenants * each)]
    mine = {handle.id for handle in await limited.share.enqueue_many(small)}

    def begun() -> list[float]:
        return [entry.at for entry in fleet.diary.entries("started") if entry.job in mine]

    await wait_until(lambda: len(begun()) == len(mine), 240, "all small ones begin", look_every=0.5)
    return quantiles([at - sent for at in begun()], n=100)[98]


async def served_by_weight(
    fleet: Fleet, app: App, weights: Sequence[int], jobs: int
) -> list[float]:
    """What each key was served while all of them had jobs, divided by its weight and the mean."""
    for weight in weights:
        task = limited.share.using(weight=weight)
        await task.enqueue_many((f"weight-{weight}", 5.0) for _ in range(jobs * weight))
    await fleet.workers(2, slots=20, lease=20.0)

    def served() -> Counter[str]:
        return Counter(entry.text for entry in fleet.diary.entries("started"))

    enough = 0.7 * jobs * sum(weights)
    await wait_until(lambda: served().total() >= enough, 120, "most are served", look_every=0.1)
    found = served()
    each = [found[f"weight-{weight}"] / weight for weight in weights]
    return [one / (sum(each) / len(each)) for one in each]
