"""Overlap: what becomes of a plan whose predecessor in the same scope has not ended.

`decide_overlap` is the table, and pure. `OverlapDecider` applies it to the due plans of one
schedule and makes their ledger rows, with a job for each plan that fires.

The decision about a plan that is to fire depends on the unfinished jobs of its scope. Every row of
such a scope names these jobs (`Plan.beside`). If other jobs are unfinished when the store writes
the rows, the store refuses all rows of the scope together: no plan is recorded without the plans
before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

import msgspec

from holdfast.job.ids import JobId
from holdfast.schedule.catch_up import DecidedPlan, Due
from holdfast.schedule.model import NO_SCOPE, Decision, Overlap, Plan, Schedule
from holdfast.schedule.plan_job import PlanJobs
from holdfast.store.contract.store import Store


class OverlapDecision(msgspec.Struct, frozen=True):
    """What becomes of one plan, and which predecessors are cancelled when it fires."""

    decision: Decision
    reason: str = ""
    cancel: tuple[JobId, ...] = ()


FIRE = OverlapDecision(Decision.FIRED)


def decide_overlap(
    overlap: Overlap, unfinished: Sequence[JobId], waiting: bool = False
) -> OverlapDecision:
    """`unfinished` are the live jobs of the scope; `waiting` says that a plan of the scope already
    waits for them to end."""
    if overlap is Overlap.ALLOW or not (unfinished or waiting):
        return FIRE
    running = f"job {unfinished[0]} has not ended" if unfinished else "a plan already waits"
    match overlap:
        case Overlap.SKIP:
            return OverlapDecision(Decision.SKIPPED, f"overlap: {running}")
        case Overlap.QUEUE_ONE if waiting:
            return OverlapDecision(Decision.SKIPPED, "overlap: one plan already waits")
        case Overlap.QUEUE_ONE:
            return OverlapDecision(Decision.WAITING, f"overlap: {running}")
        case Overlap.REPLACE:
            return OverlapDecision(Decision.FIRED, cancel=tuple(unfinished))
    assert_never(overlap)


class OverlapDecider:
    """Makes the ledger rows of one schedule's plans."""

    def __init__(self, store: Store, schedule: Schedule) -> None:
        self._store = store
        self._schedule = schedule
        self._overlap = schedule.definition.overlap
        self._jobs = PlanJobs(schedule.name, schedule.definition)

    async def rows(
        self, due: dict[str, Due], waiting: frozenset[str], decided_on: dict[str, list[JobId]]
    ) -> list[Plan]:
        """The rows of the due plans of several scopes.

        `waiting` are the scopes in which a plan already waits. `decided_on` keeps, by scope, the
        unfinished jobs that the last round of decisions depended on. If a scope still has the same
        jobs, its rows were refused because another replica had written them, and it gets none.
        """
        if self._schedule.definition.scopes is not None and NO_SCOPE in due:
            plans = due[NO_SCOPE].plans
            return [self.row(NO_SCOPE, plan.at, _without_scope(plan)) for plan in plans]
        firing = [scope for scope, each in due.items() if each.newest_fired is not None]
        unfinished = await self.unfinished(firing)
        crowds = await self._crowds(firing)
        rows: list[Plan] = []
        for scope, each in due.items():
            live = unfinished.get(scope, [])
            if decided_on.get(scope) == live:
                continue
            decided_on[scope] = live
            rows += self._rows(scope, each, live, scope in waiting, crowds.get(scope))
        return rows

    async def unfinished(self, scopes: Sequence[str]) -> dict[str, list[JobId]]:
        """The live jobs of these scopes; none where overlap is allowed and nobody needs them."""
        if self._overlap is Overlap.ALLOW or not scopes:
            return {}
        found = await self._store.schedules.unfinished(self._schedule.name, scopes)
        return {scope: [job.id for job in jobs] for scope, jobs in found.items()}

    async def _crowds(self, scopes: Sequence[str]) -> dict[str, int]:
        """How many jobs of each scope wait for a worker that knows their task; none if a live
        worker knows it. Without a live worker nobody can know."""
        if not scopes:
            return {}
        task = self._schedule.definition.task
        workers = [worker for worker in await self._store.workers.find() if worker.alive]
        if not workers or any(task in worker.tasks for worker in workers):
            return {}
        found = await self._store.schedules.unfinished(self._schedule.name, scopes)
        return {scope: len(found.get(scope, ())) for scope in scopes}

    def row(
        self,
        scope: str,
        at: datetime,
        decided: OverlapDecision,
        beside: tuple[JobId, ...] | None = None,
    ) -> Plan:
        fires = decided.decision is Decision.FIRED
        return Plan(
            self._schedule.name,
            scope,
            at,
            decided.decision,
            decided.reason,
            self._jobs.job(scope, at) if fires else None,
            decided.cancel,
            beside=beside,
        )

    def _rows(
        self, scope: str, due: Due, live: list[JobId], waiting: bool, crowd: int | None
    ) -> list[Plan]:
        """A plan that fires is unfinished, and one that waits is waiting, for the plans after
        it. `crowd` counts the jobs of the scope if no live worker knows their task."""
        rows: list[Plan] = []
        newest = due.newest_fired
        beside = None if self._overlap is Overlap.ALLOW or newest is None else tuple(live)
        for plan in due.plans:
            decided = self._decide(plan, newest, live, waiting)
            if crowd is not None and decided.decision is Decision.FIRED:
                decided, crowd = self._unless_crowded(decided, crowd), crowd + 1
            row = self.row(scope, plan.at, decided, beside)
            waiting = waiting or row.decision is Decision.WAITING
            live = live if row.job is None else [*live, row.job.id]
            rows.append(row)
        return rows

    def _unless_crowded(self, decided: OverlapDecision, crowd: int) -> OverlapDecision:
        """A schedule whose task nobody has any more must not fill its queue for ever: no more than
        `cap` of its jobs wait. With overlap `replace` the waiting job makes room."""
        chosen = self._schedule.definition
        if crowd < chosen.cap or decided.cancel:
            return decided
        reason = f"no live worker knows task {chosen.task!r}, and {crowd} jobs wait for one"
        return OverlapDecision(Decision.SKIPPED, reason)

    def _decide(
        self, plan: DecidedPlan, newest: datetime | None, live: list[JobId], waiting: bool
    ) -> OverlapDecision:
        """`newest` is the last plan of the scope that is to fire: with overlap `replace` it would
        cancel the others before they ran."""
        if plan.decision is not Decision.FIRED:
            return OverlapDecision(plan.decision, plan.reason)
        if self._overlap is Overlap.REPLACE and newest is not None and plan.at < newest:
            reason = f"replaced at once by {newest.isoformat()}"
            return OverlapDecision(Decision.COALESCED, reason)
        return decide_overlap(self._overlap, live, waiting)


def _without_scope(plan: DecidedPlan) -> OverlapDecision:
    """The decision about a plan of a scoped schedule whose provider gave no scope."""
    if plan.decision is Decision.FIRED:
        return OverlapDecision(Decision.SKIPPED, "no scope")
    return OverlapDecision(plan.decision, plan.reason)
