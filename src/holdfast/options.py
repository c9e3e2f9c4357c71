"""The options of one enqueue: checked early, frozen, and turned into a NewJob.

A task carries defaults, `using(...)` lays others over them; nothing is
written before every option has been found good.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict

import msgspec

from holdfast.errors import BadOption
from holdfast.job import (
    LIVE,
    JobId,
    JobState,
    NewJob,
    OnConflict,
    Policy,
    Retention,
    Unique,
    encode_policy,
    new_job_id,
)
from holdfast.retry import Retry

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}\Z")
PRIORITY_LIMIT = 32_767
HEADERS_LIMIT = 8 * 1024

Seconds = float | timedelta


class UniqueBy(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two enqueues the same job.

    Either an explicit `key`, or chosen arguments: `args=("user_id",)`, or
    `args=()` for all of them. With `scope="task"` (default) keys of different
    tasks never meet; with `scope="queue"` they meet within one queue.
    """

    key: str | None = None
    args: tuple[str, ...] | None = None
    scope: Literal["task", "queue"] = "task"
    states: frozenset[JobState] = LIVE
    on_conflict: OnConflict = "keep"

    def __post_init__(self) -> None:
        if (self.key is None) == (self.args is None):
            got = "neither" if self.key is None else "both"
            raise BadOption("unique", "either a key or a choice of args", got)
        if self.key is not None and not 0 < len(self.key) <= 512:
            raise BadOption("unique key", "1 to 512 characters long", self.key)
        if self.on_conflict not in ("keep", "replace", "debounce"):
            raise BadOption("on_conflict", "keep, replace or debounce", self.on_conflict)
        if not self.states:
            raise BadOption("unique states", "at least one state", self.states)


class EnqueueOptions(TypedDict, total=False):
    """Every option that `@app.task` and `using` take."""

    queue: str
    priority: int
    delay: Seconds
    run_at: datetime
    deadline: datetime | Seconds
    timeout: Seconds | None
    retry: Retry
    max_crashes: int
    unique: str | UniqueBy | None
    tags: Sequence[str]
    headers: Mapping[str, str]
    retention: Retention
    keep_result: bool
    id: str
    connection: object


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Checked options. `using` gives a copy with some replaced."""

    queue: str = "default"
    priority: int = 0
    delay: Seconds | None = None
    run_at: datetime | None = None
    deadline: datetime | Seconds | None = None
    timeout: Seconds | None = None
    retry: Retry = Retry()
    max_crashes: int = 3
    unique: str | UniqueBy | None = None
    tags: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    retention: Retention = Retention()
    keep_result: bool = True
    id: str | None = None
    connection: Any = None

    def using(self, given: Mapping[str, Any]) -> Options:
        unknown = set(given) - set(self.__struct_fields__)
        if unknown:
            known = ", ".join(sorted(self.__struct_fields__))
            raise BadOption("option", f"one of {known}", ", ".join(sorted(unknown)))
        laid = {name: tuple(value) if name == "tags" else value for name, value in given.items()}
        merged = msgspec.structs.replace(self, **laid)
        merged._check()
        return merged

    def _check(self) -> None:
        check_name("queue", self.queue)
        _check_priority(self.priority)
        _check_times(self)
        _check_tags(self.tags)
        if self.id is not None:
            check_job_id(self.id)
        if isinstance(self.unique, str):
            UniqueBy(key=self.unique)
        elif self.unique is not None and not isinstance(self.unique, UniqueBy):
            raise BadOption("unique", "a key or a UniqueBy", self.unique)
        if not isinstance(self.retry, Retry):
            raise BadOption("retry", "a Retry", self.retry)
        self.policy()
        self.headers_json()

    def policy(self) -> Policy:
        return Policy(
            retry=self.retry,
            timeout=None if self.timeout is None else seconds(self.timeout),
            max_crashes=self.max_crashes,
            retention=self.retention,
            keep_result=self.keep_result,
        )

    def headers_json(self) -> str | None:
        if not self.headers:
            return None
        if not all(isinstance(x, str) for pair in self.headers.items() for x in pair):
            raise BadOption("headers", "a mapping of text to text", self.headers)
        text = msgspec.json.encode(dict(self.headers)).decode()
        if len(text) > HEADERS_LIMIT:
            raise BadOption("headers", f"at most {HEADERS_LIMIT} bytes as JSON", len(text))
        return text


class JobMaker:
    """Makes NewJobs of one task with one set of options: what is constant is made once."""

    def __init__(self, task: str, options: Options) -> None:
        self._task = task
        self._options = options
        self._policy = encode_policy(options.policy())
        self._headers = options.headers_json()
        self._delay = None if options.delay is None else seconds(options.delay)
        self._deadline_at, self._deadline_in = _split_deadline(options.deadline)
        self._run_at = None if options.run_at is None else options.run_at.astimezone(UTC)

    def make(self, args: str, job_id: JobId | None = None) -> NewJob:
        options = self._options
        unique = None if options.unique is None else self._unique(options.unique, args)
        return NewJob(
            job_id or new_job_id(None if unique is None else unique.key),
            self._task,
            options.queue,
            args,
            self._policy,
            options.priority,
            self._run_at,
            self._delay,
            self._deadline_at,
            self._deadline_in,
            unique,
            options.tags,
            self._headers,
        )

    def _unique(self, by: str | UniqueBy, args: str) -> Unique:
        by = UniqueBy(key=by) if isinstance(by, str) else by
        own = self._task if by.scope == "task" else self._options.queue
        value = by.key if by.key is not None else _chosen(self._task, by.args or (), args)
        return Unique(f"{by.scope}:{own}:{value}", by.states, by.on_conflict)


def _chosen(task: str, names: tuple[str, ...], args: str) -> str:
    """The chosen arguments as canonical JSON, or a digest of it where it is long."""
    given: dict[str, Any] = msgspec.json.decode(args)
    missing = [name for name in names if name not in given]
    if missing:
        raise BadOption(f"task {task!r}: unique args", "arguments of this call", missing[0])
    chosen = {name: given[name] for name in (names or given)}
    text = msgspec.json.encode(chosen, order="deterministic").decode()
    if len(text) <= 256:
        return text
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def seconds(wait: Seconds) -> float:
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


def check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not NAME.match(name):
        raise BadOption(
            what, "1 to 128 letters, digits or _ . : / - (not starting with a sign)", name
        )


def check_job_id(job_id: str) -> JobId:
    import uuid

    try:
        return JobId(str(uuid.UUID(job_id)))
    except (ValueError, AttributeError, TypeError):
        raise BadOption("job id", "a UUID", job_id) from None


def _check_priority(priority: object) -> None:
    match priority:
        case bool():
            pass
        case int() if abs(priority) <= PRIORITY_LIMIT:
            return
    raise BadOption(
        "priority", f"a whole number from -{PRIORITY_LIMIT} to {PRIORITY_LIMIT}", priority
    )


def _check_times(options: Options) -> None:
    if options.delay is not None and options.run_at is not None:
        raise BadOption("delay and run_at", "one of the two", "both")
    for name in ("delay", "timeout"):
        wait = getattr(options, name)
        if wait is not None and not 0 <= seconds(wait) < 3.2e9:
            raise BadOption(name, "0 seconds or more, less than 100 years", wait)
    for name in ("run_at", "deadline"):
        moment = getattr(options, name)
        if isinstance(moment, datetime) and moment.tzinfo is None:
            raise BadOption(name, "a datetime with a time zone (tzinfo=UTC)", moment)
    deadline = options.deadline
    if deadline is not None and not isinstance(deadline, datetime) and seconds(deadline) <= 0:
        raise BadOption("deadline", "a datetime, or more than 0 seconds from now", deadline)


def _check_tags(tags: Iterable[object]) -> None:
    for tag in tags:
        if not isinstance(tag, str) or not 0 < len(tag) <= 128 or "\x00" in tag:
            raise BadOption("tag", "1 to 128 characters of text", tag)


def _split_deadline(
    deadline: datetime | Seconds | None,
) -> tuple[datetime | None, float | None]:
    if deadline is None:
        return None, None
    if isinstance(deadline, datetime):
        return deadline.astimezone(UTC), None
    return None, seconds(deadline)
