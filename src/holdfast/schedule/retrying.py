"""Tries plans again that could not be started: those that failed, those behind another.

Oldest first and page by page to the end, so that neither a newer plan nor a bad one before it
strands an older one. A look writes a bounded number of them; the next goes on behind these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.job.ids import JobId
from holdfast.schedule.catch_up import too_late
from holdfast.schedule.deciding import unfinished_jobs
from holdfast.schedule.ledger import LedgerWriter
from holdfast.schedule.model import Decision, Definition, LedgerEntry, Overlap, Plan, Schedule
from holdfast.schedule.overlap import start
from holdfast.schedule.plan_job import PlanJobs
from holdfast.store.contract.store import Store

PAGE = 500
TRIES = 500
Place = tuple[datetime, str]


@dataclass(frozen=True, slots=True)
class StillOpen:
    """The scopes in which a plan waits, and whether any plan still fails to start. `tried_up_to`
    if there were more than one look may write."""

    waiting: frozenset[str] = frozenset()
    failed: bool = False
    tried_up_to: Place | None = None


class Retrying:
    def __init__(
        self,
        store: Store,
        schedule: Schedule,
        starter: PlanJobs,
        book: LedgerWriter,
        behind: Place | None = None,
    ) -> None:
        self._store = store
        self._schedule = schedule
        self._starter = starter
        self._book = book
        self._waiting: set[str] = set()
        self._behind = behind
        self._tried: Place | None = None
        self._tries = 0

    async def run(self) -> StillOpen:
        after: Place | None = None
        verbs = self._store.schedules
        while page := await verbs.failed_plans(self._schedule.name, PAGE, after):
            after = page[-1].at, page[-1].scope
            await self._try(page)
            if len(page) < PAGE:
                break
        tried_up_to = self._tried if self._tries == TRIES else None
        return StillOpen(frozenset(self._waiting), self._book.failed, tried_up_to)

    async def _try(self, page: Sequence[LedgerEntry]) -> None:
        now = await self._store.now()
        scopes = list(dict.fromkeys(entry.scope for entry in page))
        live = await unfinished_jobs(self._store, self._schedule, scopes)
        for entry in page:
            if not self._has_its_turn(entry):
                self._stays(entry)
                continue
            row = self._decided(entry, now, live.setdefault(entry.scope, []))
            if row is None:
                self._waiting.add(entry.scope)
            elif await self._written(row) and row.job is not None:
                live[entry.scope].append(row.job.id)

    def _has_its_turn(self, entry: LedgerEntry) -> bool:
        passed = self._behind is not None and (entry.at, entry.scope) <= self._behind
        return not passed and self._tries < TRIES

    async def _written(self, row: Plan) -> bool:
        self._tries += 1
        self._tried = row.at, row.scope
        before = self._book.written
        if await self._book.write([row]):
            self._waiting.add(row.scope)
        return self._book.written > before

    def _stays(self, entry: LedgerEntry) -> None:
        if entry.decision is Decision.WAITING:
            self._waiting.add(entry.scope)
        else:
            self._book.failed = True

    def _decided(self, entry: LedgerEntry, now: datetime, live: list[JobId]) -> Plan | None:
        """The row that takes the place of the open one; None if it stays as it is."""
        chosen, name = self._schedule.definition, self._schedule.name
        late = too_late(chosen, name, entry.at, now) or _given_up(chosen, entry, now)
        if late is not None:
            return Plan(name, entry.scope, entry.at, Decision.MISSED, f"{late}: {entry.reason}")
        begun = start(chosen.overlap, live, entry.scope in self._waiting)
        if begun.decision is Decision.WAITING:
            return None
        job = self._starter.job(entry.scope, entry.at) if begun.decision is Decision.FIRED else None
        told = (begun.decision, begun.reason, job, begun.cancel)
        beside = None if chosen.overlap is Overlap.ALLOW else tuple(live)
        return Plan(name, entry.scope, entry.at, *told, beside=beside)


def _given_up(chosen: Definition, entry: LedgerEntry, now: datetime) -> str | None:
    """A plan that fails for longer than its row would be kept is tried no more: otherwise one
    that can never start would leave rows without end, each tried at every look."""
    limit = max(chosen.keep, chosen.window)
    if entry.decision is not Decision.FAILED or now - entry.at <= timedelta(seconds=limit):
        return None
    return f"could not be started for {limit:g} s"
