"""Attention to one schedule: a look, what it says about the next, and any trouble shown on it."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from holdfast.background.backoff import Backoff
from holdfast.errors import StoreUnavailable
from holdfast.events import Events
from holdfast.schedule.evaluation import Looked, Looker
from holdfast.schedule.model import NO_SCOPE, Schedule
from holdfast.schedule.providers import Providers
from holdfast.schedule.status import undecided_for
from holdfast.store.contract.store import Store

SOON = 1.0
LONGEST_RETRY = 60.0
REST, LONGEST_REST = 9.0, 300.0
"""A look that failed rests nine times as long as it took: it has at most a tenth of the time."""
OVERDUE = 30.0
"""Seconds after which a schedule whose code nobody has complains about it."""


class Entry:
    """What is remembered of one schedule: nothing that a fresh replica would miss."""

    __slots__ = ("backoff", "busy", "due", "schedule", "took")

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.due: datetime | None = None
        self.busy = False
        self.took = 0.0
        self.backoff = Backoff(first=SOON, cap=LONGEST_RETRY)

    @property
    def name(self) -> str:
        return self.schedule.name


class Attention:
    """Looks at schedules one by one, each in isolation."""

    def __init__(self, store: Store, events: Events, providers: Providers) -> None:
        self._store = store
        self._events = events
        self._providers = providers
        self._looker = Looker(store, providers)

    async def look(self, entry: Entry) -> Looked | None:
        """One look by the definition as it is now, so that a pause or an edit counts from its
        moment on; None if the schedule is gone. Only an outage of the store is raised:
        any other error is shown on the schedule and answered as a look that failed."""
        found = await self._store.schedules.list([entry.name])
        if not found:
            return None
        entry.schedule = found[0]
        begun = time.monotonic()
        try:
            looked = await self._looker.look(found[0])
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this schedule's alone
            return await self._trouble(found[0], error)
        finally:
            entry.took = time.monotonic() - begun
        if looked.unknown:
            await self._nobody_knows(found[0], looked.now)
        else:
            await self._complain(found[0], None)
        return looked

    def next_look(self, entry: Entry, looked: Looked) -> datetime | None:
        """When to look again; trouble is looked at later each time."""
        waits = []
        if looked.failed:
            rest = min(REST * entry.took, LONGEST_REST)
            waits.append(max(entry.backoff.next(), rest))
        else:
            entry.backoff.reset()
        if looked.waiting or looked.more:
            waits.append(SOON)
        if looked.unknown:
            waits.append(OVERDUE + SOON)
        times = [looked.now + timedelta(seconds=wait) for wait in waits]
        return min([*times, *filter(None, [looked.next_due])], default=None)

    async def _trouble(self, schedule: Schedule, error: Exception) -> Looked:
        told = f"{type(error).__name__}: {error}"
        self._events.error("schedule.look_failed", schedule=schedule.name, error=told)
        await self._complain(schedule, told)
        return Looked(None, await self._store.now(), failed=True)

    async def _nobody_knows(self, schedule: Schedule, now: datetime) -> None:
        """Code that this program lacks another may have; if none has, it shows."""
        chosen = schedule.definition
        cursors = await self._store.schedules.cursors(schedule.name, [NO_SCOPE])
        if undecided_for(schedule, cursors.get(NO_SCOPE), now) < timedelta(seconds=OVERDUE):
            return
        missing = [
            f"{kind} {name!r}"
            for kind, name, known in (
                ("scope provider", chosen.scopes, self._providers.scopes),
                ("planner", chosen.planner, self._providers.planners),
            )
            if name is not None and name not in known
        ]
        await self._complain(schedule, f"no live worker has {' and '.join(missing)} in its code")

    async def _complain(self, schedule: Schedule, told: str | None) -> None:
        if schedule.error != told:
            await self._store.schedules.complain(schedule.name, told)
