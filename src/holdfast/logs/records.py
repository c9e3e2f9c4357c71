"""Events become records of the standard library's logging.

A record has one vocabulary: `event` is the name, `job_id`, `task`, `queue`, `attempt`, `fence` and
`worker` are attributes where the event has them, and `fields` has the rest. The message is the
event's name and its fields as text, which is made only if somebody writes the record. Events of
jobs go to the logger `holdfast.jobs`, all others to `holdfast`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from holdfast.events import Event, Events

logger = logging.getLogger("holdfast")
jobs_logger = logging.getLogger("holdfast.jobs")

VOCABULARY = ("job_id", "task", "queue", "attempt", "fence", "worker", "trace_id", "span_id")
"""What a record says about its job, if it is about one, by the same names everywhere."""
_VOCABULARY = frozenset(VOCABULARY)
_AS_EXCEPTION = frozenset({"exception", "traceback"})
"""Fields that a record carries as its exception."""

ENDS = (
    *("job.succeeded", "job.snoozed", "job.suspended"),
    *("job.cancelled", "job.expired", "job.handed_back"),
)
"""Events that are a line each at INFO. A failed attempt has its line anyway."""


class Shown:
    """The fields of an event as text, made when somebody reads it. Every record of an event has
    one as the argument of its message."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return shown(self._fields, _AS_EXCEPTION)


def shown(fields: Mapping[str, object], hidden: frozenset[str]) -> str:
    """These fields as text. One whose value nobody knows is left out."""
    parts = []
    for key, value in fields.items():
        if value is None or key in hidden:
            continue
        parts.append(f"{key}={value if type(value) is int else _text(key, value)}")
    return " ".join(parts)


def _text(key: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    text = str(value)
    # A stack has lines of its own. Every other text stays on the line of its event.
    if key == "stack" or not isinstance(value, str) or (text.isprintable() and " " not in text):
        return text
    return repr(text)


def log_event(event: Event) -> None:
    """The subscriber of every app: writes an event to the log."""
    name, level = event.name, event.level
    into = jobs_logger if name.startswith("job.") else logger
    if not into.isEnabledFor(level):
        return
    fields = event.fields
    # The caller's place in the source would be a line of Holdfast, and finding it is dear.
    record = into.makeRecord(into.name, level, "", 0, f"{name} %s", (Shown(fields),), None)
    known, rest = record.__dict__, dict[str, object]()
    known["event"], known["fields"] = name, rest
    for key, value in fields.items():
        if key in _VOCABULARY:
            known[key] = value
        elif value is not None and key not in _AS_EXCEPTION:
            rest[key] = value
    if "traceback" in fields and (level >= logging.ERROR or into.isEnabledFor(logging.DEBUG)):
        _add_traceback(record, fields)
    into.handle(record)


def _add_traceback(record: logging.LogRecord, fields: Mapping[str, object]) -> None:
    """The exception itself, for whoever reports errors, and its text, which is there already. Of an
    exception in a child process there is only the text."""
    error, text = fields.get("exception"), fields["traceback"]
    if isinstance(error, BaseException):
        record.exc_info = (type(error), error, error.__traceback__)
    if isinstance(text, str):
        record.exc_text = text.rstrip("\n")


class JobLines:
    """A line for each job while workers of an app run: its end at INFO, its start at DEBUG.

    The level is asked for when the first worker starts. Below it nobody subscribes, and nothing is
    made for nobody. Two workers of one app in one process share the lines.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._workers = 0
        self._unsubscribe: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        self._workers += 1
        if self._workers == 1:
            for level, names in ((logging.INFO, ENDS), (logging.DEBUG, ("job.started",))):
                if jobs_logger.isEnabledFor(level):
                    self._unsubscribe.append(self._events.subscribe(log_event, *names))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._workers -= 1
        while self._unsubscribe and not self._workers:
            self._unsubscribe.pop()()
