"""The audit on Valkey. It lies in the first partition: acts are few beside jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

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
from holdfast.store.valkey.connection import ValkeyVerbs
from holdfast.store.valkey.layout import AuditRow
from holdfast.store.valkey.moments import to_datetime, to_micros, to_optional_datetime
from holdfast.store.valkey.rows import known, pack, to_audit_row

HOME = 0
AUDIT_BATCH = 500


class ValkeyAudit(ValkeyVerbs):
    """See `holdfast.store.contract.audit.Audit`."""

    async def begin(self, act: Act) -> None:
        row = AuditRow(
            by=act.by,
            verb=act.verb,
            target=act.target,
            which=act.which or False,
            arguments=act.arguments or False,
        )
        await self._connections.call("audit/begin", HOME, {"id": act.id, "row": pack(row)})

    async def close(
        self, act_id: ActId, outcome: ActOutcome, changed: int, error: str | None = None
    ) -> None:
        given = {
            "id": act_id,
            "outcome": outcome.value,
            "changed": changed,
            "error": [] if error is None else [clean(error, MESSAGE_LIMIT)],
        }
        await self._connections.call("audit/close", HOME, given)

    async def page(self, which: AuditFilter, limit: int, cursor: str | None = None) -> AuditPage:
        """Walks the narrowest list that there is, and leaves out what else does not match."""
        found: list[AuditEntry] = []
        async for entry in self._walk(which, max(limit, AUDIT_BATCH), cursor):
            if len(found) == limit or (which.after and entry.begun_at <= which.after):
                break
            if _matches(entry, which):
                found.append(entry)
        return AuditPage(tuple(found), found[-1].id if len(found) == limit else None)

    async def _walk(
        self, which: AuditFilter, batch: int, cursor: str | None
    ) -> AsyncIterator[AuditEntry]:
        given = {
            "list": _list(which),
            "before": "" if which.before is None else to_micros(which.before),
            "limit": batch,
        }
        while True:
            answer = await self._connections.call(
                "audit/page", HOME, {**given, "cursor": cursor or ""}
            )
            now, rows = to_datetime(int(answer[0])), answer[1:]
            for act_id, row in zip(rows[::2], rows[1::2], strict=True):
                yield _entry(act_id.decode(), to_audit_row(row), now)
            if len(rows) < 2 * batch:
                return
            cursor = rows[-2].decode()

    async def prune(self, limit: int, kept_for: float) -> int:
        given = {"limit": limit, "kept_for": kept_for}
        return int(await self._connections.call("audit/prune", HOME, given))


def _list(which: AuditFilter) -> str:
    if which.target:
        return f":audit-target:{which.target}"
    return ":audit-time" if which.by is None else f":audit-by:{which.by}"


def _matches(entry: AuditEntry, which: AuditFilter) -> bool:
    return (
        which.by in (None, entry.by)
        and which.verb in (None, entry.verb)
        and (which.target is None or which.target == entry.target != "")
    )


def _entry(act_id: str, row: AuditRow, now: datetime) -> AuditEntry:
    return AuditEntry(
        id=ActId(act_id),
        by=row.by,
        verb=row.verb,
        target=row.target,
        which=known(row.which),
        arguments=known(row.arguments),
        begun_at=to_datetime(row.begun_at),
        closed_at=to_optional_datetime(row.closed_at),
        outcome=outcome_at(now, to_datetime(row.seen_at), known(row.outcome)),
        changed=row.changed,
        error=known(row.error),
    )
