"""Reading the audit: `client.audit.page(by="ann@desk")`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.acting import LONGEST_NAME
from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.checks import check_job_id
from holdfast.job.sealed import shown
from holdfast.operations.verbs import VERBS
from holdfast.store.contract.audit import AuditEntry, AuditFilter, AuditPage
from holdfast.store.contract.store import Store

AUDIT_PAGE_LIMIT = 1_000


class AuditVerbs:
    """Read who changed what."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(
        self,
        *,
        by: str | None = None,
        verb: str | None = None,
        target: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> AuditPage:
        """Acts of operators, newest first. Every word narrows: who acted, the verb (`jobs.cancel`),
        the id or name that it was applied to, and the time of its begin. `cursor` is
        `next_cursor` of the page before."""
        known = sorted(row.word for row in VERBS.values())
        if verb is not None and verb not in known:
            raise BadOption("verb", f"one of {', '.join(known)}", verb)
        checks.count("limit", limit, most=AUDIT_PAGE_LIMIT)
        which = AuditFilter(
            by=None if by is None else checks.text("by", by, LONGEST_NAME),
            verb=verb,
            target=None if target is None else checks.text("target", target, LONGEST_NAME),
            after=None if since is None else checks.moment("since", since),
            before=None if until is None else checks.moment("until", until),
        )
        after = None if cursor is None else check_job_id(cursor)
        page = await self._store.audit.page(which, limit, after)
        return AuditPage(tuple(map(_shown, page.entries)), page.next_cursor)


def _shown(entry: AuditEntry) -> AuditEntry:
    """The act with "encrypted (key …)" for what this program could not open."""
    which, error = entry.which, entry.error
    if which is not None and "$enc" in which:
        words: dict[str, Any] = msgspec.json.decode(which)
        told = {
            word: shown(text) if isinstance(text, str) else text for word, text in words.items()
        }
        which = msgspec.json.encode(told).decode()
    return msgspec.structs.replace(
        entry, which=which, error=None if error is None else shown(error)
    )
