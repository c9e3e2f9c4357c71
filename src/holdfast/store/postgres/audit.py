"""The audit on Postgres."""

from __future__ import annotations

from holdfast.job.text import MESSAGE_LIMIT, clean
from holdfast.store.contract.audit import (
    Act,
    ActId,
    ActOutcome,
    AuditEntry,
    AuditFilter,
    AuditPage,
    outcome_at,
)
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Record


class PostgresAudit:
    """See `holdfast.store.contract.audit.Audit` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def begin(self, act: Act) -> None:
        values = (act.id, act.by, act.verb, act.target, act.which, act.arguments)
        await self._connections.timed("audit/begin", *values)

    async def close(
        self, act_id: ActId, outcome: ActOutcome, changed: int, error: str | None = None
    ) -> None:
        shown = None if error is None else clean(error, MESSAGE_LIMIT)
        await self._connections.timed("audit/close", act_id, outcome.value, changed, shown)

    async def page(self, which: AuditFilter, limit: int, cursor: str | None = None) -> AuditPage:
        wanted = (which.by, which.verb, which.target, which.after, which.before, cursor, limit)
        found = await self._connections.timed("audit/page", *wanted)
        entries = tuple(map(_entry, found))
        return AuditPage(entries, entries[-1].id if len(entries) == limit else None)

    async def prune(self, limit: int, kept_for: float) -> int:
        return int((await self._connections.timed("audit/prune", limit, kept_for))[0][0])


def _entry(row: Record) -> AuditEntry:
    return AuditEntry(
        id=ActId(str(row["id"])),
        by=row["by"],
        verb=row["verb"],
        target=row["target"],
        which=row["which"],
        arguments=row["arguments"],
        begun_at=row["begun_at"],
        closed_at=row["closed_at"],
        outcome=outcome_at(row["read_at"], row["seen_at"], row["outcome"]),
        changed=row["changed"],
        error=row["error"],
    )
