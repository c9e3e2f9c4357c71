"""The lines of a queue, one for each task: which job is served first, and what a claim costs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.job.ends import Cancelled, HandedBack
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed
from holdfast.store.contract.health import Severity
from holdfast.store.contract.records import Want
from holdfast.testing.servers import ThrowawayValkey
from tests.conformance.builders import Scene, ids, new_job
from tests.support.backends import opened

TASKS = [f"task {n}" for n in range(7)]
QUEUES = ["a", "b"]


@pytest.fixture(params=[1, 4], ids=["one partition", "four partitions"])
def partitions(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@dataclass
class Twin:
    """What the lines should be: every ready job with its queue, task, priority and arrival."""

    scene: Scene
    chance: random.Random
    tasks: list[str]
    ready: dict[JobId, tuple[str, str, int, int]] = field(default_factory=dict)
    running: dict[JobId, tuple[Claimed, tuple[str, str, int, int]]] = field(default_factory=dict)
    arrived: int = 0

    async def insert(self) -> None:
        """Enqueue plain jobs, which take the short way, and others, which do not."""
        options: dict[str, Any] = {} if self.chance.random() < 0.7 else {"deadline_in": 1e6}
        jobs = [
            new_job(
                self.chance.choice(self.tasks),
                queue=self.chance.choice(QUEUES),
                priority=self.chance.choice([0, 0, 0, -1, 3]),
                **options,
            )
            for _ in range(self.chance.choice([1, 1, 2, 30]))
        ]
        await self.scene.store.jobs.insert(jobs)
        for job in jobs:
            self.arrived += 1
            self.ready[job.id] = (job.queue, job.task, job.priority, self.arrived)

    async def claim(self) -> None:
        known = self.chance.sample(self.tasks, self.chance.randint(1, len(self.tasks)))
        limits = [self.chance.choice([1, 2, 5, 40]) for _ in QUEUES]
        wants = [Want(queue, limit) for queue, limit in zip(QUEUES, limits, strict=True)]
        claimed = await self.scene.store.jobs.claim(self.scene.worker, wants, known)
        expected: list[JobId] = []
        for want in wants:
            line = [
                (priority, arrived, job)
                for job, (queue, task, priority, arrived) in self.ready.items()
                if queue == want.queue and task in known
            ]
            expected += [job for *_, job in sorted(line)[: want.limit]]
        assert ids(claimed) == expected
        for job in claimed:
            self.running[job.id] = (job, self.ready.pop(job.id))

    async def hand_back(self) -> None:
        for job in self.chance.sample(list(self.running), min(3, len(self.running))):
            claimed, place = self.running.pop(job)
            assert (await self.scene.finish(claimed, HandedBack())).accepted
            self.ready[job] = place

    async def cancel(self) -> None:
        some = self.chance.sample(list(self.ready), min(3, len(self.ready)))
        live = await self.scene.store.jobs.live(some)
        await self.scene.store.jobs.finish([decide(job, Cancelled()) for job in live])
        for job in some:
            del self.ready[job]

    async def reprioritise(self) -> None:
        priority = self.chance.choice([-2, 0, 4])
        some = self.chance.sample(list(self.ready), min(3, len(self.ready)))
        await self.scene.store.jobs.reprioritise(some, priority)
        for job in some:
            queue, task, _, arrived = self.ready[job]
            self.ready[job] = (queue, task, priority, arrived)

    async def move(self) -> None:
        queue = self.chance.choice(QUEUES)
        some = self.chance.sample(list(self.ready), min(3, len(self.ready)))
        await self.scene.store.jobs.move(some, queue)
        for job in some:
            self.ready[job] = (queue, *self.ready[job][1:])


@pytest.mark.parametrize("tasks", [2, 3, 7])
async def test_whatever_happens_to_its_lines_a_queue_is_served_by_priority_and_arrival(
    scene: Scene, tasks: int
) -> None:
    """With few jobs a line is often alone in its queue, and soon has others beside it again."""
    chance = random.Random(tasks)
    twin = Twin(scene, chance, TASKS[:tasks])
    verbs = [twin.insert, twin.claim, twin.hand_back, twin.cancel, twin.reprioritise, twin.move]
    for _ in range(150):
        await chance.choices(verbs, weights=[4, 5, 2, 1, 1, 1])[0]()
    while twin.ready:
        await twin.claim()


# What it costs


def commands(server: ThrowawayValkey) -> int:
    """How many commands the server has run, also within scripts."""
    lines = str(server.say("INFO", "commandstats")).splitlines()
    return sum(int(x.partition("calls=")[2].partition(",")[0]) for x in lines if "calls=" in x)


async def test_a_claim_costs_what_it_returns_and_not_tasks_times_queues(
    server: ThrowawayValkey, clock: ManualClock
) -> None:
    tasks, queues = [f"task {n}" for n in range(300)], [f"queue {n}" for n in range(10)]
    wants = [Want(queue, 5) for queue in queues]
    async with opened(server.new_namespace(), clock) as store:
        scene = await Scene.on(store, clock)

        async def cost(expected: int) -> int:
            before = commands(server)
            assert len(await store.jobs.claim(scene.worker, wants, tasks)) == expected
            return commands(server) - before

        await cost(0)
        assert await cost(0) < 5 * len(queues)
        await scene.enqueue(tasks[77], queue=queues[7])
        assert await cost(1) < 5 * len(queues)
        await store.jobs.insert([new_job(task, queue=queue) for queue in queues for task in tasks])
        assert await cost(50) < 12 * 50
    server.say("FLUSHALL")


async def test_a_line_that_no_claim_would_find_is_reported(
    server: ThrowawayValkey, clock: ManualClock
) -> None:
    url = server.new_namespace()
    async with opened(url, clock) as store:
        await store.jobs.insert([new_job()])
        [heads] = [key for key in server.keys(url) if ":heads:" in key]
        server.say("DEL", heads)
        check = "jobs that are not where their record says"
        [told] = [f for f in await store.health.check() if f.check == check]
        assert told.severity is Severity.PROBLEM
    server.say("FLUSHALL")
