"""Which jobs are meant: words become a filter, and a verb is applied to all that match it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack
from uuid import UUID

import msgspec

from holdfast.client.searching import require_searchable
from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.checks import PRIORITY_LIMIT, check_fingerprint, check_job_id
from holdfast.job.state import JobState
from holdfast.operations.rows import JobVerb
from holdfast.store.contract.filters import JobFilter, Scalar, is_any
from holdfast.store.contract.jobs import Jobs

PAGE_LIMIT = 1_000
"""The most jobs that one page holds, and that one step of a bulk verb changes."""
LONGEST_TEXT = 4_096
"""The longest name or text that a word of a filter takes."""
OnProgress = Callable[[int, int], None]
"""Is called with how many jobs are done, and of how many."""

PLURAL = {"id": "ids", "state": "states", "queue": "queues", "task": "tasks", "tag": "tags"}
"""The field of a JobFilter that a word for one value stands for."""

Texts = str | Iterable[str] | None


class FilterWords(TypedDict, total=False):
    """The words of a job filter. Every word narrows; a word that is None means any. A queue or task
    may be the beginning of a name and a star. `where` is the same as one text, such as
    `"queue:mail state:failed args.customer:42 since:2h"`; other words beside it narrow further."""

    where: str | None
    id: Texts
    ids: Texts
    state: Texts
    states: Texts
    queue: Texts
    queues: Texts
    task: Texts
    tasks: Texts
    tag: Texts
    tags: Texts
    args: Mapping[str, Scalar] | None
    worker: str | None
    fingerprint: str | None
    schedule: str | None
    priority: int | None
    priority_over: int | None
    priority_under: int | None
    attempts_over: int | None
    created_after: datetime | None
    created_before: datetime | None
    finished_after: datetime | None
    finished_before: datetime | None
    error_text: str | None


class BulkCall(FilterWords, total=False):
    """What a verb on many jobs takes: which jobs, and how to go about it. Without a filter
    `everything=True` must say that all jobs are meant. `on_progress(done, matched)` is called after
    each page; `by` is reported as the one who did it."""

    everything: bool
    dry_run: bool
    on_progress: OnProgress | None
    by: str | None


class BulkReport(msgspec.Struct, frozen=True):
    """What a bulk verb found and did; with a dry run, what it would do."""

    matched: int
    changed: int
    dry_run: bool


async def change_all(
    jobs: Jobs,
    which: JobFilter,
    row: JobVerb,
    value: object,
    dry_run: bool,
    on_progress: OnProgress | None,
    by: str | None = None,
) -> BulkReport:
    """Apply a verb to every matching job that is in one of the states of the verb.

    The jobs are walked once, by cursor. A job that is enqueued meanwhile, or that matches only
    because of this very change, is not walked again.
    """
    which = states_meant(row, which)
    await require_searchable(jobs, which)
    matched = sum((await jobs.count(which)).values())
    if dry_run:
        return BulkReport(matched, 0, dry_run=True)
    changed, cursor = 0, None
    while True:
        page = await jobs.page(which, PAGE_LIMIT, cursor)
        changed += len(await row.change(jobs, [job.id for job in page.jobs], value, by))
        if on_progress is not None:
            on_progress(changed, matched)
        if page.next_cursor is None:
            return BulkReport(matched, changed, dry_run=False)
        cursor = page.next_cursor


def states_meant(row: JobVerb, which: JobFilter) -> JobFilter:
    """The filter, narrowed to the states that the verb applies to."""
    states = (which.states or row.by_default or row.states) & row.states
    if not states:
        raise BadOption("states", f"among {', '.join(sorted(row.states))}", sorted(which.states))
    return msgspec.structs.replace(which, states=states)


def bulk_filter(everything: bool, **which: Unpack[FilterWords]) -> JobFilter:
    """The filter of a verb on many jobs. A filter that was forgotten, or whose value turned out to
    be None or empty, would mean every job of the store: only `everything` may say that."""
    meant = job_filter(**which)
    given = [word for word, value in which.items() if value is not None]
    for word in given:
        if word != "where" and is_any(getattr(meant, PLURAL.get(word, word))):
            raise BadOption(f"filter {word}", "left out, or not empty", which.get(word))
    checks.flag("everything", everything)
    if everything and given:
        raise BadOption("everything", "left out beside a filter", ", ".join(given))
    if not everything and not given:
        raise BadOption("filter", "at least one word, or everything=True for all jobs", "none")
    return meant


def job_filter(**which: Unpack[FilterWords]) -> JobFilter:
    """A JobFilter from words that are easy to write: one value or many, `queue` or `queues`, …

    >>> job_filter(queue="mail", state="failed").queues
    ('mail',)
    """
    words: dict[str, Any] = {
        PLURAL.get(word, word): value for word, value in which.items() if value is not None
    }
    where = words.pop("where", None)
    unknown = set(words) - set(JobFilter.__struct_fields__)
    if unknown:
        known = ", ".join((*JobFilter.__struct_fields__, *PLURAL, "where"))
        raise BadOption("filter", f"one of {known}", ", ".join(sorted(unknown)))
    read = {word: READERS[word](f"filter {word}", value) for word, value in words.items()}
    meant = JobFilter(**read)
    return meant if where is None else _narrowed(meant, where)


def _narrowed(meant: JobFilter, where: str) -> JobFilter:
    """The filter and a text together. Both may name tags and arguments; whatever else both name
    would have to be the same to mean any job."""
    from holdfast.insights.where import parse_where

    checks.kind("where", where, str, "text, such as 'queue:mail state:failed since:2h'")
    text = parse_where(where)
    if both := meant.args.keys() & text.args.keys():
        raise BadOption("filter args", "left out beside a where that says it", sorted(both))
    changes: dict[str, Any] = {
        "tags": tuple(dict.fromkeys((*meant.tags, *text.tags))),
        "args": {**meant.args, **text.args},
    }
    for name in JobFilter.__struct_fields__:
        here, there = getattr(meant, name), getattr(text, name)
        if name not in changes and not is_any(there):
            if not is_any(here):
                raise BadOption(f"filter {name}", "left out beside a where that says it", here)
            changes[name] = there
    return msgspec.structs.replace(meant, **changes)


def many(option: str, value: object) -> Iterable[Any]:
    """One value or several. Of what is no text, only a collection has several."""
    if isinstance(value, str | UUID):
        return (value,)
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        raise BadOption(option, "one text or a list of them", value)
    return value


def _ids(option: str, value: object) -> tuple[str, ...]:
    return tuple(map(check_job_id, many(option, value)))


def _states(option: str, value: object) -> frozenset[JobState]:
    return frozenset(map(_state, many(option, value)))


def _state(state: object) -> JobState:
    try:
        return JobState(state)  # type: ignore[arg-type]  # whatever is no state is refused here
    except ValueError:
        raise BadOption("state", f"one of {', '.join(JobState)}", state) from None


def _names(option: str, value: object) -> tuple[str, ...]:
    return tuple(_name(_text(option, one)) for one in many(option, value))


def _name(name: str) -> str:
    if name != "*" and "*" not in name[:-1]:
        return name
    raise BadOption("filter", "a name, or the beginning of a name and a star", name)


def _tags(option: str, value: object) -> tuple[str, ...]:
    return tuple(_text(option, one) for one in many(option, value) if one != "")


def _text(option: str, value: object) -> str:
    return checks.text(option, value, LONGEST_TEXT)


def _args(option: str, args: object) -> dict[str, Scalar]:
    """Values by their paths."""
    expected = "values by their paths, such as {'order.id': 7}: texts, numbers, True, False or None"
    if not isinstance(args, Mapping):
        raise BadOption(option, expected, args)
    for path, value in args.items():
        if not checks.is_storable(path) or not _is_scalar(value):
            raise BadOption(option, expected, args)
    return dict(args)


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return checks.is_storable(value) if isinstance(value, str) else isinstance(value, Scalar)


def _worker(option: str, worker: object) -> str:
    try:
        return check_job_id(worker)
    except BadOption:
        raise BadOption("worker", "the id of a worker, a UUID", worker) from None


def _priority(option: str, value: object) -> int:
    """A bound may lie one beyond the priorities that a job can have."""
    return checks.count(option, value, least=-PRIORITY_LIMIT - 1, most=PRIORITY_LIMIT + 1)


def _attempts(option: str, value: object) -> int:
    return checks.count(option, value, least=0)


def _fingerprint(option: str, value: object) -> str:
    return check_fingerprint(value)


READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "ids": _ids,
    "states": _states,
    "queues": _names,
    "tasks": _names,
    "tags": _tags,
    "args": _args,
    "worker": _worker,
    "fingerprint": _fingerprint,
    "schedule": _text,
    "priority": _priority,
    "priority_over": _priority,
    "priority_under": _priority,
    "attempts_over": _attempts,
    "created_after": checks.moment,
    "created_before": checks.moment,
    "finished_after": checks.moment,
    "finished_before": checks.moment,
    "error_text": _text,
}
"""How the value of each word is read. A value that no store could compare with is refused here: one
store would call it an error, another would find nothing, and a third would take it for something
else."""
