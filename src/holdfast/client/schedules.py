"""The verbs on schedules: `client.schedules.pause("nightly")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from holdfast.client.acting import Acts, OpenAct, SilentAct
from holdfast.client.selection import LONGEST_TEXT, OnProgress
from holdfast.errors import BadOption, Refused, UnknownSchedule
from holdfast.insights.actions import Noun, Verb
from holdfast.job import checks
from holdfast.job.checks import NAME, check_name
from holdfast.job.ids import JobId
from holdfast.operations.rows import NameVerb
from holdfast.operations.verbs import NAME_VERBS
from holdfast.schedule.backfill import Backfill, BackfillReport
from holdfast.schedule.checking import checked
from holdfast.schedule.definition import zone_name
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

    def __init__(
        self, store: Store, providers: Providers | None = None, acts: Acts | None = None
    ) -> None:
        self._store = store
        self._providers = providers or Providers()
        self._acts = acts or Acts()

    async def all(self, *names: str) -> list[Schedule]:
        """Every schedule by name, or only the schedules named."""
        return await self._store.schedules.find(names)

    async def get(self, name: str) -> Schedule:
        """One schedule; raises `UnknownSchedule` if the store has none of this name."""
        found = await self._store.schedules.find([_known(name)])
        if not found:
            raise UnknownSchedule(name)
        return found[0]

    async def create(self, name: str, definition: Definition, *, by: str | None = None) -> Schedule:
        """Add a schedule at run time: `create("nightly", task.scheduled("0 3 * * *"))`. A worker
        whose code declares a schedule of this name does not overwrite it."""
        check_name("schedule name", name)
        good = checked(definition)
        facts = _shown({"task": good.task, **msgspec.to_builtins(good.rule)})
        async with self._act(by, Verb.CREATE, name, facts) as act:
            if not await self._store.schedules.put(name, good, 0):
                raise Refused(
                    f"schedule {name!r} is there already: edit it, or choose another name"
                )
            act.changed = 1
        return await self.get(name)

    async def edit(self, /, name: str, *, by: str | None = None, **changes: Any) -> Schedule:
        """Change some fields of a schedule or of its rule. From now on a worker does not replace
        the schedule by what its code declares.

        A changed rule counts from this moment: plans that it would have had before are not made
        up for.
        """
        async with self._act(by, Verb.EDIT, name, _shown(changes)) as act:
            await self._edit(name, changes)
            act.changed = 1
        return await self.get(name)

    async def _edit(self, name: str, changes: dict[str, Any]) -> None:
        for _ in range(EDITS):
            found = await self.get(name)
            if not found.definition.task:
                raise Refused(f"schedule {name!r} is {found.definition.rule.cron}: upgrade first")
            edited = checked(_changed(found.definition, changes))
            if await self._store.schedules.put(name, edited, found.revision):
                return
        raise Refused(f"schedule {name!r} is being changed by somebody else: try again")

    async def apply(self, row: NameVerb, name: str, *, by: str | None = None) -> None:
        """Apply a verb of the table to one schedule."""
        async with self._act(by, row.verb, _known(name)) as act:
            if not await row.change(self._store, [name]):
                raise UnknownSchedule(name)
            act.changed = 1

    async def pause(self, name: str, *, by: str | None = None) -> None:
        """Record plans that come due from now on as skipped, instead of firing them."""
        await self.apply(NAME_VERBS[Noun.SCHEDULES, Verb.PAUSE], name, by=by)

    async def resume(self, name: str, *, by: str | None = None) -> None:
        """Let plans fire again. Plans of the pause are not made up for; `backfill` fires them."""
        await self.apply(NAME_VERBS[Noun.SCHEDULES, Verb.RESUME], name, by=by)

    async def delete(self, name: str, *, by: str | None = None) -> None:
        """Remove a schedule and its ledger; jobs that it started stay. A schedule that code
        declares comes back with the next worker that starts: pause such a schedule instead."""
        await self.apply(NAME_VERBS[Noun.SCHEDULES, Verb.DELETE], name, by=by)

    async def trigger(self, name: str, scope: str = NO_SCOPE, *, by: str | None = None) -> JobId:
        """Start a job of the schedule now, whatever its rule and its overlap say; also while it
        is paused."""
        async with self._act(by, Verb.TRIGGER, name, scope or None) as act:
            job_id = await self._trigger(name, scope)
            act.changed = 1
        return job_id

    async def _trigger(self, name: str, scope: str) -> JobId:
        found = await self.get(name)
        if found.definition.scopes is not None and scope == NO_SCOPE:
            raise BadOption("scope", f"one of provider {found.definition.scopes!r}", scope)
        at = await self._store.now()
        starter = PlanJobs(name, found.definition)
        for _ in range(EDITS):
            job = starter.job(scope, at)
            why = "triggered by hand"
            row = Plan(name, scope, at, Decision.FIRED, why, job, moves_cursor=False)
            if all(await self._store.schedules.record([row])):
                return job.id
            at += MICRO  # somebody else triggered it in the same microsecond
        raise UnknownSchedule(name)

    async def preview(
        self,
        name: str,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        limit: int = 100,
    ) -> list[Previewed]:
        """The plans of the schedule's rule between two times, in UTC and in local time, with what
        a change of clocks does to them. Without times, the next plans."""
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
        most = checks.count("limit", limit)
        if before is not None:
            before = checks.moment("before", before)
        if scope is not None and scope != NO_SCOPE:
            checks.text("scope", scope, LONGEST_TEXT)
        return await self._store.schedules.history(name, scope=scope, limit=most, before=before)

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
        by: str | None = None,
    ) -> BackfillReport:
        """Fire the plans from `since` to `until` that have not fired: plans that were missed,
        skipped or coalesced, and plans from before the schedule existed. The oldest fire first,
        at most `cap` of them; a second call goes on. `on_progress(done, planned)` is called on
        the way.

        Plans of a time whose ledger rows were pruned (`keep`) may have fired. They are left out
        and the report says so; with `forgotten=True` they fire, perhaps for the second time."""
        bounds = {"since": since, "until": until, "scopes": scopes, "cap": cap}
        who, facts = None if dry_run else by, {**bounds, "forgotten": forgotten}
        async with self._act(who, Verb.BACKFILL, name, _shown(facts), long=True) as act:
            found = await self.get(name)
            end = min(until, await self._store.now())
            work = Backfill(
                self._store, self._providers, found, since, end, scopes, cap, forgotten=forgotten
            )
            report = await work.run(dry_run=dry_run, on_progress=on_progress)
            act.changed = report.fired
        return report

    def _act(
        self, by: str | None, verb: Verb, name: str, value: object = None, *, long: bool = False
    ) -> OpenAct | SilentAct:
        return self._acts.act(self._store, by, Noun.SCHEDULES, verb, name, value=value, long=long)


def _known(name: Any) -> str:
    """The name of a schedule to look for. What no schedule can be called is unknown to every
    store, whether or not the store could compare with it."""
    if isinstance(name, str) and NAME.match(name):
        return name
    raise UnknownSchedule(name)


def _shown(facts: Mapping[str, Any]) -> dict[str, object]:
    """What the audit shows of these facts. Arguments and headers may hold secrets, so they are
    shown by their names alone."""
    return {name: _fact(name, value) for name, value in facts.items() if value is not None}


def _fact(name: str, value: object) -> object:
    if name in ("args", "headers"):
        return sorted(map(str, value)) if isinstance(value, Mapping) else "given"
    return value if isinstance(value, bool | int | float | str | list) else str(value)


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
        case datetime() if value.tzinfo is None:
            raise BadOption("schedule setting", "a datetime with a time zone", value)
        case datetime():
            return value.astimezone(UTC)
        case ZoneInfo():
            return zone_name(value)
        case Mapping():
            return msgspec.json.encode(dict(value)).decode()
        case _:
            return value
