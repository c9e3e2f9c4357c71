"""Schedules on a store whose clock the test moves, and evaluators that evaluate them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from holdfast.clock import ManualClock
from holdfast.events import Event, Events
from holdfast.job.ends import Returned
from holdfast.job.ids import JobId, WorkerId, new_worker_id
from holdfast.job.outcome import decide
from holdfast.job.record import Claimed, Live
from holdfast.schedule.checking import checked
from holdfast.schedule.evaluator import Evaluator
from holdfast.schedule.model import Decision, Definition, LedgerEntry, Rule, Schedule
from holdfast.schedule.providers import Providers
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.records import Want
from holdfast.store.contract.store import Store
from holdfast.store.contract.workers import WorkerInfo

TASK = "task"
QUEUE = "default"


class Scene:
    """One store, one evaluator unless the test makes more, and one worker to run jobs with."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.seen: list[Event] = []
        self.events = Events(self.seen.append)
        self.providers = Providers(page=100, limit=5.0)
        self.evaluator = self.another()
        self.worker: WorkerId = new_worker_id()

    def another(self, store: Store | None = None) -> Evaluator:
        """One more replica; none remembers what another did."""
        return Evaluator(store or self.store, self.events, self.providers)

    async def declare(self, name: str = "job", cron: str | None = None, **options: Any) -> None:
        rule = {k: options.pop(k) for k in Rule.__struct_fields__ if k in options}
        given = {"task": TASK, "queue": QUEUE} | options
        definition = Definition(Rule(cron=cron, **rule), **given)
        await self.store.schedules.declare({name: checked(definition)})

    async def declare_unchecked(self, name: str, cron: str, **rule: Any) -> None:
        """As it may stand in a store: written by another release, or for another machine."""
        await self.store.schedules.declare(
            {name: Definition(Rule(cron=cron, **rule), task=TASK, queue=QUEUE)}
        )

    async def at(self, moment: datetime) -> None:
        """Let it be that time, and evaluate."""
        self.clock.now = moment
        await self.evaluator.run_once()

    async def after(self, seconds: float = 0.0, *, minutes: float = 0, hours: float = 0) -> None:
        self.clock.advance(seconds, minutes=minutes, hours=hours)
        await self.evaluator.run_once()

    async def rows(self, name: str = "job", limit: int = 10_000) -> list[LedgerEntry]:
        """Oldest first."""
        return (await self.store.schedules.history(name, limit=limit))[::-1]

    async def decisions(self, name: str = "job") -> list[tuple[str, Decision]]:
        """The ledger in short: minutes of plan times and decisions, oldest first."""
        return [(f"{row.at:%H:%M}", row.decision) for row in await self.rows(name)]

    async def fired(self, name: str = "job") -> list[datetime]:
        rows = await self.rows(name)
        return [row.at for row in rows if row.decision is Decision.FIRED]

    async def schedule(self, name: str = "job") -> Schedule:
        [found] = await self.store.schedules.find([name])
        return found

    async def jobs(self, tasks: Iterable[str] = (TASK,)) -> int:
        return sum((await self.store.jobs.count(JobFilter(tasks=tuple(tasks)))).values())

    async def run_all(self) -> list[JobId]:
        """Claim every ready job and let it succeed."""
        claimed = await self.claim()
        await self.store.jobs.finish([decide(job, Returned("1")) for job in claimed])
        return [job.id for job in claimed]

    async def claim(self, limit: int = 1_000) -> list[Claimed]:
        info = WorkerInfo(self.worker, "w", "host", 1, {QUEUE: limit}, (TASK,), "0")
        await self.store.workers.register(info, 1e9)
        return await self.store.jobs.claim(self.worker, [Want(QUEUE, limit)], [TASK])

    async def live(self, *ids: JobId) -> list[Live]:
        return await self.store.jobs.live(ids)
