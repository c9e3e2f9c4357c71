"""The audit: who changed what as an operator, written before the change and closed after it."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType, Protocol

import msgspec
import uuid_utils

ActId = NewType("ActId", str)

INTERRUPTED_AFTER_SECONDS = 60.0
"""Who works on an act for longer begins it again before this time is over."""


def new_act_id() -> ActId:
    """Minted by whoever acts, so that a begin whose reply was lost can be repeated."""
    return ActId(str(uuid_utils.uuid7()))


class ActOutcome(StrEnum):
    """How an act ended.

    `UNDER_WAY`: it was begun and is not closed yet. `INTERRUPTED`: nobody closed it, and nobody
    has said for a minute that it goes on, so whoever began it died or lost the store. What it
    changed by then is changed. An operation that was stopped is interrupted too.
    """

    UNDER_WAY = "under way"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator is about to do.

    `verb` is a noun and a verb of the table, such as `jobs.cancel`. `target` is an id or a name;
    it is empty where `which` selects the jobs. `which` holds the words of a job filter and
    `arguments` what the verb takes beside its target, both as JSON objects. Secrets are left out
    of the arguments before they come here.
    """

    id: ActId
    by: str
    verb: str
    target: str = ""
    which: str | None = None
    arguments: str | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One act, and what became of it. `changed` counts the jobs, queues or schedules that are
    different because of it."""

    id: ActId
    by: str
    verb: str
    target: str
    which: str | None
    arguments: str | None
    begun_at: datetime
    closed_at: datetime | None
    outcome: ActOutcome
    changed: int
    error: str | None


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which acts are meant. Every field narrows; None means any. The times are those of the
    begin."""

    by: str | None = None
    verb: str | None = None
    target: str | None = None
    after: datetime | None = None
    before: datetime | None = None


class AuditPage(msgspec.Struct, frozen=True):
    """Some acts, newest first, and where the next page starts."""

    entries: tuple[AuditEntry, ...]
    next_cursor: str | None


class Audit(Protocol):
    """Acts of operators. No verb on jobs reads them."""

    async def begin(self, act: Act) -> None:
        """Write down an act that is about to be done. A second begin of the same id says that the
        act goes on: it opens an act again that was closed, and keeps the time of the first."""
        ...

    async def close(
        self, act_id: ActId, outcome: ActOutcome, changed: int, error: str | None = None
    ) -> None:
        """Say how an act ended; the last close counts. An act that is not there stays so."""
        ...

    async def page(self, which: AuditFilter, limit: int, cursor: str | None = None) -> AuditPage:
        """Acts newest first, every filter applied before the limit. The cursor stays right while
        acts come and go."""
        ...

    async def prune(self, limit: int, kept_for: float) -> int:
        """Remove up to `limit` acts that were begun longer ago than this, oldest first."""
        ...


def outcome_at(now: datetime, seen_at: datetime, closed_as: str | None) -> ActOutcome:
    """How an act stands: as it was closed, or by when it was last said to go on."""
    if closed_as is not None:
        return ActOutcome(closed_as)
    silent = now - seen_at > timedelta(seconds=INTERRUPTED_AFTER_SECONDS)
    return ActOutcome.INTERRUPTED if silent else ActOutcome.UNDER_WAY
