"""Backfill: fires plans of the past that did not fire, also from before the schedule existed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from holdfast.errors import BadOption
from holdfast.schedule.catch_up import Outside
from holdfast.schedule.model import NO_SCOPE, Decision, Plan, Schedule
from holdfast.schedule.plan_job import PlanJobs
from holdfast.schedule.providers import Providers
from holdfast.schedule.rule import Times, between, times_of
from holdfast.schedule.zone import MICRO
from holdfast.store.contract.store import Store

BACKFILL_BATCH = 200
HISTORY_PAGE = 2_000
MOST_BACKFILLED = 100_000


class BackfillReport(msgspec.Struct, frozen=True):
    """What a backfill found and did; with a dry run, what it would do.

    `capped`: there are more plans than the cap, and a second call continues. Plans from
    `forgotten_from` to `forgotten_until` were left out: ledger rows of that time were pruned, so
    nobody knows which of these plans fired.
    """

    planned: int
    fired: int
    capped: bool
    dry_run: bool
    first: datetime | None = None
    last: datetime | None = None
    forgotten_from: datetime | None = None
    forgotten_until: datetime | None = None


class Backfill:
    """One backfill: fires the plans that have not fired, oldest first over all scopes."""

    def __init__(
        self,
        store: Store,
        providers: Providers,
        schedule: Schedule,
        since: datetime,
        until: datetime,
        scopes: Sequence[str] | None,
        cap: int,
        *,
        forgotten: bool = False,
    ) -> None:
        if since.tzinfo is None or until.tzinfo is None:
            raise BadOption("since and until", "datetimes with a time zone", "naive ones")
        if not 1 <= cap <= MOST_BACKFILLED:
            raise BadOption("cap", f"from 1 to {MOST_BACKFILLED}", cap)
        self._store = store
        self._providers = providers
        self._schedule = schedule
        self._since, self._until = since.astimezone(UTC), until.astimezone(UTC)
        self._scopes = scopes
        self._cap = cap
        self._forgotten = forgotten
        self._left_out: tuple[datetime, datetime] | None = None

    async def run(
        self, *, dry_run: bool, on_progress: Callable[[int, int], None] | None
    ) -> BackfillReport:
        scopes = await self._all_scopes()
        missing, capped = await self._missing(scopes)
        if dry_run:
            return self._report(missing, 0, capped, dry_run)
        plan_jobs = PlanJobs(self._schedule.name, self._schedule.definition)
        fired = done = 0
        for start in range(0, len(missing), BACKFILL_BATCH):
            batch = missing[start : start + BACKFILL_BATCH]
            rows = [self._row(plan_jobs, at, scope) for at, scope in batch]
            fired += sum(await self._store.schedules.record(rows))
            done += len(batch)
            if on_progress is not None:
                on_progress(done, len(missing))
        return self._report(missing, fired, capped, dry_run)

    def _report(
        self, missing: Sequence[tuple[datetime, str]], fired: int, capped: bool, dry_run: bool
    ) -> BackfillReport:
        first, last = (missing[0][0], missing[-1][0]) if missing else (None, None)
        left_out = self._left_out or (None, None)
        return BackfillReport(len(missing), fired, capped, dry_run, first, last, *left_out)

    async def _all_scopes(self) -> list[str]:
        provider = self._schedule.definition.scopes
        if provider is None or self._scopes is not None:
            return list(self._scopes or [NO_SCOPE])
        if provider not in self._providers.scopes:
            raise BadOption("scopes", f"given: provider {provider!r} is not in this program", None)
        return [scope async for page in self._providers.pages(provider) for scope in page]

    async def _missing(self, scopes: Sequence[str]) -> tuple[list[tuple[datetime, str]], bool]:
        found: list[tuple[datetime, str]] = []
        fired = await self._fired()
        times = await self._known_times()
        for at in between(times, self._since - MICRO, self._until):
            for scope in scopes:
                if (at, scope) in fired:
                    continue
                if len(found) == self._cap:
                    return found, True
                found.append((at, scope))
        return found, False

    async def _known_times(self) -> Times:
        """The plan times of which the ledger knows whether they fired. Which times were pruned is
        read after the rows: a row that is pruned meanwhile is then in one of the two."""
        times = times_of(self._schedule.definition.rule)
        found = await self._store.schedules.find([self._schedule.name])
        since, until = (found[0].pruned_from, found[0].pruned_until) if found else (None, None)
        if self._forgotten or since is None or until is None:
            return times
        if since <= self._until and until >= self._since:
            self._left_out = max(since, self._since), min(until, self._until)
        return Outside(times, since - MICRO, until)

    async def _fired(self) -> set[tuple[datetime, str]]:
        """The plans that fired, read in pages. A page begins with the plan time at which the page
        before ended, because many scopes share one plan time."""
        fired: set[tuple[datetime, str]] = set()
        before, limit = self._until + MICRO, HISTORY_PAGE
        while True:
            page = await self._store.schedules.history(
                self._schedule.name, limit=limit, before=before
            )
            fired |= {(row.at, row.scope) for row in page if row.decision is Decision.FIRED}
            if len(page) < limit or page[-1].at < self._since:
                return fired
            limit = limit * 2 if page[0].at == page[-1].at else limit
            before = page[-1].at + MICRO

    def _row(self, plan_jobs: PlanJobs, at: datetime, scope: str) -> Plan:
        job = plan_jobs.job(scope, at)
        return Plan(
            self._schedule.name,
            scope,
            at,
            Decision.FIRED,
            "backfilled",
            job,
            moves_cursor=False,
        )
