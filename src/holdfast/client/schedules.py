"""The verbs on schedules: `client.schedules.pause("nightly")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from holdfast.client.selection import OnProgress
from holdfast.errors import BadOption, Refused, UnknownSchedule
from holdfast.job.checks import check_name
from holdfast.job.ids import JobId
from holdfast.schedule.backfill import Backfill, BackfillReport
from holdfast.schedule.definition import checked, zone_name
from holdfast.schedule.model import (
    NO_SCOPE,
    Decision,
    Definition,
    LedgerEntry,
    Plan,
    Rule,
    Schedule,
)
from holdfast.schedule.plan_job import PlanJobs
from holdfast.schedule.preview import Previewed, preview
from holdfast.schedule.providers import Providers
from holdfast.store.contract.store import Store

EDITS = 10
MICRO = timedelta(microseconds=1)


class ScheduleVerbs:
    """Create, change, question and run schedules."""

    def __init__(self, store: Store, providers: Providers) -> None:
        self._store = store
        self._providers = providers

    async def all(self, *names: str) -> list[Schedule]:
        """Every schedule by name, or only the schedules named."""
        return await self._store.schedules.list(names)

    async def get(self, name: str) -> Schedule:
        found = await self._store.schedules.list([name])
        if not found:
            raise UnknownSchedule(name)
        return found[0]

    async def create(self, name: str, definition: Definition) -> Schedule:
        """Add a schedule at run time: `create("nightly", task.scheduled("0 3 * * *"))`.
        Code never overwrites it."""
        check_name("schedule name", name)
        good = checked(definition)
        if not await self._store.schedules.put(name, good, 0):
            raise Refused(f"schedule {name!r} is there already: edit it, or choose another name")
        return await self.get(name)

    async def edit(self, name: str, **changes: Any) -> Schedule:
        """Change some fields of a schedule or of its rule; from now on code leaves it alone.

        A rule that becomes another counts from this moment: what it would have planned before
        is not made up for.
        """
        for _ in range(EDITS):
            found = await self.get(name)
            if not found.definition.task:
                raise Refused(f"schedule {name!r} is {found.definition.rule.cron}: upgrade first")
            edited = checked(_changed(found.definition, changes))
            if await self._store.schedules.put(name, edited, found.revision):
                return await self.get(name)
        raise Refused(f"schedule {name!r} is being changed by somebody else: try again")

    async def pause(self, name: str) -> None:
        """Plans that come due from now on are recorded as skipped."""
        if not await self._store.schedules.pause([name]):
            raise UnknownSchedule(name)

    async def resume(self, name: str) -> None:
        """Let plans fire again; those of the pause are not made up for (`backfill` does)."""
        if not await self._store.schedules.resume([name]):
            raise UnknownSchedule(name)

    async def delete(self, name: str) -> None:
        """Remove a schedule and its ledger; jobs it started stay. One that code declares comes
        back with the next worker that starts: pause that one instead."""
        if not await self._store.schedules.delete([name]):
            raise UnknownSchedule(name)

    async def trigger(self, name: str, scope: str = NO_SCOPE) -> JobId:
        """Start a job of it now, whatever its rule and its overlap say; also while paused."""
        found = await self.get(name)
        if found.definition.scopes is not None and scope == NO_SCOPE:
            raise BadOption("scope", f"one of provider {found.definition.scopes!r}", scope)
        at = await self._store.now()
        starter = PlanJobs(name, found.definition)
        for _ in range(EDITS):
            job = starter.job(scope, at)
            told = "triggered by hand"
            row = Plan(name, scope, at, Decision.FIRED, told, job, moves_cursor=False)
            if all(await self._store.schedules.record([row])):
                return job.id
            at += MICRO  # another was triggered in the same instant
        raise UnknownSchedule(name)

    async def preview(
        self,
        name: str,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        limit: int = 100,
    ) -> list[Previewed]:
        """The plans of its rule between two times, in UTC and on the wall, with what the change
        of clocks does to them. By default the next ones."""
        found = await self.get(name)
        start = since or await self._store.now()
        return preview(found.definition.rule, name, start, until, limit)

    async def history(
        self,
        name: str,
        *,
        scope: str | None = None,
        limit: int = 50,
        before: datetime | None = None,
    ) -> list[LedgerEntry]:
        """What was decided about each plan and what became of its job, newest first."""
        await self.get(name)
        return await self._store.schedules.history(name, scope=scope, limit=limit, before=before)

    async def backfill(
        self,
        name: str,
        since: datetime,
        until: datetime,
        *,
        scopes: Sequence[str] | None = None,
        cap: int = 1_000,
        forgotten: bool = False,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> BackfillReport:
        """Fire the plans from `since` to `until` that have not fired: those that were missed,
        skipped or coalesced, and those from before the schedule was there. Oldest first, at most
        `cap`; a second call goes on. `on_progress(done, planned)` shows progress.

        Plans of a time whose ledger rows were pruned (`keep`) may have fired. They are left out
        and the report says so; with `forgotten=True` they fire, perhaps for the second time."""
        found = await self.get(name)
        now = await self._store.now()
        end = min(until, now)
        work = Backfill(
            self._store, self._providers, found, since, end, scopes, cap, forgotten=forgotten
        )
        return await work.run(dry_run=dry_run, told=on_progress)


def _changed(definition: Definition, changes: dict[str, Any]) -> Definition:
    of_rule = {key: value for key, value in changes.items() if key in Rule.__struct_fields__}
    if "cron" in of_rule and "every" not in of_rule:
        of_rule["every"] = None
    if "every" in of_rule and "cron" not in of_rule:
        of_rule["cron"] = None
        of_rule.setdefault("timezone", "UTC")
    rest = {key: value for key, value in changes.items() if key not in of_rule}
    known = [*Definition.__struct_fields__, *Rule.__struct_fields__]
    for unknown in set(rest) - set(known) | ({"rule"} & set(rest)):
        raise BadOption("schedule setting", f"one of {', '.join(known[1:])}", unknown)
    plain = msgspec.to_builtins(msgspec.structs.replace(definition, **_plain(rest)))
    rule = msgspec.to_builtins(definition.rule) | _plain(of_rule)
    try:
        return msgspec.convert(plain | {"rule": rule}, Definition)
    except msgspec.ValidationError as error:
        raise BadOption("schedule setting", f"of the right type ({error})", changes) from None


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {key: _stored(value) for key, value in values.items()}


def _stored(value: Any) -> Any:
    """Times as seconds, moments in UTC, zones by name, arguments and headers as JSON."""
    match value:
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.astimezone(UTC)
        case ZoneInfo():
            return zone_name(value)
        case Mapping():
            return msgspec.json.encode(dict(value)).decode()
        case _:
            return value
