"""One evaluation of one schedule: scopes → cursors → due plans → overlap → ledger.

Any replica may evaluate any schedule at any moment, several replicas at once. The ledger's rows are
unique: if two replicas decide the same plan, one writes it and the other finds it written. An
evaluation needs nothing that another replica remembers. It reads the store's clock anew for each
batch of scopes, so a slow batch does not make later decisions old.

A schedule with scopes also has a cursor for the empty scope: all scopes have been evaluated up to
that time. Replicas use it to skip a pass over all scopes, and to tell a new scope (nothing before
that time is due) from a scope that was not evaluated yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.job.ids import JobId
from holdfast.schedule.catch_up import Due, Pause, due_plans
from holdfast.schedule.ledger import LedgerWriter
from holdfast.schedule.model import NO_SCOPE, Schedule
from holdfast.schedule.overlap import OverlapDecider
from holdfast.schedule.providers import Providers
from holdfast.schedule.retrying import Place, Retrying, StillOpen
from holdfast.schedule.rule import Listed, shift_of
from holdfast.schedule.status import newest_due, next_plan_due, undecided_for
from holdfast.store.contract.store import Store

DECISION_ROUNDS = 3
"""How often one evaluation decides again about scopes whose jobs change meanwhile."""
SCOPES_PER_TURN = 20
"""Scopes with plans of their own that are computed before other tasks of the loop get a turn."""
MISSING_CODE_SECONDS = 30.0
"""How long a plan whose code this program lacks is left to other programs. Then the schedule shows
that nobody has the code."""


class Evaluated(msgspec.Struct, frozen=True):
    """What one evaluation found: when the next plan is due, and why to evaluate before that.

    `more`: the cap left due plans behind. `failed`, `waiting`: plans that could not be started
    yet. `lacks_code`: the schedule needs code that this program does not have.
    """

    next_due: datetime | None
    now: datetime
    recorded: int = 0
    more: bool = False
    failed: bool = False
    waiting: bool = False
    lacks_code: bool = False


class Evaluation:
    """`batches` bounds how many batches of all evaluations use the store at once. `tried_up_to`
    says after which open plan to go on trying open plans; it is there for the next evaluation when
    this one has ended."""

    def __init__(
        self,
        store: Store,
        events: Events,
        providers: Providers,
        batches: asyncio.Semaphore,
        schedule: Schedule,
        tried_up_to: Place | None = None,
    ) -> None:
        self.tried_up_to = tried_up_to
        self._store = store
        self._events = events
        self._providers = providers
        self._batches = batches
        self._schedule = schedule
        self._name, self._definition = schedule.name, schedule.definition
        self._ledger = LedgerWriter(store)
        self._patience = providers.patience()
        self._more = False
        self._now: datetime | None = None
        self._waiting: frozenset[str] = frozenset()

    async def run(self) -> Evaluated:
        """Only an outage of the store is raised. Any other error is shown on the schedule, and the
        answer says that the evaluation failed."""
        try:
            evaluated = await self._evaluate()
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this schedule alone
            return await self._fail(error)
        if evaluated.lacks_code:
            await self._show_missing_code(evaluated.now)
        else:
            await self._show_error(None)
        return evaluated

    async def _evaluate(self) -> Evaluated:
        chosen = self._definition
        if self._providers.missing(chosen.scopes, chosen.planner):
            now = await self._store.now()
            return Evaluated(next_plan_due(self._schedule, now), now, lacks_code=True)
        still_open = await self._retry()
        self._waiting = still_open.waiting
        if chosen.scopes is None:
            await self._batch([NO_SCOPE], None)
        else:
            await self._all_scopes(chosen.scopes)
        if self._ledger.error is not None:
            raise self._ledger.error
        now = self._now or await self._store.now()
        return Evaluated(
            next_plan_due(self._schedule, now),
            now,
            self._ledger.written,
            self._more,
            still_open.failed or self._ledger.failed,
            bool(still_open.waiting) or self._ledger.waiting,
        )

    @cached_property
    def _decider(self) -> OverlapDecider:
        """Made on first use: the stored arguments may be unreadable, which `run` has to catch."""
        return OverlapDecider(self._store, self._schedule)

    async def _read_clock(self) -> datetime:
        """The store's current time. The first reading of an evaluation is kept for `next_due`: a
        plan that becomes due during a long evaluation was not seen by the scopes before it."""
        now = await self._store.now()
        self._now = self._now or now
        return now

    async def _retry(self) -> StillOpen:
        """Open plans do not start during a pause."""
        if self._schedule.paused:
            return StillOpen()
        behind, self.tried_up_to = self.tried_up_to, None
        work = Retrying(self._store, self._schedule, self._decider, self._ledger, behind)
        async with self._batches:
            still_open = await work.run()
        self.tried_up_to = still_open.tried_up_to
        return still_open

    # Scopes ------------------------------------------------------------------------------

    async def _all_scopes(self, provider: str) -> None:
        """`done` is the cursor of the empty scope. It moves on only if every due plan of every
        scope has a row."""
        now = await self._read_clock()
        done = (await self._store.schedules.cursors(self._name, [NO_SCOPE])).get(NO_SCOPE)
        newest = newest_due(self._schedule, now)
        if newest is None or (done is not None and newest <= done):
            return
        seen = False
        async for page in self._providers.pages(provider):
            seen = True
            await self._batch(page, done)
        if not seen:
            await self._batch([NO_SCOPE], done)
        if not self._more and self._ledger.error is None:
            horizon = now - shift_of(self._definition.rule, self._name)
            await self._store.schedules.advance(self._name, NO_SCOPE, horizon)

    async def _batch(self, scopes: Sequence[str], done: datetime | None) -> None:
        """Decide and write the due plans of some scopes. The store refuses rows whose scope has
        other unfinished jobs by then, and they are decided again. If that goes on, the next
        evaluation continues."""
        decided_on: dict[str, list[JobId]] = {}
        for _ in range(DECISION_ROUNDS):
            scopes = await self._round(scopes, done, decided_on)
            if not scopes:
                return
        self._more = True

    async def _round(
        self, scopes: Sequence[str], done: datetime | None, decided_on: dict[str, list[JobId]]
    ) -> list[str]:
        """Returns the scopes of refused rows."""
        async with self._batches:
            now = await self._read_clock()
            cursors = await self._store.schedules.cursors(self._name, scopes)
        lasts = {scope: _later(cursors.get(scope), done) for scope in scopes}
        due = await self._due(lasts, now)
        self._more = self._more or any(each.more for each in due.values())
        async with self._batches:
            rows = await self._decider.rows(due, self._waiting, decided_on)
            refused = await self._ledger.write(rows)
        return list({plan.scope: None for plan in refused})

    # Due plans ---------------------------------------------------------------------------

    async def _due(self, lasts: dict[str, datetime | None], now: datetime) -> dict[str, Due]:
        """The due plans of each scope that has any. Scopes with the same cursor have the same
        plans, so most scopes share one computation."""
        found: dict[str, Due] = {}
        known: dict[datetime | None, Due] = {}
        for scope, last in lasts.items():
            if len(known) % SCOPES_PER_TURN == SCOPES_PER_TURN - 1:
                await asyncio.sleep(0)
            if self._definition.planner is not None:
                due = await self._due_of_planner(self._definition.planner, scope, last, now)
            elif last in known:
                due = known[last]
            else:
                due = known[last] = self._due_of_rule(last, now)
            if due.plans:
                found[scope] = due
        return found

    def _due_of_rule(
        self, last: datetime | None, now: datetime, times: Listed | None = None
    ) -> Due:
        schedule = self._schedule
        since, until = schedule.paused_at, None if schedule.paused else schedule.resumed_at
        return due_plans(
            self._definition,
            self._name,
            last,
            schedule.counts_from,
            now,
            pause=None if since is None else Pause(since, until),
            times=times,
        )

    async def _due_of_planner(
        self, planner: str, scope: str, last: datetime | None, now: datetime
    ) -> Due:
        """A planner that fails for one scope does not concern the others. The evaluation ends with
        its error, and the cursor of all scopes stays where it is."""
        since = self._schedule.counts_from
        after = since if last is None else max(last, since)
        try:
            self._patience.check(planner)
            moments = await self._providers.plan_times(planner, scope, after, now)
            return self._due_of_rule(last, now, Listed(moments))
        except Exception as error:  # noqa: BLE001 - a user's code; raised when all is written
            self._ledger.blame(error)
            return Due()

    # Trouble -----------------------------------------------------------------------------

    async def _fail(self, error: Exception) -> Evaluated:
        shown = f"{type(error).__name__}: {error}"
        self._events.error("schedule.evaluation_failed", schedule=self._name, error=shown)
        await self._show_error(shown)
        return Evaluated(None, await self._store.now(), failed=True)

    async def _show_missing_code(self, now: datetime) -> None:
        """Another program may have the code that this one lacks. If no program decides the plans,
        the schedule shows it."""
        cursors = await self._store.schedules.cursors(self._name, [NO_SCOPE])
        undecided = undecided_for(self._schedule, cursors.get(NO_SCOPE), now)
        if undecided >= timedelta(seconds=MISSING_CODE_SECONDS):
            chosen = self._definition
            missing = " and ".join(self._providers.missing(chosen.scopes, chosen.planner))
            await self._show_error(f"no live worker has {missing} in its code")

    async def _show_error(self, error: str | None) -> None:
        if self._schedule.error != error:
            await self._store.schedules.complain(self._name, error)


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(filter(None, (one, other)), default=None)
