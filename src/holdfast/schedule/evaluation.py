"""One look at one schedule: scopes → cursors → plans → overlap → record.

Any replica may look at any schedule at any moment, several at once: the ledger's rows are unique,
so of two that decide the same plan one writes it and the other finds it written. Nothing that
another replica would miss is remembered between looks, and the store's clock is read anew for each
batch of scopes, so a slow one makes no later decision old.

A scoped schedule keeps one cursor more, under no scope: up to there a look has gone through all
scopes. It saves the others the way through ten thousand, and tells a scope that is new from one
whose plans nobody has looked at yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from holdfast.job.ids import JobId
from holdfast.schedule.catch_up import Due, Pause, plans
from holdfast.schedule.deciding import Deciding
from holdfast.schedule.ledger import LedgerWriter
from holdfast.schedule.model import NO_SCOPE, Schedule
from holdfast.schedule.plan_job import PlanJobs
from holdfast.schedule.providers import Providers
from holdfast.schedule.retrying import Place, Retrying, StillOpen
from holdfast.schedule.rule import Listed, shift_of, times_of
from holdfast.schedule.zone import MICRO
from holdfast.store.contract.store import Store

AT_ONCE = 4
ROUNDS = 3
BREATH = 20


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look found: when the next plan is due, and whether to look again before that.

    `more`: the cap left due plans behind. `failed`, `waiting`: plans that could not be started
    yet. `unknown`: the schedule needs code that this program does not have.
    """

    next_due: datetime | None
    now: datetime
    recorded: int = 0
    more: bool = False
    failed: bool = False
    waiting: bool = False
    unknown: bool = False


class Looker:
    """Looks at schedules. Batches of all looks take turns at the store, first come first served,
    so that one with ten thousand scopes delays another by a batch and not by all of them."""

    def __init__(self, store: Store, providers: Providers) -> None:
        self._store = store
        self._providers = providers
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tried_up_to: dict[str, Place] = {}

    async def look(self, schedule: Schedule) -> Looked:
        look = _Look(self._store, self._providers, self._turns, schedule, self._tried_up_to)
        return await look.run()


class _Look:
    def __init__(
        self,
        store: Store,
        providers: Providers,
        turns: asyncio.Semaphore,
        schedule: Schedule,
        tried_up_to: dict[str, Place],
    ) -> None:
        self._store = store
        self._providers = providers
        self._turns = turns
        self._tried_up_to = tried_up_to
        self._schedule = schedule
        self._name, self._definition = schedule.name, schedule.definition
        self._starter = PlanJobs(schedule.name, schedule.definition)
        self._deciding = Deciding(store, schedule, self._starter)
        self._book = LedgerWriter(store)
        self._times = times_of(self._definition.rule)
        self._shift = shift_of(self._definition.rule, schedule.name)
        self._more = False
        self._now: datetime | None = None
        self._waiting: frozenset[str] = frozenset()
        self._patience = providers.patience()

    async def run(self) -> Looked:
        chosen = self._definition
        if not self._providers.knows(chosen.scopes, chosen.planner):
            return await self._unknown()
        still_open = await self._retry()
        self._waiting = still_open.waiting
        if chosen.scopes is None:
            await self._batch([NO_SCOPE], None)
        else:
            await self._all_scopes(chosen.scopes)
        if self._book.error is not None:
            raise self._book.error
        now = self._now or await self._store.now()
        return Looked(
            self._next_due(now),
            now,
            self._book.written,
            self._more,
            still_open.failed or self._book.failed,
            bool(still_open.waiting) or self._book.waiting,
        )

    async def _begun(self) -> datetime:
        """The time it is now. The first reading of a look decides when the next plan is due: one
        that comes due on the way is new to those who were looked at before it."""
        now = await self._store.now()
        self._now = self._now or now
        return now

    def _next_due(self, now: datetime) -> datetime | None:
        following = self._times.after(now - self._shift)
        return None if following is None else following + self._shift

    async def _unknown(self) -> Looked:
        now = await self._store.now()
        return Looked(self._next_due(now), now, unknown=True)

    async def _retry(self) -> StillOpen:
        if self._schedule.paused:
            return StillOpen()
        behind = self._tried_up_to.pop(self._name, None)
        work = Retrying(self._store, self._schedule, self._starter, self._book, behind)
        async with self._turns:
            still_open = await work.run()
        if still_open.tried_up_to is not None:
            self._tried_up_to[self._name] = still_open.tried_up_to
        return still_open

    # Scopes ------------------------------------------------------------------------------

    async def _all_scopes(self, provider: str) -> None:
        horizon = await self._begun() - self._shift
        mark = (await self._store.schedules.cursors(self._name, [NO_SCOPE])).get(NO_SCOPE)
        newest = self._times.before(horizon + MICRO)
        if newest is None or newest <= max(filter(None, (mark, self._since - self._shift))):
            return
        seen = False
        async for page in self._providers.pages(provider):
            seen = True
            await self._batch(page, mark)
        if not seen:
            await self._batch([NO_SCOPE], mark)
        if not self._more and not self._book.unwritten:
            await self._store.schedules.advance(self._name, NO_SCOPE, horizon)

    @property
    def _since(self) -> datetime:
        created, changed = self._schedule.created_at, self._schedule.changed_at
        return created if changed is None else max(created, changed)

    # Batches -----------------------------------------------------------------------------

    async def _batch(self, scopes: Sequence[str], mark: datetime | None) -> None:
        """Decisions that rest on what runs are made anew where something else runs by the time
        they are written; where that goes on, the next look goes on with it."""
        based: dict[str, list[JobId]] = {}
        for _ in range(ROUNDS):
            scopes = await self._round(scopes, mark, based)
            if not scopes:
                return
        self._more = True

    async def _round(
        self, scopes: Sequence[str], mark: datetime | None, based: dict[str, list[JobId]]
    ) -> list[str]:
        """Answers the scopes in which plans were refused."""
        async with self._turns:
            now = await self._begun()
            cursors = await self._store.schedules.cursors(self._name, scopes)
        lasts = {scope: _later(cursors.get(scope), mark) for scope in scopes}
        due = await self._due(lasts, now)
        self._more = self._more or any(each.more for each in due.values())
        async with self._turns:
            refused = await self._book.write(await self._deciding.rows(due, self._waiting, based))
        return list({plan.scope: None for plan in refused})

    async def _due(self, lasts: dict[str, datetime | None], now: datetime) -> dict[str, Due]:
        """Scopes with the same cursor have the same plans: most share one computation."""
        found: dict[str, Due] = {}
        known: dict[datetime | None, Due] = {}
        for scope, last in lasts.items():
            if len(known) % BREATH == BREATH - 1:
                await asyncio.sleep(0)  # every scope may have plans of its own
            if self._definition.planner is not None:
                due = await self._planned(self._definition.planner, scope, last, now)
            elif last in known:
                due = known[last]
            else:
                due = known[last] = self._plans(scope, last, now)
            if due.plans:
                found[scope] = due
        return found

    def _plans(
        self, scope: str, last: datetime | None, now: datetime, times: Listed | None = None
    ) -> Due:
        schedule = self._schedule
        since, until = schedule.paused_at, None if schedule.paused else schedule.resumed_at
        return plans(
            self._definition,
            self._name,
            scope,
            last,
            self._since,
            now,
            pause=None if since is None else Pause(since, until),
            times=times,
        )

    async def _planned(self, planner: str, scope: str, last: datetime | None, now: datetime) -> Due:
        """A planner that fails for one scope leaves the others alone; the look then ends with
        its error, and nothing counts as gone through."""
        after = self._since if last is None else max(last, self._since)
        try:
            self._patience.check(planner)
            moments = await self._providers.planned(planner, scope, after, now)
            return self._plans(scope, last, now, Listed(moments))
        except Exception as error:  # noqa: BLE001 - a user's code; told when the look ends
            self._book.blame(error)
            return Due()


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(filter(None, (one, other)), default=None)
