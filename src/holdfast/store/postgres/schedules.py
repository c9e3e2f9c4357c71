"""Schedules on Postgres: the rules themselves, and the reading of their ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from holdfast.job.policy import DAY
from holdfast.job.record import Live
from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.schedule.model import (
    DECLARATION_SECONDS,
    Definition,
    LedgerEntry,
    Plan,
    Schedule,
    encode_definition,
)
from holdfast.store.postgres import rows
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.ledger import record

CURSORS_FORGOTTEN_AT_ONCE = 1_000
LONGEST_KEPT_SECONDS = 36_500 * DAY  # a longer time would end beyond Postgres' calendar


class PostgresSchedules:
    """See `holdfast.store.contract.schedules.Schedules` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._channel = connections.options.channel

    async def declare(
        self, schedules: Mapping[str, Definition], since: datetime | None = None
    ) -> None:
        if schedules:
            columns = map(list, zip(*map(_values, schedules.values()), strict=True))
            values = (self._channel, [*schedules], *columns, since, DECLARATION_SECONDS)
            await self._connections.timed("schedules/declare", *values)

    async def put(self, name: str, definition: Definition, revision: int | None = None) -> bool:
        """Not repeated if a revision is given: the first try may have changed the revision."""
        values = (self._channel, name, *_values(definition), revision)
        again = revision is None
        return bool(await self._connections.timed("schedules/put", *values, again=again))

    async def pause(self, names: Sequence[str]) -> list[str]:
        return await self._change("schedules/pause", names)

    async def resume(self, names: Sequence[str]) -> list[str]:
        return await self._change("schedules/resume", names)

    async def delete(self, names: Sequence[str]) -> list[str]:
        async def steps(session: Session) -> list[str]:
            found = await session.fetch("schedules/delete", self._channel, [*names])
            gone = [row["name"] for row in found]
            await session.fetch("schedules/forget", gone)
            return gone

        return await self._connections.run(steps, transaction=True) if names else []

    async def cursors(self, name: str, scopes: Sequence[str]) -> dict[str, datetime]:
        found = await self._connections.fetch("schedules/cursors", name, [*scopes])
        return {row["scope"]: row["at"] for row in found}

    async def own_cursors(self) -> dict[str, datetime]:
        found = await self._connections.fetch("schedules/own_cursors")
        return {row["name"]: row["at"] for row in found}

    async def unfinished(self, name: str, scopes: Sequence[str]) -> dict[str, list[Live]]:
        distinct = list(dict.fromkeys(scopes))
        answer: dict[str, list[Live]] = {}
        for row in await self._connections.fetch("schedules/unfinished", name, distinct):
            answer.setdefault(row["scope"], []).append(rows.live(row))
        return answer

    async def record(self, plans: Sequence[Plan]) -> list[bool]:
        return await record(self._connections, plans) if plans else []

    async def advance(self, name: str, scope: str, at: datetime) -> None:
        await self._connections.fetch(
            "schedules/advance", name, scope, at, CURSORS_FORGOTTEN_AT_ONCE
        )

    async def history(
        self,
        name: str,
        *,
        scope: str | None = None,
        limit: int = 50,
        before: datetime | None = None,
    ) -> list[LedgerEntry]:
        found = await self._connections.fetch("schedules/history", name, scope, before, limit)
        return [rows.ledger_entry(row) for row in found]

    async def failed_plans(
        self, name: str, limit: int, after: tuple[datetime, str] | None = None
    ) -> list[LedgerEntry]:
        at, scope = after or (None, "")
        found = await self._connections.fetch("schedules/failed_plans", name, limit, at, scope)
        return [rows.ledger_entry(row) for row in found]

    async def complain(self, name: str, error: str | None) -> None:
        shown = None if error is None else clean(error, MESSAGE_LIMIT)
        await self._connections.timed("schedules/complain", name, shown)

    async def prune_ledger(self, limit: int) -> int:
        return int((await self._connections.timed("schedules/prune_ledger", limit))[0][0])

    async def find(self, names: Sequence[str] = ()) -> list[Schedule]:
        found = await self._connections.fetch("schedules/find", [*names] or None)
        return [rows.schedule(row) for row in found]

    async def _change(self, verb: str, names: Sequence[str]) -> list[str]:
        found = await self._connections.timed(verb, self._channel, [*names])
        return [row["name"] for row in found]


def _values(definition: Definition) -> tuple[str, str, float]:
    keep = min(definition.keep, LONGEST_KEPT_SECONDS)
    return encode_definition(definition), encode_definition(definition.rule), keep
