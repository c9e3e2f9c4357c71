"""Where an operation gets its jobs from, and how a page of them is written down."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

import msgspec

from holdfast.errors import Unreadable
from holdfast.insights.actions import Verb
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.sealed import is_sealed, require_open, shown
from holdfast.job.state import JobState
from holdfast.operations.job_verbs import JOB_VERBS
from holdfast.operations.rows import JobVerb
from holdfast.store.contract.filters import JobFilter, is_any
from holdfast.store.contract.operations import OperationRequest
from holdfast.store.contract.store import Store


class Item(msgspec.Struct, frozen=True):
    """A job as it was read, the value that the verb is to give it, and what an undo has to know."""

    job: Job
    value: Any
    was: Any


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs to change, why others are left as they are, and the cursor behind all of them:
    None after the last."""

    items: tuple[Item, ...]
    left: tuple[str, ...]
    next_cursor: str | None


class Noted(msgspec.Struct, frozen=True, array_like=True):
    """A job of the page in hand, as it was before the change."""

    id: JobId
    state: JobState
    fence: int
    value: Any
    was: Any


class Hand(msgspec.Struct, frozen=True):
    """The page in hand: perhaps its jobs were changed, perhaps not yet."""

    jobs: tuple[Noted, ...]
    left: tuple[str, ...]
    next_cursor: str | None

    @classmethod
    def of(cls, page: JobPage) -> Hand:
        noted = [
            Noted(item.job.id, item.job.state, item.job.fence, plain(item.value), item.was)
            for item in page.items
        ]
        return cls(tuple(noted), page.left, page.next_cursor)

    @classmethod
    def from_text(cls, text: str) -> Hand:
        return msgspec.json.decode(text, type=cls)

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()


class Pages(Protocol):
    """The jobs of one operation, page by page."""

    async def page(self, cursor: str | None, limit: int) -> JobPage: ...


class MatchingPages:
    """All jobs that match a filter, newest first."""

    def __init__(self, store: Store, row: JobVerb, which: JobFilter, value: Any) -> None:
        self._store = store
        self._row = row
        self._which = which
        self._value = value

    async def page(self, cursor: str | None, limit: int) -> JobPage:
        found = await self._store.jobs.page(self._which, limit, cursor)
        items = [Item(job, self._value, self._row.was(job)) for job in found.jobs]
        return JobPage(tuple(items), (), found.next_cursor)


def row_of(request: OperationRequest) -> JobVerb:
    """Raises `Unreadable` if only a newer release knows the verb."""
    try:
        return JOB_VERBS[Verb(request.verb)]
    except (KeyError, ValueError):
        raise Unreadable("request", f"its verb is {request.verb!r}") from None


def is_readable(request: OperationRequest) -> bool:
    """Whether this release knows what the operation is to do, and to which jobs."""
    try:
        row_of(request)
        return is_sealed(request.which) or filter_of(request) is not None
    except Unreadable:
        return False


def value_of(request: OperationRequest) -> Any:
    """What the verb takes beside its jobs, as the store takes it."""
    value = None if request.value is None else msgspec.json.decode(request.value)
    return from_plain(row_of(request), value)


def filter_of(request: OperationRequest) -> JobFilter:
    which = request.which or "{}"
    require_open(which)  # read as a filter, an encrypted text would mean every job
    if unknown := msgspec.json.decode(which).keys() - set(JobFilter.__struct_fields__):
        # without the words of a newer release the filter would mean more jobs
        raise Unreadable("filter", f"it does not know {', '.join(sorted(unknown))}")
    return msgspec.json.decode(which, type=JobFilter)


def words_of(request: OperationRequest) -> dict[str, Any]:
    """The words of its filter that narrow anything, for people and for the audit."""
    if is_sealed(request.which):
        return {"which": shown(request.which or "")}
    return narrowing(msgspec.json.decode(request.which or "{}"))


def narrowing(words: dict[str, Any]) -> dict[str, Any]:
    """The words of a filter that narrow anything. Of arguments only the paths are told, as wherever
    an act is shown or kept."""
    told = {word: value for word, value in words.items() if not is_any(value)}
    if "args" in told:
        told["args"] = sorted(told["args"])
    return told


def plain(value: Any) -> Any:
    """A value of a verb as JSON can say it."""
    return value.isoformat() if isinstance(value, datetime) else value


def from_plain(row: JobVerb, value: Any) -> Any:
    """A moment is a text in JSON; a verb that takes a text takes no moment."""
    if row.verb is Verb.RESCHEDULE and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value
