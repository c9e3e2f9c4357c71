"""Turns, totals, labels and aging, in any order of events, on every store.

By the numbers of the chapter on limits: 2 no more jobs of a queue run than its total, at any
admission. 6 a claim with room, by a worker that is able, gives. 10 between two lines that always
have jobs, what they were served divided by their weights never differs by more than two turns and
one. 11 a queue with aging gives in the order of `ready_at + priority * aging`. 13 queues without
limits write no bucket, no line and no newcomer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.clock import ManualClock
from holdfast.job.ends import Cancelled, HandedBack, Reclaimed
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import decide
from holdfast.job.passing import total_name
from holdfast.job.record import Claimed
from holdfast.job.state import LIVE
from holdfast.limits.model import Concurrency
from holdfast.limits.turns import turn_size
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.queues import QueueSettings
from holdfast.store.contract.store import Store
from tests.conformance.builders import QUEUE, RETURNED, Scene
from tests.conformance.limiting import nothing_is_wrong, through
from tests.properties.test_flows import loop_store
from tests.support.backends import Inspectable, opened

__all__ = ["loop_store"]
LoopStore = tuple[asyncio.Runner, Store, ManualClock]
EXPLORING = settings(
    max_examples=15 if settings().max_examples <= 100 else 500,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


async def emptied(store: Store, clock: ManualClock) -> Scene:
    """A scene without the jobs, lines and settings of the walk before."""
    while page := (await store.jobs.page(JobFilter(states=LIVE), 500)).jobs:
        live = await store.jobs.live([job.id for job in page])
        await store.jobs.finish([decide(job, Cancelled()) for job in live])
    await store.queues.tune(QUEUE, QueueSettings())
    clock.advance(10_000)
    return await Scene.on(store, clock)


# 10: fairness


@EXPLORING
@given(
    weights=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    sizes=st.lists(st.integers(1, 25), min_size=1, max_size=12),
)
@example(weights=[1, 2, 4], sizes=[10] * 12)
@example(weights=[1, 1, 1, 1, 1], sizes=[1, 1, 1, 25])
def test_10_lines_that_always_have_jobs_are_served_by_their_weights(
    loop_store: LoopStore, weights: list[int], sizes: list[int]
) -> None:
    runner, store, clock = loop_store
    runner.run(served_fairly(store, clock, weights, sizes))


async def served_fairly(
    store: Store, clock: ManualClock, weights: list[int], sizes: list[int]
) -> None:
    scene = await emptied(store, clock)
    key: dict[JobId, int] = {}
    for n, weight in enumerate(weights):
        jobs = await scene.enqueue_many(
            sum(sizes), **through(fair=f"{scene.worker}-{n}", weight=weight)
        )
        key |= dict.fromkeys(jobs, n)
    served, share = Counter[int](), 0
    for size in sizes:
        given = await scene.claim(size)
        assert len(given) == size, "6: jobs wait and nobody holds them up"
        served.update(key[job.id] for job in given)
        share = max(share, turn_size(size, len(weights)))
        shares = [Fraction(served[n], weight) for n, weight in enumerate(weights)]
        assert max(shares) - min(shares) <= 2 * share + 1, f"10: {served} by {weights}"
        await store.jobs.finish([decide(job, RETURNED) for job in given])


async def test_10_a_key_has_one_share_however_many_lines_it_has(
    store: Store, clock: ManualClock
) -> None:
    """A tenant whose tasks pass different buckets does not get a share for each of them."""
    scene = await Scene.on(store, clock)
    await store.limits.declare({name: Concurrency(1_000) for name in ("a", "b", "c")})
    many: set[JobId] = set()
    for bucket in ("a:", "b:", "c:"):
        many |= set(await scene.enqueue_many(100, **through(bucket, fair="many")))
    await scene.enqueue_many(100, **through("a:", fair="one"))
    given = [job for _ in range(12) for job in await scene.claim(10)]
    of_many = sum(job.id in many for job in given)
    assert abs(of_many - len(given) / 2) <= 2 * 4 + 1, f"{of_many} of {len(given)}"
    await store.jobs.finish([decide(job, RETURNED) for job in given])


# 11: aging


@EXPLORING
@given(
    jobs=st.lists(
        st.tuples(st.sampled_from([0, 1, 20, 70]), st.integers(-2, 5)), min_size=1, max_size=12
    ),
    aging=st.sampled_from([None, 10.0, 60.0]),
)
@example(jobs=[(0, 5), (20, 0), (20, 0), (20, 0)], aging=10.0)
def test_11_a_queue_with_aging_gives_in_the_order_of_age_and_priority(
    loop_store: LoopStore, jobs: list[tuple[int, int]], aging: float | None
) -> None:
    runner, store, clock = loop_store
    runner.run(given_in_order(store, clock, jobs, aging))


async def given_in_order(
    store: Store, clock: ManualClock, jobs: list[tuple[int, int]], aging: float | None
) -> None:
    scene = await emptied(store, clock)
    await store.queues.tune(QUEUE, QueueSettings(aging=aging))
    now, waiting = 0.0, list[tuple[float, int, JobId]]()
    for seconds, priority in jobs:
        clock.advance(seconds)
        now += seconds
        job = await scene.enqueue(priority=priority)
        age = now + priority * aging if aging else 0.0
        waiting.append((age, priority, job))
    order: list[JobId] = []
    while given := await scene.claim(1):
        order += [job.id for job in given]
        await scene.finish(given[0])
    assert order == [job for *_, job in sorted(waiting)], "11"


# 2 and 6: totals and labels


LABELS = [(), ("gpu",), ("eu", "gpu")]
number = st.integers(0, 4)
STEPS = st.one_of(
    st.tuples(st.just("enqueue"), st.sampled_from(["plain", "limited", *LABELS]), number),
    st.tuples(st.just("claim"), st.sampled_from(LABELS), st.integers(1, 5)),
    st.tuples(st.just("end"), st.sampled_from(["return", "hand back"]), number),
    st.tuples(st.sampled_from(["tune", "lose", "limit"]), st.just(""), number),
)
Step = tuple[str, str | tuple[str, ...], int]


@dataclass
class Totals:
    scene: Scene
    worker: WorkerId
    total: int | None = None
    most: int = 2
    needs: dict[JobId, tuple[str, ...] | str] = field(default_factory=dict)
    waiting: list[JobId] = field(default_factory=list)
    running: dict[JobId, Claimed] = field(default_factory=dict)

    async def step(self, word: str, what: str | tuple[str, ...], n: int) -> None:
        match word, what:
            case "enqueue", kind:
                options = {} if kind == "plain" else through("slots:")
                if isinstance(kind, tuple):
                    options = through(fair="f", labels=kind)
                jobs = await self.scene.enqueue_many(n, **options)
                self.needs |= dict.fromkeys(jobs, kind)
                self.waiting += jobs
            case "claim", tuple(labels):
                await self.claim(labels, n)
            case "end", str(how) if self.running:
                job = list(self.running.values())[n % len(self.running)]
                del self.running[job.id]
                end = RETURNED if how == "return" else HandedBack()
                assert (await self.scene.finish(job, end)).accepted
                if how == "hand back":
                    self.waiting.append(job.id)
            case "tune", _:
                self.total = None if n == 4 else n
                settings = QueueSettings(max_running=self.total)
                await self.scene.store.queues.tune(QUEUE, settings)
            case "limit", _:
                self.most = n
                await self.scene.store.limits.put("slots", Concurrency(n))
            case "lose", _:
                await self.lose()
        await nothing_is_wrong(self.scene)
        [info] = await self.scene.store.limits.get([total_name(QUEUE)])
        if self.total is not None:
            assert info.in_use == len(self.running), "1: the total counts other than runs"

    async def claim(self, labels: tuple[str, ...], limit: int) -> None:
        given = await self.scene.claim(limit, worker=self.worker, labels=labels)
        for job in given:
            self.waiting.remove(job.id)
            self.running[job.id] = job
            assert self.able(job.id, labels), f"a job that needs {self.needs[job.id]} for {labels}"
        if given and self.total is not None:
            assert len(self.running) <= self.total, "2: more than the total"
        if any(self.needs[job.id] == "limited" for job in given):
            assert self.limited <= self.most, "2: more than the limit"
        if len(given) < limit and (self.total is None or len(self.running) < self.total):
            again = await self.scene.claim(limit, worker=self.worker, labels=labels)
            assert not again, "what a claim did not give, the next one gave"
            left = [job for job in self.waiting if self.able(job, labels) and self.may_begin(job)]
            assert not left, "6: who could begin was not given"

    @property
    def limited(self) -> int:
        return sum(self.needs[job] == "limited" for job in self.running)

    def able(self, job: JobId, labels: tuple[str, ...]) -> bool:
        needs = self.needs[job]
        return not isinstance(needs, tuple) or set(needs) <= set(labels)

    def may_begin(self, job: JobId) -> bool:
        return self.needs[job] != "limited" or self.limited < self.most

    async def lose(self) -> None:
        await self.scene.lose(self.worker)
        self.worker = await self.scene.hire(lease=10_000.0)
        for live in await self.scene.store.jobs.lapsed_leases(100):
            assert (await self.scene.reclaim(live, Reclaimed("lost", suspected=False))).accepted
            del self.running[live.id]
            self.waiting.append(live.id)


@EXPLORING
@given(steps=st.lists(STEPS, max_size=25))
@example(steps=[("enqueue", "plain", 4), ("claim", (), 3), ("tune", "", 2), ("claim", (), 3)])
@example(
    steps=[
        *(("tune", "", 1), ("enqueue", "plain", 2), ("enqueue", "limited", 2), ("claim", (), 5)),
        *(("end", "return", 0), ("claim", (), 5), ("tune", "", 3), ("claim", (), 5)),
    ]
)
@example(
    steps=[
        *(("enqueue", ("eu", "gpu"), 3), ("enqueue", ("gpu",), 1), ("claim", ("gpu",), 5)),
        *(("claim", (), 5), ("claim", ("eu", "gpu"), 5)),
    ]
)
def test_2_totals_and_labels_are_kept_and_hold_up_nobody_else(
    loop_store: LoopStore, steps: list[Step]
) -> None:
    runner, store, clock = loop_store
    runner.run(walk(store, clock, steps))


async def walk(store: Store, clock: ManualClock, steps: list[Step]) -> None:
    scene = await emptied(store, clock)
    await store.limits.put("slots", Concurrency(2))
    one = Totals(scene, await scene.hire(lease=10_000.0))
    for step in steps:
        await one.step(*step)
    await store.queues.tune(QUEUE, QueueSettings())
    await store.limits.put("slots", Concurrency(50))
    await store.jobs.finish([decide(job, RETURNED) for job in one.running.values()])
    while one.waiting:
        given = await scene.claim(5, worker=one.worker, labels=("eu", "gpu"))
        assert given, "a job was forgotten"
        for job in given:
            one.waiting.remove(job.id)
            await scene.finish(job)
    await nothing_is_wrong(scene)
    for worker in (scene.worker, one.worker):
        await store.workers.deregister(worker)


# 13: queues without limits


async def test_13_jobs_without_limits_write_no_bucket_and_no_line(
    inspectable: Inspectable, clock: ManualClock
) -> None:
    """Neither do those that are retried, handed back, moved or lost."""
    url = await inspectable.empty()
    async with opened(url, clock) as store:
        scene = await Scene.on(store, clock)
        await plain_lives(scene)
        assert await store.limits.buckets(None, 10) == []
    kinds = ("bucket", "line", "newcomer", "limited")
    tables = [name for name in await inspectable.tables(url) if any(k in name for k in kinds)]
    assert len(tables) >= 3, tables
    for table in tables:
        assert await inspectable.query(url, f"select * from {table}") == [], table


async def plain_lives(scene: Scene) -> None:
    worker = await scene.hire(lease=10.0)
    await scene.enqueue_many(10)
    jobs = await scene.claim(10, worker=worker)
    await scene.finish(jobs[0])
    await scene.finish(jobs[1], HandedBack())
    await scene.store.jobs.reprioritise([jobs[1].id], 3)
    await scene.store.jobs.move([jobs[1].id], "elsewhere")
    scene.clock.advance(20)
    for live in await scene.store.jobs.lapsed_leases(100):
        await scene.reclaim(live, Reclaimed("lost", suspected=False))
    await scene.store.jobs.promote_due(100)
    for job in await scene.claim(10):
        await scene.finish(job)
