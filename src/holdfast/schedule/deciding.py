"""From due plans to the rows that record them: what overlap makes of those that are to fire.

A decision about a plan that is to fire rests on the unfinished jobs of its scope. All rows of such
a scope say so (`Plan.beside`): the store refuses them together when other jobs run by then, so that
no later plan of the scope is recorded without the ones before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.job.ids import JobId
from holdfast.schedule.catch_up import Due, Planned
from holdfast.schedule.model import NO_SCOPE, Decision, Overlap, Plan, Schedule
from holdfast.schedule.overlap import Start, start
from holdfast.schedule.plan_job import PlanJobs
from holdfast.store.contract.store import Store


class Deciding:
    """Decides for one schedule."""

    def __init__(self, store: Store, schedule: Schedule, starter: PlanJobs) -> None:
        self._store = store
        self._schedule, self._definition = schedule, schedule.definition
        self._starter = starter

    async def rows(
        self, due: dict[str, Due], waiting: frozenset[str], based: dict[str, list[JobId]]
    ) -> list[Plan]:
        """`waiting` are the scopes in which a plan already waits. `based` are the jobs that
        earlier rounds rested on. Where the same run still, the plan was refused because somebody
        else had written it."""
        if self._definition.scopes is not None and NO_SCOPE in due:
            return [self._row(NO_SCOPE, each, _without_scope(each)) for each in due[NO_SCOPE].plans]
        starting = {
            scope
            for scope, each in due.items()
            if any(planned.decision is Decision.FIRED for planned in each.plans)
        }
        unfinished = await unfinished_jobs(self._store, self._schedule, [*starting])
        rows: list[Plan] = []
        for scope, each in due.items():
            live = unfinished.get(scope, [])
            if based.get(scope) == live:
                continue
            based[scope] = live
            mine = self._rows(scope, each.plans, live, scope in waiting)
            resting = self._definition.overlap is not Overlap.ALLOW and scope in starting
            rows += [_resting_on(live, row) for row in mine] if resting else mine
        return rows

    def _rows(
        self, scope: str, due: Sequence[Planned], live: list[JobId], waiting: bool
    ) -> list[Plan]:
        rows: list[Plan] = []
        firing = [each.at for each in due if each.decision is Decision.FIRED]
        replacing = self._definition.overlap is Overlap.REPLACE
        for each in due:
            if each.decision is not Decision.FIRED:
                rows.append(self._row(scope, each, Start(each.decision, each.reason)))
                continue
            if replacing and each.at < firing[-1]:
                told = f"replaced at once by {firing[-1].isoformat()}"
                rows.append(self._row(scope, each, Start(Decision.COALESCED, told)))
                continue
            row = self._row(scope, each, start(self._definition.overlap, live, waiting))
            waiting = waiting or row.decision is Decision.WAITING
            live = live if row.job is None else [*live, row.job.id]
            rows.append(row)
        return rows

    def _row(self, scope: str, planned: Planned, begun: Start) -> Plan:
        fires = begun.decision is Decision.FIRED
        return Plan(
            self._schedule.name,
            scope,
            planned.at,
            begun.decision,
            begun.reason,
            self._starter.job(scope, planned.at) if fires else None,
            begun.cancel,
        )


async def unfinished_jobs(
    store: Store, schedule: Schedule, scopes: Sequence[str]
) -> dict[str, list[JobId]]:
    """The live jobs of scopes about to start, unless nobody asks."""
    if schedule.definition.overlap is Overlap.ALLOW or not scopes:
        return {}
    found = await store.schedules.unfinished(schedule.name, scopes)
    return {scope: [job.id for job in jobs] for scope, jobs in found.items()}


def _resting_on(live: Sequence[JobId], plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, beside=tuple(live))


def _without_scope(planned: Planned) -> Start:
    if planned.decision is Decision.FIRED:
        return Start(Decision.SKIPPED, "no scope")
    return Start(planned.decision, planned.reason)
