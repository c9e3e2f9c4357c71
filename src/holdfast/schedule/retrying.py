"""Tries plans again that could not be started: those that failed, those behind another.

Oldest first and page by page to the end, so that neither a newer plan nor a bad one before it
strands an older one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.job import JobId
from holdfast.plan import Decision, Definition, LedgerEntry, Overlap, Plan, Schedule
from holdfast.schedule.book import Book
from holdfast.schedule.overlap import start
from holdfast.schedule.plans import too_late
from holdfast.schedule.starting import Starter
from holdfast.store.contract import Store

PAGE = 500


@dataclass(frozen=True, slots=True)
class StillOpen:
    """The scopes in which a plan waits, and whether any plan still fails to start."""

    waiting: frozenset[str] = frozenset()
    failed: bool = False


class Retrying:
    def __init__(self, store: Store, schedule: Schedule, starter: Starter, book: Book) -> None:
        self._store = store
        self._schedule = schedule
        self._starter = starter
        self._book = book
        self._waiting: set[str] = set()

    async def run(self) -> StillOpen:
        after: tuple[datetime, str] | None = None
        verbs = self._store.schedules
        while page := await verbs.failed_plans(self._schedule.name, PAGE, after):
            after = page[-1].at, page[-1].scope
            await self._try(page)
            if len(page) < PAGE:
                break
        return StillOpen(frozenset(self._waiting), self._book.failed)

    async def _try(self, page: Sequence[LedgerEntry]) -> None:
        now = await self._store.now()
        live = await self._unfinished(page)
        for entry in page:
            row = self._decided(entry, now, live.setdefault(entry.scope, []))
            if row is None or await self._book.write([row]):
                self._waiting.add(entry.scope)
            elif row.job is not None:
                live[entry.scope].append(row.job.id)

    async def _unfinished(self, page: Sequence[LedgerEntry]) -> dict[str, list[JobId]]:
        if self._schedule.definition.overlap is Overlap.ALLOW:
            return {}
        scopes = list(dict.fromkeys(entry.scope for entry in page))
        found = await self._store.schedules.unfinished(self._schedule.name, scopes)
        return {scope: [job.id for job in jobs] for scope, jobs in found.items()}

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
