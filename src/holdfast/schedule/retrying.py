"""Tries open plans again: those that could not be started, and those that wait for another.

Open plans are read oldest first, page by page to the last one, so that neither a newer plan nor a
plan that always fails keeps an older one from its start. One evaluation writes a bounded number of
them; the next evaluation continues behind the last plan that was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from holdfast.job.ids import JobId
from holdfast.schedule.catch_up import too_late
from holdfast.schedule.ledger import LedgerWriter
from holdfast.schedule.model import Decision, Definition, LedgerEntry, Overlap, Plan, Schedule
from holdfast.schedule.overlap import OverlapDecider, OverlapDecision, decide_overlap
from holdfast.store.contract.store import Store

OPEN_PLANS_PAGE = 500
TRIES_PER_EVALUATION = 500
Place = tuple[datetime, str]
"""The plan time and scope of an open plan: open plans are read in this order."""


class StillOpen(msgspec.Struct, frozen=True):
    """What the tries left open: the scopes in which a plan waits, and whether any plan still fails
    to start. `tried_up_to` is set if there were more plans than one evaluation may try."""

    waiting: frozenset[str] = frozenset()
    failed: bool = False
    tried_up_to: Place | None = None


class Retrying:
    """One pass over the open plans of one schedule. `behind` is where the last pass ended."""

    def __init__(
        self,
        store: Store,
        schedule: Schedule,
        decider: OverlapDecider,
        ledger: LedgerWriter,
        behind: Place | None = None,
    ) -> None:
        self._store = store
        self._schedule = schedule
        self._decider = decider
        self._ledger = ledger
        self._waiting: set[str] = set()
        self._behind = behind
        self._tried: Place | None = None
        self._tries = 0

    async def run(self) -> StillOpen:
        after: Place | None = None
        verbs = self._store.schedules
        while page := await verbs.failed_plans(self._schedule.name, OPEN_PLANS_PAGE, after):
            after = page[-1].at, page[-1].scope
            await self._try(page)
            if len(page) < OPEN_PLANS_PAGE:
                break
        tried_up_to = self._tried if self._tries == TRIES_PER_EVALUATION else None
        return StillOpen(frozenset(self._waiting), self._ledger.failed, tried_up_to)

    async def _try(self, page: Sequence[LedgerEntry]) -> None:
        now = await self._store.now()
        scopes = list(dict.fromkeys(entry.scope for entry in page))
        live = await self._decider.unfinished(scopes)
        for entry in page:
            if not self._has_its_turn(entry):
                self._stays(entry)
                continue
            row = self._decide(entry, now, live.setdefault(entry.scope, []))
            if row is None:
                self._waiting.add(entry.scope)
            elif await self._write(row) and row.job is not None:
                live[entry.scope].append(row.job.id)

    def _has_its_turn(self, entry: LedgerEntry) -> bool:
        passed = self._behind is not None and (entry.at, entry.scope) <= self._behind
        return not passed and self._tries < TRIES_PER_EVALUATION

    async def _write(self, row: Plan) -> bool:
        """Whether the row was written. A refused row leaves its plan waiting."""
        self._tries += 1
        self._tried = row.at, row.scope
        before = self._ledger.written
        if await self._ledger.write([row]):
            self._waiting.add(row.scope)
        return self._ledger.written > before

    def _stays(self, entry: LedgerEntry) -> None:
        if entry.decision is Decision.WAITING:
            self._waiting.add(entry.scope)
        else:
            self._ledger.failed = True

    def _decide(self, entry: LedgerEntry, now: datetime, live: list[JobId]) -> Plan | None:
        """The row that replaces the open one; None if the plan stays open."""
        chosen, name = self._schedule.definition, self._schedule.name
        late = too_late(chosen, name, entry.at, now) or _given_up(chosen, entry, now)
        if late is not None:
            missed = OverlapDecision(Decision.MISSED, f"{late}: {entry.reason}")
            return self._decider.row(entry.scope, entry.at, missed)
        decided = decide_overlap(chosen.overlap, live, entry.scope in self._waiting)
        if decided.decision is Decision.WAITING:
            return None
        beside = None if chosen.overlap is Overlap.ALLOW else tuple(live)
        return self._decider.row(entry.scope, entry.at, decided, beside)


def _given_up(chosen: Definition, entry: LedgerEntry, now: datetime) -> str | None:
    """Why a failed plan is tried no more, or None. Its limit is the time for which its row would
    be kept: without a limit, a plan that can never start would be tried at every evaluation for
    ever."""
    limit = max(chosen.keep, chosen.window)
    if entry.decision is not Decision.FAILED or now - entry.at <= timedelta(seconds=limit):
        return None
    return f"could not be started for {limit:g} s"
