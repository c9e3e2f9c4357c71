"""Jobs through limits, in any order of events, on every store, beside a small model.

By the numbers of the chapter on limits: 1 a bucket counts what its leases say, after every step.
2 no bucket exceeds its limit at an admission. 5 every accepted end gives back once, a refused one
nothing. 6 a job that all its buckets have room for is given by a claim, or by the next one. 7 and 8
follow: a line that waits where there is room would not be served. 9 a line is served in order of
arrival.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.clock import ManualClock
from holdfast.job.ends import Cancelled, End, HandedBack, Reclaimed, Snoozed, WasThrottled
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.record import Claimed
from holdfast.limits.model import Concurrency
from holdfast.store.contract.store import Store
from tests.conformance.builders import FAILED, QUEUE, RAISED, RETURNED, Scene
from tests.conformance.limiting import nothing_is_wrong, through
from tests.properties.test_flows import loop_store

__all__ = ["loop_store"]
LIMITS = ["tenant", "host"]
SHUT = 300.0
"""As long as repeated throttles shut a bucket at most: so each shuts it equally long."""
PASSING = [("tenant:a",), ("tenant:b",), ("host:",), ("host:", "tenant:a"), ("host:", "tenant:b")]
ENDS: dict[str, End] = {
    "return": RETURNED,
    "raise": RAISED,
    "fail": FAILED,
    "snooze": Snoozed(10.0),
    "hand back": HandedBack(),
    "throttle": WasThrottled(SHUT, "429", "host"),
}
number = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("enqueue"), st.sampled_from(PASSING), number),
    st.tuples(st.just("claim"), st.just(""), st.integers(1, 4)),
    st.tuples(st.sampled_from(["end", "end"]), st.sampled_from([*ENDS]), number),
    st.tuples(st.sampled_from(["zombie", "cancel", "lose", "pass time"]), st.just(""), number),
    st.tuples(st.sampled_from(["put", "override", "drain"]), st.sampled_from(LIMITS), number),
)
Step = tuple[str, str | tuple[str, ...], int]
CLAIM: Step = ("claim", "", 4)
FULL: list[Step] = [("enqueue", ("host:",), 3), CLAIM]
HELD_UP_TWICE: list[Step] = [
    ("enqueue", ("tenant:a",), 2),
    ("enqueue", ("host:", "tenant:a"), 1),
    ("claim", "", 3),
    ("end", "throttle", 1),
    ("claim", "", 2),
]
"""These are tried whatever chance does."""


@dataclass
class Walk:
    """A store, and what must be true of it. `waiting` has the buckets of every ready job, in order
    of arrival; `running` the same of every attempt."""

    scene: Scene
    worker: WorkerId
    most: dict[str, int] = field(default_factory=dict)
    shut_until: dict[str, float] = field(default_factory=dict)
    waiting: dict[JobId, tuple[str, ...]] = field(default_factory=dict)
    later: dict[JobId, tuple[str, ...]] = field(default_factory=dict)
    running: dict[JobId, tuple[Claimed, tuple[str, ...]]] = field(default_factory=dict)
    zombies: list[Claimed] = field(default_factory=list)
    now: float = 0.0

    async def step(self, word: str, what: str | tuple[str, ...], n: int) -> None:
        match word, what:
            case "enqueue", tuple(buckets):
                jobs = await self.scene.enqueue_many(n + 1, **through(*buckets))
                self.waiting |= dict.fromkeys(jobs, buckets)
            case "claim", _:
                await self.claim(n)
            case "end", str(how):
                await self.end(how, n)
            case (("put" | "override" | "drain"), str(limit)):
                await self.change(word, limit, n)
            case _:
                await self.move(word, n)
        await nothing_is_wrong(self.scene)

    def used(self, bucket: str) -> int:
        return sum(bucket in buckets for _, buckets in self.running.values())

    def has_room(self, buckets: tuple[str, ...]) -> bool:
        return all(
            self.used(one) < self.most_of(one) and self.shut_until.get(one, 0.0) <= self.now
            for one in buckets
        )

    def most_of(self, bucket: str) -> int:
        return self.most.get(bucket, self.most[bucket.split(":")[0]])

    async def claim(self, limit: int) -> None:
        """A line that is let go on at one bucket may meet another that is shut, and by then others
        could go on at the first. The next claim lets them, and the worker has to send it."""
        given = await self.take(limit)
        if given < limit and self.could_begin:
            assert await self.scene.store.limits.opens_in([QUEUE]) == 0, "nobody would claim again"
            assert await self.take(limit - given), "who could begin was not given"

    @property
    def could_begin(self) -> bool:
        return any(map(self.has_room, self.waiting.values()))

    async def take(self, limit: int) -> int:
        given = await self.scene.claim(limit, worker=self.worker)
        for job in given:
            buckets = self.waiting[job.id]
            first = next(one for one, theirs in self.waiting.items() if theirs == buckets)
            assert job.id == first, "a line is served in order of arrival"
            assert self.has_room(buckets), f"no more may begin through {buckets}"
            self.running[job.id] = (job, self.waiting.pop(job.id))
        return len(given)

    async def end(self, how: str, n: int) -> None:
        if not self.running:
            return
        job, buckets = list(self.running.values())[n % len(self.running)]
        del self.running[job.id]
        assert (await self.scene.finish(job, ENDS[how])).accepted
        self.zombies.append(job)
        if how == "hand back":
            self.put_back(job.id, buckets)
        elif how in ("raise", "snooze", "throttle"):
            self.later[job.id] = buckets
        if how == "throttle":
            self.shut("host:", SHUT)

    def put_back(self, job: JobId, buckets: tuple[str, ...]) -> None:
        """At its old position: ids are minted in order of arrival."""
        self.waiting[job] = buckets
        self.waiting = dict(sorted(self.waiting.items()))

    def shut(self, bucket: str, seconds: float) -> None:
        self.shut_until[bucket] = max(self.shut_until.get(bucket, 0.0), self.now + seconds)

    async def move(self, word: str, n: int) -> None:
        match word:
            case "zombie" if self.zombies:
                zombie = self.zombies[n % len(self.zombies)]
                assert not (await self.scene.finish(zombie, RETURNED)).accepted
            case "cancel" if self.waiting:
                job = list(self.waiting)[n % len(self.waiting)]
                assert (await self.scene.finish(await self.scene.live(job), Cancelled())).accepted
                del self.waiting[job]
            case "lose":
                await self.lose()
            case "pass time":
                self.now += SHUT / 2
                self.scene.clock.advance(SHUT / 2)

    async def lose(self) -> None:
        await self.scene.lose(self.worker)
        self.worker = await self.scene.hire(lease=10_000.0)
        for live in await self.scene.store.jobs.lapsed_leases(100):
            assert (await self.scene.reclaim(live, Reclaimed("lost", suspected=False))).accepted
            job, buckets = self.running.pop(live.id)
            self.zombies.append(job)
            self.put_back(job.id, buckets)

    async def change(self, word: str, limit: str, n: int) -> None:
        limits, bucket = self.scene.store.limits, "tenant:a" if limit == "tenant" else "host:"
        match word:
            case "put":
                await limits.put(limit, Concurrency(n))
                self.most[limit] = n
            case "override":
                await limits.override(limit, bucket.split(":")[1], Concurrency(n))
                self.most[bucket] = n
            case _:
                await limits.drain({bucket: n * SHUT / 2})
                self.shut_until[bucket] = self.now + n * SHUT / 2


async def walk(store: Store, clock: ManualClock, steps: list[Step]) -> None:
    scene = await Scene.on(store, clock)
    for name in LIMITS:
        await store.limits.put(name, Concurrency(2))
    one = Walk(scene, await scene.hire(lease=10_000.0), dict.fromkeys(LIMITS, 2))
    for step in steps:
        await one.step(*step)
    await drained(one)


async def drained(one: Walk) -> None:
    """When faults stop, the line drains: nobody was forgotten."""
    one.most.clear()
    for name in LIMITS:
        await one.scene.store.limits.put(name, Concurrency(9))
    for bucket in ("tenant:a", "host:"):
        limit, key = bucket.split(":")
        await one.scene.store.limits.override(limit, key, None)
        await one.scene.store.limits.drain({bucket: 0.0})
    one.most |= dict.fromkeys(LIMITS, 9)
    one.now += 1_000.0
    one.scene.clock.advance(1_000)
    for job, _ in list(one.running.values()):
        await one.scene.finish(job)
    one.running.clear()
    await one.scene.store.jobs.promote_due(100)
    one.waiting |= one.later
    while one.waiting:
        given = await one.scene.claim(4, worker=one.worker)
        assert given, "a job was forgotten in its line"
        for job in given:
            del one.waiting[job.id]
            await one.scene.finish(job)
    await nothing_is_wrong(one.scene)
    await one.scene.store.workers.deregister(one.scene.worker)
    await one.scene.store.workers.deregister(one.worker)


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(steps=st.lists(STEPS, max_size=25))
@example(steps=[("enqueue", ("host:", "tenant:a"), 3), ("claim", "", 4), ("end", "return", 0)])
@example(steps=[*FULL, ("end", "throttle", 0), ("pass time", "", 0), ("pass time", "", 0), CLAIM])
@example(steps=[*FULL, ("put", "host", 1), ("end", "return", 0), ("put", "host", 3), CLAIM])
@example(steps=HELD_UP_TWICE)
def test_no_limit_is_exceeded_and_nobody_is_forgotten(
    loop_store: tuple[asyncio.Runner, Store, ManualClock], steps: list[Step]
) -> None:
    runner, store, clock = loop_store
    runner.run(walk(store, clock, steps))
