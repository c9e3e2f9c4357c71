"""Schedules and plans, so that a conformance test reads as a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.job.ids import JobId, new_job_id
from holdfast.job.record import NewJob
from holdfast.schedule.model import (
    NO_SCOPE,
    Decision,
    Definition,
    LedgerEntry,
    Plan,
    Rule,
    Schedule,
)
from holdfast.store.contract.schedules import Schedules
from tests.conformance.builders import QUEUE, TASK, Scene, new_job

NAME = "nightly"
FIRST = datetime(2028, 2, 28, 23, tzinfo=UTC)


def definition(cron: str = "0 3 * * *", **options: Any) -> Definition:
    """A definition like any other, but for what the test says."""
    return Definition(Rule(cron=cron), **({"task": TASK, "queue": QUEUE} | options))


@dataclass(frozen=True)
class Diary:
    """One declared schedule of a scene, and its plans by number: a minute lies between two."""

    scene: Scene
    name: str = NAME

    @classmethod
    async def of(cls, scene: Scene, name: str = NAME, **options: Any) -> Diary:
        await scene.store.schedules.declare({name: definition(**options)})
        return cls(scene, name)

    @property
    def schedules(self) -> Schedules:
        return self.scene.store.schedules

    def at(self, number: int) -> datetime:
        return FIRST + timedelta(minutes=number)

    def plan(
        self,
        number: int = 0,
        scope: str = NO_SCOPE,
        decision: Decision = Decision.FIRED,
        **options: Any,
    ) -> Plan:
        return Plan(self.name, scope, self.at(number), decision, **options)

    def fire(self, number: int = 0, scope: str = NO_SCOPE, **options: Any) -> Plan:
        """A plan with a job of its own; `job` options are those of `new_job`."""
        job = self.job(**options.pop("job", {}))
        return self.plan(number, scope, job=job, **options)

    def job(self, **options: Any) -> NewJob:
        """A job that may be started by this schedule: it lies beside it."""
        return new_job(**({"id": new_job_id(self.name)} | options))

    async def record(self, *plans: Plan) -> list[bool]:
        return await self.schedules.record(plans)

    async def started(self, number: int = 0, scope: str = NO_SCOPE, **options: Any) -> JobId:
        plan = self.fire(number, scope, **options)
        assert await self.record(plan) == [True]
        return job_of(plan)

    async def schedule(self) -> Schedule:
        [found] = await self.schedules.find([self.name])
        return found

    async def history(self, **options: Any) -> list[LedgerEntry]:
        return await self.schedules.history(self.name, **options)

    async def entry(self, number: int = 0, scope: str = NO_SCOPE) -> LedgerEntry:
        found = await self.history(scope=scope, limit=1, before=self.at(number + 1))
        assert [entry.at for entry in found] == [self.at(number)]
        return found[0]

    async def cursor(self, scope: str = NO_SCOPE) -> datetime | None:
        return (await self.schedules.cursors(self.name, [scope])).get(scope)

    async def unfinished(self, *scopes: str) -> dict[str, list[JobId]]:
        found = await self.schedules.unfinished(self.name, scopes or (NO_SCOPE,))
        return {scope: [job.id for job in jobs] for scope, jobs in found.items()}


def job_of(plan: Plan) -> JobId:
    assert plan.job is not None
    return plan.job.id


def instants(entries: Sequence[LedgerEntry]) -> list[datetime]:
    return [entry.at for entry in entries]
