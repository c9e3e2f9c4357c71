"""The audit. Its errors and the texts that were searched for may quote what a job carries."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.encryption.sealing import Sealing
from holdfast.store.contract.audit import (
    Act,
    ActId,
    ActOutcome,
    Audit,
    AuditEntry,
    AuditFilter,
    AuditPage,
)
from holdfast.store.sealed.records import seal_cut, shown_or_opened

SEARCHED = "error_text"
"""The word of a filter whose value is a text of users. Of arguments the audit has the names."""


class SealedAudit:
    def __init__(self, audit: Audit, sealing: Sealing) -> None:
        self._audit = audit
        self._sealing = sealing
        self.prune = audit.prune

    async def begin(self, act: Act) -> None:
        await self._audit.begin(msgspec.structs.replace(act, which=self._hidden(act)))

    def _hidden(self, act: Act) -> str | None:
        if act.which is None or SEARCHED not in act.which:
            return act.which
        words: dict[str, Any] = msgspec.json.decode(act.which)
        if SEARCHED in words:
            hidden = self._sealing.of(f"act {act.id}").seal(SEARCHED, str(words[SEARCHED]))
            words[SEARCHED] = hidden
        return msgspec.json.encode(words).decode()

    async def close(
        self, act_id: ActId, outcome: ActOutcome, changed: int, error: str | None = None
    ) -> None:
        if error is not None:
            error = seal_cut(self._sealing.of(f"act {act_id}"), "error", error)
        await self._audit.close(act_id, outcome, changed, error)

    async def page(self, which: AuditFilter, limit: int, cursor: str | None = None) -> AuditPage:
        page = await self._audit.page(which, limit, cursor)
        return AuditPage(tuple(map(self._entry, page.entries)), page.next_cursor)

    def _entry(self, entry: AuditEntry) -> AuditEntry:
        owner = self._sealing.of(f"act {entry.id}")
        which = entry.which
        if which is not None and SEARCHED in which:
            words: dict[str, Any] = msgspec.json.decode(which)
            words[SEARCHED] = shown_or_opened(owner, SEARCHED, words.get(SEARCHED))
            which = msgspec.json.encode(words).decode()
        error = shown_or_opened(owner, "error", entry.error)
        return msgspec.structs.replace(entry, which=which, error=error)
