"""`Schedules` on Valkey: a schedule lies in one partition, with its cursors and its ledger.

A hash of its name says which partition that is, so the list of all schedules is merged from the
partitions' hashes. The verbs on the ledger are thin here; `ledger.py` does them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from holdfast.errors import NotCapable
from holdfast.job.record import Live
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.schedule.model import (
    DECLARATION_SECONDS,
    NO_SCOPE,
    Definition,
    LedgerEntry,
    Plan,
    Schedule,
    decode_definition,
    encode_definition,
)
from holdfast.store.valkey.connection import Connections, ValkeyVerbs, batches
from holdfast.store.valkey.inserting import SEVERAL
from holdfast.store.valkey.ledger import Ledger
from holdfast.store.valkey.moments import (
    SECOND,
    finite,
    to_datetime,
    to_micros,
    to_optional_datetime,
)
from holdfast.store.valkey.plan_times import from_instant, home, instant
from holdfast.store.valkey.reading import live_jobs
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.rows import known, to_schedule_row

SCHEDULE_BATCH = 500
SCOPE_BATCH = 500
FORGOTTEN_BATCH = 1_000  # cursors that one advance removes at most


class ValkeySchedules(ValkeyVerbs):
    """See `holdfast.store.contract.schedules.Schedules`."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._ledger = Ledger(connections)

    async def declare(
        self, schedules: Mapping[str, Definition], since: datetime | None = None
    ) -> None:
        for definition in schedules.values():
            self._require_no_limits(definition)
        given = {
            "since": "" if since is None else to_micros(since),
            "counts_for": int(DECLARATION_SECONDS * SECOND),
        }
        for partition, names in self._by_home(schedules).items():
            for some in batches(names, SCHEDULE_BATCH):
                rows = [(name, *_facts(schedules[name])) for name in some]
                await self._connections.call(
                    "schedules/declare", partition, {**given, "declared": rows}
                )

    async def put(self, name: str, definition: Definition, revision: int | None = None) -> bool:
        """With a revision the call is not repeated when the connection is lost: a second try would
        be refused because of the first."""
        self._require_no_limits(definition)
        text, rule, keep = _facts(definition)
        given = {
            "name": name,
            "definition": text,
            "rule": rule,
            "keep": keep,
            "revision": "" if revision is None else revision,
        }
        again = revision is None
        return bool(await self._call("schedules/put", name, again=again, **given))

    def _require_no_limits(self, definition: Definition) -> None:
        """A plan and its job lie where the schedule does, and a job that passes limits where all
        buckets are."""
        if definition.line and self._connections.options.partitions > 1:
            raise NotCapable("valkey", f"let a schedule start jobs that pass limits {SEVERAL}")

    async def pause(self, names: Sequence[str]) -> list[str]:
        return await self._each("schedules/pause", names)

    async def resume(self, names: Sequence[str]) -> list[str]:
        return await self._each("schedules/resume", names)

    async def delete(self, names: Sequence[str]) -> list[str]:
        return await self._each("schedules/delete", names)

    async def cursors(self, name: str, scopes: Sequence[str]) -> dict[str, datetime]:
        key = self._connections.key(home(self._connections, name), f"cursors:{name}")
        found: dict[str, datetime] = {}
        for some in batches(dict.fromkeys(scopes), SCOPE_BATCH):
            answer = await self._connections.command("HMGET", key, *some)
            for scope, at in zip(some, answer, strict=True):
                if at is not None:
                    found[scope] = from_instant(at.decode())
        return found

    async def own_cursors(self) -> dict[str, datetime]:
        answers = await self._connections.everywhere("schedules/own_cursors")
        return {name: from_instant(at.decode()) for one in answers for name, at in paired(one)}

    async def unfinished(self, name: str, scopes: Sequence[str]) -> dict[str, list[Live]]:
        found: dict[str, list[Live]] = {}
        for some in batches(dict.fromkeys(scopes), SCOPE_BATCH):
            answer = await self._call("schedules/unfinished", name, schedule=name, scopes=some)
            ids = [[one.decode() for one in mine] for mine in answer]
            jobs = await live_jobs(self._connections, [one for mine in ids for one in mine])
            live: dict[str, Live] = {job.id: job for job in jobs}
            for scope, mine in zip(some, ids, strict=True):
                if still := [live[one] for one in mine if one in live]:
                    found[scope] = still
        return found

    async def record(self, plans: Sequence[Plan]) -> list[bool]:
        return await self._ledger.record(plans) if plans else []

    async def advance(self, name: str, scope: str, at: datetime) -> None:
        keep = await self._call(
            "schedules/advance", name, schedule=name, scope=scope, at=instant(at)
        )
        if keep is not None and scope == NO_SCOPE:
            with suppress(OverflowError, ValueError):  # kept beyond any calendar
                await self._forget(name, instant(at - timedelta(seconds=float(keep))))

    async def _forget(self, name: str, before: str) -> None:
        """Remove cursors that are older than a time, up to `FORGOTTEN_BATCH` of them."""
        key = self._connections.key(home(self._connections, name), f"cursors:{name}")
        position, old = b"0", list[str]()
        while len(old) < FORGOTTEN_BATCH:
            command = ("HSCAN", key, position, "COUNT", SCOPE_BATCH)
            position, found = await self._connections.command(*command)
            pairs = paired(found)
            old += [scope for scope, at in pairs if scope and at.decode() < before]
            if int(position) == 0:
                break
        for some in batches(old, SCOPE_BATCH):
            await self._call(
                "schedules/forget_cursors", name, schedule=name, before=before, scopes=some
            )

    async def history(
        self,
        name: str,
        *,
        scope: str | None = None,
        limit: int = 50,
        before: datetime | None = None,
    ) -> list[LedgerEntry]:
        return await self._ledger.history(name, scope, limit, before)

    async def failed_plans(
        self, name: str, limit: int, after: tuple[datetime, str] | None = None
    ) -> list[LedgerEntry]:
        return await self._ledger.failed_plans(name, limit, after)

    async def complain(self, name: str, error: str | None) -> None:
        complaint = [] if error is None else [clean(error, MESSAGE_LIMIT)]
        await self._call("schedules/complain", name, name=name, complaint=complaint)

    async def prune_ledger(self, limit: int) -> int:
        return await self._ledger.prune(limit)

    async def find(self, names: Sequence[str] = ()) -> list[Schedule]:
        found = await self._named(names) if names else await self._all()
        return sorted(found, key=lambda schedule: schedule.name)

    async def _all(self) -> list[Schedule]:
        connections = self._connections
        reads = [("HGETALL", connections.key(p, "schedules")) for p in connections.partitions]
        answers = await connections.commands(reads)
        return [_schedule(name, row) for answer in answers for name, row in paired(answer)]

    async def _named(self, names: Sequence[str]) -> list[Schedule]:
        found: list[Schedule] = []
        for partition, mine in self._by_home(names).items():
            key = self._connections.key(partition, "schedules")
            for some in batches(mine, SCHEDULE_BATCH):
                rows = await self._connections.command("HMGET", key, *some)
                found += [
                    _schedule(name, row)
                    for name, row in zip(some, rows, strict=True)
                    if row is not None
                ]
        return found

    async def _call(self, verb: str, name: str, /, *, again: bool = True, **given: object) -> Any:
        partition = home(self._connections, name)
        return await self._connections.call(verb, partition, given, again=again)

    async def _each(self, verb: str, names: Sequence[str]) -> list[str]:
        """Run a verb on chosen schedules; answers the names of those that exist, sorted."""
        found: list[str] = []
        for partition, mine in self._by_home(names).items():
            for some in batches(mine, SCHEDULE_BATCH):
                answer = await self._connections.call(verb, partition, {"chosen": some})
                found += [name.decode() for name in answer]
        return sorted(found)

    def _by_home(self, names: Iterable[str]) -> dict[int, list[str]]:
        """Each name once, by the partition of its schedule."""
        found: dict[int, list[str]] = {}
        for name in dict.fromkeys(names):
            found.setdefault(home(self._connections, name), []).append(name)
        return found


def _facts(definition: Definition) -> tuple[str, str, float | None]:
    rule = encode_definition(definition.rule)
    return encode_definition(definition), rule, finite(definition.keep)


def _schedule(name: str, row: bytes) -> Schedule:
    told = to_schedule_row(row)
    return Schedule(
        name=name,
        definition=decode_definition(told.definition),
        paused=told.paused,
        edited=told.edited,
        revision=told.revision,
        created_at=to_datetime(told.created_at),
        declared_at=to_optional_datetime(told.declared_at),
        error=known(told.complaint),
        error_at=to_optional_datetime(told.complaint_at),
        paused_at=to_optional_datetime(told.paused_at),
        resumed_at=to_optional_datetime(told.resumed_at),
        changed_at=to_optional_datetime(told.changed_at),
        rival=None if isinstance(told.rival, bool) else decode_definition(told.rival),
        rival_at=to_optional_datetime(told.rival_at),
        pruned_from=_instant(told.pruned_from),
        pruned_until=_instant(told.pruned_until),
    )


def _instant(text: str | bool) -> datetime | None:
    return None if isinstance(text, bool) else from_instant(text)
