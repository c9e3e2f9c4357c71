"""Reading the audit: `client.audit.page(by="ann@desk")`."""

from __future__ import annotations

from datetime import datetime

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.checks import check_job_id
from holdfast.operations.verbs import VERBS
from holdfast.store.contract.audit import AuditFilter, AuditPage
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
            by=by,
            verb=verb,
            target=target,
            after=None if since is None else checks.moment("since", since),
            before=None if until is None else checks.moment("until", until),
        )
        after = None if cursor is None else check_job_id(cursor)
        return await self._store.audit.page(which, limit, after)
