"""The audit on SQLite."""

from __future__ import annotations

from typing import Any

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
from holdfast.store.sqlite.rows import SECOND, to_datetime, to_micros, to_optional_datetime
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteAudit(Verbs):
    """See `holdfast.store.contract.audit.Audit` for what each verb promises."""

    async def begin(self, act: Act) -> None:
        values = {name: getattr(act, name) for name in Act.__struct_fields__}
        await self._writer.write(lambda tx: tx.run(script("audit/begin"), values | {"now": tx.now}))

    async def close(
        self, act_id: ActId, outcome: ActOutcome, changed: int, error: str | None = None
    ) -> None:
        values = {
            "id": act_id,
            "outcome": outcome.value,
            "changed": changed,
            "error": None if error is None else clean(error, MESSAGE_LIMIT),
        }
        await self._writer.write(lambda tx: tx.run(script("audit/close"), values | {"now": tx.now}))

    async def page(self, which: AuditFilter, limit: int, cursor: str | None = None) -> AuditPage:
        return await self._writer.read(lambda tx: _page(tx, which, limit, cursor))

    async def prune(self, limit: int, kept_for: float) -> int:
        def work(tx: Transaction) -> int:
            return tx.changed(script("audit/prune"), (tx.now - round(kept_for * SECOND), limit))

        return await self._writer.write(work)


def _page(tx: Transaction, which: AuditFilter, limit: int, cursor: str | None) -> AuditPage:
    wanted: dict[str, Any] = {
        "by": which.by,
        "verb": which.verb,
        "target": which.target,
        "after": None if which.after is None else to_micros(which.after),
        "before": None if which.before is None else to_micros(which.before),
        "cursor": cursor,
        "limit": limit,
    }
    arm = "of a target" if which.target is not None else "all" if which.by is None else "by"
    rows = tx.rows(steps("audit/page")[arm], wanted)
    entries = tuple(_entry(row, tx.now) for row in rows)
    return AuditPage(entries, entries[-1].id if len(entries) == limit else None)


def _entry(row: Row, now: int) -> AuditEntry:
    (
        act_id, by, verb, target, which, arguments,
        begun_at, seen_at, closed_at, outcome, changed, error,
    ) = row  # fmt: skip
    return AuditEntry(
        id=ActId(act_id),
        by=by,
        verb=verb,
        target=target,
        which=which,
        arguments=arguments,
        begun_at=to_datetime(begun_at),
        closed_at=to_optional_datetime(closed_at),
        outcome=outcome_at(to_datetime(now), to_datetime(seen_at), outcome),
        changed=changed,
        error=error,
    )
