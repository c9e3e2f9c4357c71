"""`Schedules` on Valkey: a schedule lies in one partition, with its cursors and its ledger.

Which one is said by its name, so the list of all is merged from the partitions' hashes.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from holdfast.job.record import Live
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.schedule.model import (
    DECLARED_FOR,
    NO_SCOPE,
    Definition,
    LedgerEntry,
    Plan,
    Schedule,
    decode_definition,
    encode_definition,
)
from holdfast.store.valkey import ledger, reading
from holdfast.store.valkey.connection import Connections, bites
from holdfast.store.valkey.ledger import from_instant, home, instant
from holdfast.store.valkey.moments import (
    SECOND,
    finite,
    to_datetime,
    to_micros,
    to_optional_datetime,
)
from holdfast.store.valkey.recording import record
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.rows import known, to_schedule_row

BITE = 500
FORGOTTEN_AT_ONCE = 1_000


class ValkeySchedules:
    """See `holdfast.store.contract.schedules.Schedules`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def declare(
        self, schedules: Mapping[str, Definition], since: datetime | None = None
    ) -> None:
        given = {
            "since": "" if since is None else to_micros(since),
            "counts_for": int(DECLARED_FOR * SECOND),
        }
        for partition, names in self._by_home(schedules).items():
            for some in bites(names, BITE):
                rows = [(name, *_facts(schedules[name])) for name in some]
                await self._connections.call(
                    "schedules/declare", partition, {**given, "declared": rows}
                )

    async def put(self, name: str, definition: Definition, revision: int | None = None) -> bool:
        """With a revision it is not repeated when the line is lost: the second try would be
        refused because of the first."""
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

    async def pause(self, names: Sequence[str]) -> builtins.list[str]:
        return await self._each("schedules/pause", names)

    async def resume(self, names: Sequence[str]) -> builtins.list[str]:
        return await self._each("schedules/resume", names)

    async def delete(self, names: Sequence[str]) -> builtins.list[str]:
        return await self._each("schedules/delete", names)

    async def cursors(self, name: str, scopes: Sequence[str]) -> dict[str, datetime]:
        key = self._connections.key(home(self._connections, name), f"cursors:{name}")
        found: dict[str, datetime] = {}
        for some in bites(dict.fromkeys(scopes), BITE):
            answer = await self._connections.command("HMGET", key, *some)
            for scope, at in zip(some, answer, strict=True):
                if at is not None:
                    found[scope] = from_instant(at.decode())
        return found

    async def unfinished(self, name: str, scopes: Sequence[str]) -> dict[str, builtins.list[Live]]:
        found: dict[str, builtins.list[Live]] = {}
        for some in bites(dict.fromkeys(scopes), BITE):
            answer = await self._call("schedules/unfinished", name, schedule=name, scopes=some)
            ids = [[one.decode() for one in mine] for mine in answer]
            jobs = await reading.live(self._connections, [one for mine in ids for one in mine])
            live: dict[str, Live] = {job.id: job for job in jobs}
            for scope, mine in zip(some, ids, strict=True):
                if still := [live[one] for one in mine if one in live]:
                    found[scope] = still
        return found

    async def record(self, plans: Sequence[Plan]) -> builtins.list[bool]:
        return await record(self._connections, plans) if plans else []

    async def advance(self, name: str, scope: str, at: datetime) -> None:
        keep = await self._call(
            "schedules/advance", name, schedule=name, scope=scope, at=instant(at)
        )
        if keep is not None and scope == NO_SCOPE:
            with suppress(OverflowError, ValueError):  # kept beyond any calendar
                await self._forget(name, instant(at - timedelta(seconds=float(keep))))

    async def _forget(self, name: str, before: str) -> None:
        """Remove the cursors from before that time, some thousand at a time."""
        key = self._connections.key(home(self._connections, name), f"cursors:{name}")
        position, old = b"0", list[str]()
        while len(old) < FORGOTTEN_AT_ONCE:
            command = ("HSCAN", key, position, "COUNT", BITE)
            position, found = await self._connections.command(*command)
            pairs = paired(found)
            old += [scope for scope, at in pairs if scope and at.decode() < before]
            if int(position) == 0:
                break
        for some in bites(old, BITE):
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
    ) -> builtins.list[LedgerEntry]:
        return await ledger.history(self._connections, name, scope, limit, before)

    async def failed_plans(
        self, name: str, limit: int, after: tuple[datetime, str] | None = None
    ) -> builtins.list[LedgerEntry]:
        return await ledger.failed_plans(self._connections, name, limit, after)

    async def complain(self, name: str, error: str | None) -> None:
        told = [] if error is None else [clean(error, MESSAGE_LIMIT)]
        await self._call("schedules/complain", name, name=name, complaint=told)

    async def prune_ledger(self, limit: int) -> int:
        return await ledger.prune(self._connections, limit)

    async def list(self, names: Sequence[str] = ()) -> builtins.list[Schedule]:
        found = await self._named(names) if names else await self._all()
        return sorted(found, key=lambda schedule: schedule.name)

    async def _all(self) -> builtins.list[Schedule]:
        connections = self._connections
        reads = [("HGETALL", connections.key(p, "schedules")) for p in connections.partitions]
        answers = await connections.commands(reads)
        return [_schedule(name, row) for answer in answers for name, row in paired(answer)]

    async def _named(self, names: Sequence[str]) -> builtins.list[Schedule]:
        found: builtins.list[Schedule] = []
        for partition, mine in self._by_home(names).items():
            key = self._connections.key(partition, "schedules")
            for some in bites(mine, BITE):
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

    async def _each(self, verb: str, names: Sequence[str]) -> builtins.list[str]:
        """A verb on chosen schedules; answers those there are, by name."""
        found: builtins.list[str] = []
        for partition, mine in self._by_home(names).items():
            for some in bites(mine, BITE):
                answer = await self._connections.call(verb, partition, {"chosen": some})
                found += [name.decode() for name in answer]
        return sorted(found)

    def _by_home(self, names: Iterable[str]) -> dict[int, builtins.list[str]]:
        """Each name once, sorted by where it is."""
        found: dict[int, builtins.list[str]] = {}
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
