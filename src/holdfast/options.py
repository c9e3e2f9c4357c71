"""The options of one enqueue: checked early, frozen, and turned into a NewJob.

A task carries defaults, `using(...)` lays others over them; nothing is
written before every option has been found good.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, get_args
from uuid import UUID

import msgspec

from holdfast.codec.signature import Signature
from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.ids import JobId, new_job_id
from holdfast.job.policy import Policy, Retention, encode_policy
from holdfast.job.record import NewJob
from holdfast.job.retry import Retry
from holdfast.job.state import LIVE, JobState
from holdfast.job.unique import OnConflict, Unique

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}\Z")
PRIORITY_LIMIT = 32_767
HEADERS_LIMIT = 8 * 1024

Seconds = float | timedelta
Scope = Literal["task", "queue"]


class UniqueBy(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two enqueues the same job.

    Either an explicit `key`, or chosen arguments: `args=("user_id",)`, or
    `args=()` for all of them; one that a call leaves out counts with its
    default. With `scope="task"` (default) keys of different
    tasks never meet; with `scope="queue"` they meet within one queue.
    """

    key: str | None = None
    args: tuple[str, ...] | None = None
    scope: Scope = "task"
    states: frozenset[JobState] = LIVE
    on_conflict: OnConflict = "keep"

    def __post_init__(self) -> None:
        if (self.key is None) == (self.args is None):
            got = "neither" if self.key is None else "both"
            raise BadOption("unique", "either a key or a choice of args", got)
        if self.key is not None:
            checks.text("unique key", self.key, 512)
        if self.args is not None:
            msgspec.structs.force_setattr(
                self, "args", _texts("unique args", self.args, 512, "unique args")
            )
        if self.scope not in get_args(Scope):
            raise BadOption("unique scope", "task or queue", self.scope)
        if self.on_conflict not in get_args(OnConflict):
            raise BadOption("on_conflict", "keep, replace or debounce", self.on_conflict)
        msgspec.structs.force_setattr(self, "states", _states(self.states))


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
    id: str | UUID
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
    id: str | UUID | None = None
    connection: Any = None

    def using(self, given: Mapping[str, Any]) -> Options:
        unknown = set(given) - set(self.__struct_fields__)
        if unknown:
            known = ", ".join(sorted(self.__struct_fields__))
            raise BadOption("option", f"one of {known}", ", ".join(sorted(unknown)))
        merged = msgspec.structs.replace(self, **given)
        if "tags" in given:
            tags = _texts("tags", given["tags"], 128, "tag")
            msgspec.structs.force_setattr(merged, "tags", tags)
        merged._check()
        return merged

    def _check(self) -> None:
        check_name("queue", self.queue)
        check_priority(self.priority)
        _check_times(self)
        if self.id is not None:
            check_job_id(self.id)
        if isinstance(self.unique, str):
            UniqueBy(key=self.unique)
        elif self.unique is not None and not isinstance(self.unique, UniqueBy):
            raise BadOption("unique", "a key or a UniqueBy", self.unique)
        self.policy()
        self.headers_json()

    def policy(self) -> Policy:
        return Policy(
            retry=self.retry,
            timeout=None if self.timeout is None else _timeout(self.timeout),
            max_crashes=self.max_crashes,
            retention=self.retention,
            keep_result=self.keep_result,
        )

    def headers_json(self) -> str | None:
        if not isinstance(self.headers, Mapping):
            raise BadOption("headers", "a mapping of text to text", self.headers)
        if not self.headers:
            return None
        texts = [text for pair in self.headers.items() for text in pair]
        if not all(isinstance(text, str) for text in texts):
            raise BadOption("headers", "a mapping of text to text", self.headers)
        if not all(map(checks.is_encodable, texts)):
            raise BadOption("headers", "text that UTF-8 can carry", self.headers)
        text = msgspec.json.encode(dict(self.headers)).decode()
        if len(text) > HEADERS_LIMIT:
            raise BadOption("headers", f"at most {HEADERS_LIMIT} bytes as JSON", len(text))
        return text


class JobMaker:
    """Makes NewJobs of one task with one set of options: what is constant is made once."""

    def __init__(self, task: str, options: Options, signature: Signature | None = None) -> None:
        self._task = task
        self._options = options
        self._signature = signature
        _check_chosen(task, options.unique, signature)
        self._policy = encode_policy(options.policy())
        self._headers = options.headers_json()
        self._delay = None if options.delay is None else checks.wait("delay", options.delay)
        self._deadline_at, self._deadline_in = _split_deadline(options.deadline)
        self._run_at = None if options.run_at is None else checks.moment("run_at", options.run_at)

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
        value = by.key if by.key is not None else self._chosen(by.args or (), args)
        return Unique(f"{by.scope}:{own}:{value}", by.states, by.on_conflict)

    def _chosen(self, names: tuple[str, ...], args: str) -> str:
        """The chosen arguments as canonical JSON, or a digest of it where it is long. Where the
        signature is known, calls that mean the same are the same: defaults are filled in."""
        signature = self._signature
        given = msgspec.json.decode(args) if signature is None else signature.completed(args)
        missing = [name for name in names if name not in given]
        if missing:
            option = f"task {self._task!r}: unique args"
            raise BadOption(option, "arguments of this call", missing[0])
        chosen = {name: given[name] for name in (names or given)}
        text = msgspec.json.encode(chosen, order="deterministic").decode()
        if len(text) <= 256:
            return text
        import hashlib

        return hashlib.sha256(text.encode()).hexdigest()


def _check_chosen(task: str, by: str | UniqueBy | None, signature: Signature | None) -> None:
    if not isinstance(by, UniqueBy) or signature is None:
        return
    known = signature.parameters.parameters
    for name in by.args or ():
        if name not in known:
            expected = f"parameters of the task: {', '.join(known)}"
            raise BadOption(f"task {task!r}: unique args", expected, name)


def seconds(wait: object) -> float:
    """A wait as a number; whether it is in range is for the option that it belongs to."""
    found = wait.total_seconds() if isinstance(wait, timedelta) else checks.number(wait)
    if math.isnan(found) and not isinstance(wait, float):
        raise BadOption("a wait", "seconds or a timedelta", wait)
    return found


def _texts(option: str, given: object, longest: int, each: str) -> tuple[str, ...]:
    """A text is iterable too, but its letters were never meant one by one."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadOption(option, "a list of texts, such as ['mail']", given)
    return tuple(checks.text(each, text, longest) for text in given)


def _states(given: object) -> frozenset[JobState]:
    expected = f"a set of states, such as {{'ready', 'running'}}, out of {', '.join(JobState)}"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadOption("unique states", expected, given)
    named = list(given)
    if not named or not all(isinstance(state, str) and state in _STATES for state in named):
        raise BadOption("unique states", expected, given)
    return frozenset(map(JobState, named))


_STATES = frozenset(JobState)


def check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not NAME.match(name):
        raise BadOption(
            what, "1 to 128 letters, digits or _ . : / - (not starting with a sign)", name
        )


def check_job_id(job_id: object) -> JobId:
    """Its one spelling, whether it comes as text or as a `uuid.UUID`."""
    try:
        return JobId(str(UUID(str(job_id))))
    except ValueError:
        raise BadOption("job id", "a UUID", job_id) from None


def check_priority(priority: object) -> None:
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
    if options.delay is not None:
        checks.wait("delay", options.delay)
    if options.run_at is not None:
        checks.moment("run_at", options.run_at)
    _split_deadline(options.deadline)


def _timeout(given: Seconds) -> float:
    return checks.wait("timeout", given, zero=False, otherwise="None, or ")


def _split_deadline(
    deadline: datetime | Seconds | None,
) -> tuple[datetime | None, float | None]:
    if deadline is None:
        return None, None
    if isinstance(deadline, datetime):
        return checks.moment("deadline", deadline), None
    return None, checks.wait("deadline", deadline, zero=False, otherwise="a datetime, or ")
