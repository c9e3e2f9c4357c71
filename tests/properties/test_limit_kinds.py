"""Limits of every kind, in any order of events, on every store, beside books of what happened.

By the numbers of the chapter on limits: 1 buckets count what their leases say. 2 no bucket of
slots exceeds its limit at an admission. 3 no window has more starts than the rate, and no interval
more than the burst and what has grown in it. 4 no admission goes beyond a budget, and its books
balance to the unit. 5 an accepted end gives back once, a refused one nothing. 6 a claim with room
gives. 7 a line is open, or waits at one bucket that is shut. 8 a bucket with room and with somebody
who waits is looked at by the next claim. 9 a line is served in order of arrival. 14 a parent has
spent at least what its children have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.clock import ManualClock
from holdfast.job.ends import (
    Cancelled,
    End,
    HandedBack,
    Reclaimed,
    Snoozed,
    WasSuspended,
    WasThrottled,
)
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.outcome import decide
from holdfast.job.passing import joined
from holdfast.job.record import Claimed
from holdfast.job.state import LIVE
from holdfast.job.ties import Tie
from holdfast.limits.model import Budget, Concurrency, Rate, Settings
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.limits import Take
from holdfast.store.contract.records import SpendReport
from holdfast.store.contract.store import Store
from tests.conformance.builders import FAILED, QUEUE, RAISED, RETURNED, Scene
from tests.conformance.limiting import nothing_is_wrong
from tests.properties.limit_books import SECOND, Book
from tests.properties.test_flows import loop_store

__all__ = ["loop_store"]

SHUT = 300.0
LIMITS: dict[str, Callable[[int], Settings]] = {
    "meter": lambda n: Rate(1 + n, per=10.0, burst=3),
    "purse": lambda n: Budget(6 * n, soft=3 * n, every=1000.0),
    "rate": lambda n: Rate(n, per=64.0),
    "slots": lambda n: Concurrency(n),
}
PASSING = [
    ("slots:a",),
    ("rate:",),
    ("meter:",),
    ("purse:x", "purse:x/y"),
    ("purse:x",),
    ("rate:", "slots:a"),
    ("meter:", "purse:x", "purse:x/z", "slots:b"),
]
BUCKETS = sorted({bucket for buckets in PASSING for bucket in buckets})
COSTS: dict[str, Callable[[int], int]] = {
    "meter": lambda n: 1 + n % 2,
    "purse": lambda n: 1 + 2 * n,
    "rate": lambda n: 1 + n % 2,
    "slots": lambda n: 1,
}
ENDS: dict[str, End] = {
    "return": RETURNED,
    "raise": RAISED,
    "fail": FAILED,
    "snooze": Snoozed(10.0),
    "hand back": HandedBack(),
    "unbegun": HandedBack(begun=False),
    "throttle": WasThrottled(SHUT, "429", "rate"),
    "suspend": WasSuspended(None),
}
WAITS = {"raise": 10.0, "snooze": 10.0, "throttle": SHUT}
OPERATING = ["promote", "resume", "requeue", "reprioritise", "move"]
TIMES = [0.5, 3.0, 20.0, 65.0]
number = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("enqueue"), st.sampled_from(PASSING), number),
    st.tuples(st.just("claim"), st.just(""), st.integers(1, 4)),
    st.tuples(st.sampled_from(["end", "end", "end spent"]), st.sampled_from([*ENDS]), number),
    st.tuples(
        st.sampled_from(["zombie", "cancel", "lose", "report", "report late"]), st.just(""), number
    ),
    st.tuples(st.sampled_from(["pass time", *OPERATING]), st.just(""), number),
    st.tuples(st.sampled_from(["put", "take"]), st.sampled_from([*LIMITS]), number),
    st.tuples(
        st.sampled_from(["override", "inherit", "drain", "adjust"]),
        st.sampled_from(BUCKETS),
        number,
    ),
)
Step = tuple[str, str | tuple[str, ...], int]
Line = tuple[int, tuple[str, ...]]
CLAIM: Step = ("claim", "", 4)


@dataclass
class Attempt:
    job: Claimed
    costs: dict[str, int]
    reported: int | None = None


@dataclass
class Walk:
    """A store, and the books of it."""

    scene: Scene
    worker: WorkerId
    books: dict[str, Book]
    defined: dict[str, Settings]
    waiting: dict[JobId, dict[str, int]] = field(default_factory=dict)
    priority: dict[JobId, int] = field(default_factory=dict)
    later: dict[JobId, tuple[dict[str, int], int]] = field(default_factory=dict)
    suspended: dict[JobId, dict[str, int]] = field(default_factory=dict)
    failed: dict[JobId, dict[str, int]] = field(default_factory=dict)
    out_of_order: set[Line] = field(default_factory=set)
    aside: set[JobId] = field(default_factory=set)  # cost more than ever passes at some claim
    running: dict[JobId, Attempt] = field(default_factory=dict)
    zombies: list[Claimed] = field(default_factory=list)

    @property
    def now(self) -> int:
        return round(self.scene.clock.now.timestamp() * SECOND)

    async def step(self, word: str, what: str | tuple[str, ...], n: int) -> None:
        match word, what:
            case "enqueue", tuple(buckets):
                await self.enqueue(buckets, n)
            case "claim", _:
                await self.claim(n)
            case (("end" | "end spent"), str(how)):
                await self.end(how, n, spent=n if word == "end spent" else None)
            case (("put" | "take" | "override" | "inherit" | "drain" | "adjust"), str(name)):
                await getattr(self, word)(name, n)
            case _:
                await self.move(word, n)
        await self.look()

    # What must hold after every step

    async def look(self) -> None:
        await nothing_is_wrong(self.scene)
        found = {one.name: one for one in await self.scene.store.limits.get(BUCKETS)}
        for name, book in self.books.items():
            info = found[name]
            book.roll(self.now)
            assert info.in_use == book.reserved, f"1: {name}"
            if isinstance(book.settings, Budget):
                assert info.spent == book.spent, f"4: {name}"
            if info.waiting and info.drained_for is None and (info.needs or 1) <= info.room:
                assert info.opens_in == 0, f"8: {name} has room and nobody looks"
        children = [self.books["purse:x/y"], self.books["purse:x/z"]]
        parent = self.books["purse:x"]
        own = [found[one.name].spent + one.adjusted for one in (parent, *children)]
        assert own[0] >= sum(own[1:]), "14"

    # Jobs

    async def enqueue(self, buckets: tuple[str, ...], n: int) -> None:
        costs = {one: COSTS[one.split(":")[0]](n) for one in buckets}
        text = (
            ",".join(str(cost) for cost in costs.values()) if set(costs.values()) != {1} else None
        )
        jobs = await self.scene.enqueue_many(
            1 + n % 2, buckets=joined(buckets), costs=text, ties=int(Tie.PERMITS)
        )
        self.waiting |= dict.fromkeys(jobs, costs)

    def line(self, job: JobId, costs: dict[str, int]) -> Line:
        return self.priority.get(job, 0), tuple(costs)

    def come(self, job: JobId, costs: dict[str, int]) -> None:
        """Behind the others or at a place of its own: that is other tests' to say."""
        self.waiting[job] = costs
        self.out_of_order.add(self.line(job, costs))

    def book(self, name: str, costs: dict[str, int]) -> Book:
        """As this job meets it: a budget above another one of the job, without settings of its own,
        holds nobody up."""
        book = self.books[name]
        is_parent = any(other.startswith(f"{name}/") for other in costs)
        book.lenient = is_parent and name not in self.own
        return book

    own: set[str] = field(default_factory=set)

    async def claim(self, limit: int) -> None:
        """6: a claim that came short is followed by another at once if the store says that it
        would bring something, and then everybody who is left waits for something."""
        while await self.given(limit) < limit:
            opens_in = await self.scene.store.limits.opens_in()
            again = await self.given(limit)
            assert not again or opens_in == 0, f"6: nobody would have looked for {opens_in} s"
            if not again:
                await self.everybody_waits_for_something()
                return

    async def given(self, limit: int) -> int:
        self.aside |= {job for job, costs in self.waiting.items() if self.never_passes(costs)}
        given = await self.scene.claim(limit, worker=self.worker)
        for job in given:
            costs = self.waiting[job.id]
            line = self.line(job.id, costs)
            assert self.is_in_order(job.id, line), "9: out of order"
            self.aside.discard(job.id)
            del self.waiting[job.id]
            self.running[job.id] = Attempt(job, costs)
        # Who passes a budget as a parent is not held up by it, and may have come last.
        for job in sorted(given, key=lambda one: len(self.running[one.id].costs)):
            self.begin(self.running[job.id])
        return len(given)

    def is_in_order(self, job: JobId, line: Line) -> bool:
        """Those that can pass begin in order of arrival, whoever stands aside."""
        if job in self.aside or line in self.out_of_order:
            return True
        able = (one for one in self.waiting if one not in self.aside)
        return job == next(one for one in able if self.line(one, self.waiting[one]) == line)

    def never_passes(self, costs: dict[str, int]) -> bool:
        books = [(self.book(name, costs), cost) for name, cost in costs.items()]
        return any(0 < one.largest < cost for one, cost in books if not one.lenient)

    def begin(self, attempt: Attempt) -> None:
        for name, cost in attempt.costs.items():
            self.books[name].begin(attempt.job.id, cost, self.now)
        for name in attempt.costs:
            book = self.book(name, attempt.costs)
            assert book.shut_until <= self.now, f"through a bucket that is drained: {book}"
            assert book.keeps_its_promise(self.now), f"2, 3, 4: too much through {book}"

    async def everybody_waits_for_something(self) -> None:
        """6 and 7, when a claim brings nothing."""
        before = await self.scene.store.limits.before(list(self.waiting))
        firsts = {job: before.get(job, job) for job in self.waiting}
        for job, costs in self.waiting.items():
            line, first = self.line(job, costs), firsts[job]
            assert line == self.line(first, self.waiting[first]), "it stands in another line"
            if line in self.out_of_order or job != first:
                continue
            fits = all(
                cost <= self.book(name, costs).at_least(self.now) for name, cost in costs.items()
            )
            assert not fits or self.somebody_is_ahead(first, firsts), f"6: {line} could begin"
        self.only_who_stood_aside_has_a_line_of_its_own(set(firsts.values()))
        found = await self.scene.store.limits.get(BUCKETS)
        waiting = sum(one.waiting for one in found)
        assert waiting == len(set(firsts.values())), "7: a line waits nowhere"

    def only_who_stood_aside_has_a_line_of_its_own(self, firsts: set[JobId]) -> None:
        able = [self.line(job, self.waiting[job]) for job in firsts if job not in self.aside]
        assert len(able) == len(set(able)), "a line is parted, and nobody in it ever cost too much"

    def somebody_is_ahead(self, first: JobId, firsts: dict[JobId, JobId]) -> bool:
        """Another line may need more of a bucket than there is, and is not overtaken there."""
        return any(
            self.book(name, theirs).at_least(self.now) < theirs[name]
            for job, theirs in self.waiting.items()
            if firsts[job] != first
            for name in self.waiting[first].keys() & theirs.keys()
        )

    async def end(self, how: str, n: int, spent: int | None) -> None:
        if not self.running:
            return
        attempt = list(self.running.values())[n % len(self.running)]
        said = () if spent is None else (("purse", spent),)
        move = msgspec.structs.replace(decide(attempt.job, ENDS[how]), spent=said)
        [verdict] = await self.scene.store.jobs.finish([move])
        assert verdict.accepted
        if spent is not None:
            attempt.reported = spent
        self.settle(attempt, how)
        if how in ("hand back", "unbegun"):
            self.put_back(attempt)
        elif how in WAITS:
            due = self.now + round(WAITS[how] * SECOND)
            self.later[attempt.job.id] = attempt.costs, due
        elif how == "suspend":
            self.suspended[attempt.job.id] = attempt.costs
        elif how == "fail":
            self.failed[attempt.job.id] = attempt.costs
        if how == "throttle":
            bucket = self.books["rate:"]
            bucket.shut_until = max(bucket.shut_until, self.now + round(SHUT * SECOND))

    def settle(self, attempt: Attempt, how: str) -> None:
        """5, in the books."""
        job = attempt.job.id
        for name, cost in attempt.costs.items():
            settled = 0
            if name.startswith("purse") and how != "unbegun":
                estimate = cost if how == "return" else 0
                settled = estimate if attempt.reported is None else attempt.reported
            self.books[name].end(job, settled, self.now, begun=how != "unbegun")
        del self.running[job]
        self.zombies.append(attempt.job)

    def put_back(self, attempt: Attempt) -> None:
        """At its old position: ids are minted in order of arrival."""
        self.waiting[attempt.job.id] = attempt.costs
        self.waiting = dict(sorted(self.waiting.items()))

    async def move(self, word: str, n: int) -> None:
        match word:
            case "zombie" if self.zombies:
                zombie = self.zombies[n % len(self.zombies)]
                assert not (await self.scene.finish(zombie, RETURNED)).accepted, "5"
            case "cancel" if self.waiting:
                job = list(self.waiting)[n % len(self.waiting)]
                assert (await self.scene.finish(await self.scene.live(job), Cancelled())).accepted
                del self.waiting[job]
            case "report" if self.running:
                attempt = list(self.running.values())[n % len(self.running)]
                assert await self.report(attempt.job, n)
                attempt.reported = n
            case "report late" if self.zombies:
                assert not await self.report(self.zombies[n % len(self.zombies)], 50), "5"
            case "lose":
                await self.lose()
            case "pass time":
                self.scene.clock.advance(TIMES[n])
            case _:
                await self.operate(word, n)

    async def operate(self, word: str, n: int) -> None:
        """What brings jobs to their lines in other ways than an insert."""
        jobs = self.scene.store.jobs
        match word:
            case "promote":
                await jobs.promote_due(100)
                for job in [one for one, (_, due) in self.later.items() if due <= self.now]:
                    self.come(job, self.later.pop(job)[0])
            case "resume" if self.suspended:
                job = list(self.suspended)[n % len(self.suspended)]
                assert await jobs.resume([job]) == [job]
                self.come(job, self.suspended.pop(job))
            case "requeue" if self.failed:
                job = list(self.failed)[n % len(self.failed)]
                assert await jobs.requeue([job]) == [job]
                self.come(job, self.failed.pop(job))
            case "reprioritise" if self.waiting:
                job = list(self.waiting)[n % len(self.waiting)]
                assert await jobs.reprioritise([job], n) == [job]
                self.priority[job] = n
                self.come(job, self.waiting[job])
            case "move" if self.waiting:
                job = list(self.waiting)[n % len(self.waiting)]
                assert await jobs.move([job], "elsewhere") == [job]
                assert await jobs.move([job], QUEUE) == [job]
                self.come(job, self.waiting[job])

    async def report(self, job: Claimed, units: int) -> bool:
        jobs = self.scene.store.jobs
        [kept] = await jobs.report_spend([SpendReport(job.id, job.fence, {"purse": units})])
        return kept

    async def lose(self) -> None:
        await self.scene.lose(self.worker)
        self.worker = await self.scene.hire(lease=10_000.0)
        for live in await self.scene.store.jobs.lapsed_leases(100):
            assert (await self.scene.reclaim(live, Reclaimed("lost", suspected=False))).accepted
            attempt = self.running[live.id]
            self.settle(attempt, "lose")
            self.put_back(attempt)

    # Operators and handlers

    async def put(self, limit: str, n: int) -> None:
        await self.scene.store.limits.put(limit, LIMITS[limit](n))
        self.defined[limit] = LIMITS[limit](n)
        for book in self.books.values():
            if book.limit == limit and book.name not in self.own:
                book.settings = LIMITS[limit](n)

    async def override(self, bucket: str, n: int) -> None:
        limit, key = bucket.split(":")
        await self.scene.store.limits.override(limit, key, LIMITS[limit](n + 1))
        self.books[bucket].settings = LIMITS[limit](n + 1)
        self.own.add(bucket)

    async def inherit(self, bucket: str, n: int) -> None:
        limit, key = bucket.split(":")
        await self.scene.store.limits.override(limit, key, None)
        self.books[bucket].settings = self.defined[limit]
        self.own.discard(bucket)

    async def drain(self, bucket: str, n: int) -> None:
        await self.scene.store.limits.drain({bucket: n * SHUT / 2})
        self.books[bucket].shut_until = self.now + round(n * SHUT / 2 * SECOND)

    async def adjust(self, bucket: str, n: int) -> None:
        if bucket.startswith("purse"):
            await self.scene.store.limits.adjust(bucket, n)
            self.books[bucket].roll(self.now)
            self.books[bucket].spent -= n
            self.books[bucket].adjusted += n

    async def take(self, limit: str, n: int) -> None:
        bucket = {"purse": "purse:x", "rate": "rate:", "meter": "meter:"}.get(limit)
        if bucket is None or n == 0:
            return
        [taken] = await self.scene.store.limits.take([Take(bucket, n)])
        book = self.book(bucket, {bucket: n})
        if taken.granted:
            assert n <= book.at_most(self.now), f"3, 4: too much taken of {book}"
            book.take(n, self.now)
        elif n <= book.at_least(self.now):
            [info] = await self.scene.store.limits.get([bucket])
            assert info.waiting, "6: nobody waits, there is room, and it was refused"


async def walk(store: Store, clock: ManualClock, steps: list[Step]) -> None:
    scene = await Scene.on(store, clock)
    await emptied(store, clock)
    for name, make in LIMITS.items():
        await store.limits.put(name, make(2))
    books = {name: Book(name, LIMITS[name.split(":")[0]](2)) for name in BUCKETS}
    defined = {name: make(2) for name, make in LIMITS.items()}
    one = Walk(scene, await scene.hire(lease=10_000.0), books, defined)
    for step in steps:
        await one.step(*step)
    await drained(one)


async def emptied(store: Store, clock: ManualClock) -> None:
    """A walk that failed has left jobs, and every walk what its limits have counted."""
    while page := (await store.jobs.page(JobFilter(states=LIVE), 500)).jobs:
        live = await store.jobs.live([job.id for job in page])
        await store.jobs.finish([decide(job, Cancelled()) for job in live])
    clock.advance(100_000)
    if await store.limits.find():
        for bucket in BUCKETS:
            limit, key = bucket.split(":")
            await store.limits.override(limit, key, None)
            await store.limits.drain({bucket: 0.0})


async def drained(one: Walk) -> None:
    """When faults stop, every line drains: nobody was forgotten."""
    limits = one.scene.store.limits
    for bucket in BUCKETS:
        limit, key = bucket.split(":")
        await limits.override(limit, key, None)
        await limits.drain({bucket: 0.0})
    await limits.put("meter", Rate(1000, per=1.0, burst=1000))
    await limits.put("purse", Budget(10_000, every=1000.0))
    await limits.put("rate", Rate(1000, per=64.0))
    await limits.put("slots", Concurrency(50))
    for attempt in one.running.values():
        assert (await one.scene.finish(attempt.job)).accepted
    one.scene.clock.advance(1_000)
    await one.scene.store.jobs.promote_due(100)
    await one.scene.store.jobs.resume(list(one.suspended))
    one.waiting |= {job: costs for job, (costs, _) in one.later.items()} | one.suspended
    while one.waiting:
        given = await one.scene.claim(4, worker=one.worker)
        assert given, f"forgotten in their lines: {one.waiting}"
        for job in given:
            del one.waiting[job.id]
            await one.scene.finish(job)
    await nothing_is_wrong(one.scene)
    for worker in (one.scene.worker, one.worker):
        await one.scene.store.workers.deregister(worker)


MANY: list[Step] = [("enqueue", buckets, n) for buckets in PASSING for n in (1, 0)]
"""More of each kind than its limit lets begin."""
RATE, METER, PURSE, OTHER = ("rate:",), ("meter:",), ("purse:x", "purse:x/y"), PASSING[-1]
ENQUEUE_RATE: Step = ("enqueue", RATE, 0)


@settings(
    max_examples=25 if settings().max_examples <= 100 else 300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(steps=st.lists(STEPS, max_size=30).map(lambda steps: [*MANY, *steps]))
@example(steps=[*MANY, CLAIM, CLAIM, CLAIM, CLAIM])
@example(  # a start counts for a whole window
    steps=[
        *(*MANY, CLAIM, CLAIM, ("end", "return", 0), *[("pass time", "", 2)] * 3),
        *(("pass time", "", 1), *[("pass time", "", 0), CLAIM] * 4),
    ]
)
@example(  # a permit is given back from the window in which it was taken
    steps=[
        *(ENQUEUE_RATE, ("claim", "", 1), ("pass time", "", 2), ("pass time", "", 2)),
        *(("pass time", "", 2), ENQUEUE_RATE, ("claim", "", 1), ("end", "unbegun", 0)),
        *(("cancel", "", 0), ("pass time", "", 1), ("pass time", "", 1), ("enqueue", RATE, 2)),
        *(("enqueue", RATE, 2), CLAIM, CLAIM),
    ]
)
@example(  # and not more of a meter than has not grown back
    steps=[
        *([("enqueue", METER, 0)] * 7),
        *(("claim", "", 3), ("pass time", "", 2), ("claim", "", 3), ("end", "unbegun", 0), CLAIM),
    ]
)
@example(  # a reservation outlives the reset, and is settled in the period after it
    steps=[
        *(("enqueue", PURSE, 3), CLAIM, *[("pass time", "", 3)] * 16, ("end", "return", 0)),
        *(("enqueue", PURSE, 3), CLAIM, CLAIM),
    ]
)
@example(  # what a top-up lets pass is not held up by what it does not
    steps=[
        *(("put", "purse", 0), ("enqueue", PURSE, 1), ("enqueue", PURSE, 0)),
        *(("adjust", "purse:x", 2), CLAIM),
    ]
)
@example(  # a level that loses its own amount holds nobody up any more
    steps=[
        *(("override", "purse:x", 1), ("enqueue", PURSE, 3), CLAIM, ("enqueue", OTHER, 3), CLAIM),
        *(("inherit", "purse:x", 0), CLAIM),
    ]
)
def test_limits_of_every_kind_keep_their_promise(
    loop_store: tuple[asyncio.Runner, Store, ManualClock], steps: list[Step]
) -> None:
    runner, store, clock = loop_store
    runner.run(walk(store, clock, steps))
