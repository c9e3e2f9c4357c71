"""Events become records of the standard library's logging.

A record has one vocabulary: `event` is the name, `job_id`, `task`, `queue`, `attempt`, `fence` and
`worker` are attributes where the event has them, and `fields` has the rest. The message is the
event's name and its fields as text, which is made only if somebody writes the record. Events of
jobs go to the logger `holdfast.jobs`, all others to `holdfast`.

Texts and mappings among the fields are redacted. What an event says about a single job was redacted
by the rules of its task before it was told.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import TracebackType
from typing import Self

from holdfast.events import Event, Events, Subscriber

logger = logging.getLogger("holdfast")
jobs_logger = logging.getLogger("holdfast.jobs")

VOCABULARY = ("job_id", "task", "queue", "attempt", "fence", "worker", "trace_id", "span_id")
"""What a record says about its job, if it is about one, by the same names everywhere."""
_VOCABULARY = frozenset(VOCABULARY)
_AS_EXCEPTION = frozenset({"exception", "traceback"})
"""Fields that a record carries as its exception."""

_NEVER_SECRET = frozenset({int, float, bool, type(None)})
_AS_IT_IS = _VOCABULARY | {"exception"}

ENDS = (
    *("job.succeeded", "job.snoozed", "job.suspended"),
    *("job.cancelled", "job.expired", "job.skipped", "job.handed_back"),
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
        is_one_word = type(value) is str and value.isprintable() and " " not in value
        plain = is_one_word or type(value) is int
        parts.append(f"{key}={value if plain else _text(key, value)}")
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
    fields = {
        key: value if type(value) in _NEVER_SECRET or key in _AS_IT_IS else _redacted(value)
        for key, value in event.fields.items()
        if key not in _AS_EXCEPTION
    }
    # The caller's place in the source would be a line of Holdfast, and finding it is dear.
    record = into.makeRecord(into.name, level, "", 0, f"{name} %s", (Shown(fields),), None)
    known, rest = record.__dict__, dict[str, object]()
    known["event"], known["fields"] = name, rest
    for key, value in fields.items():
        if key in _VOCABULARY:
            known[key] = value
        elif value is not None:
            rest[key] = value
    if "traceback" in event.fields and (level >= logging.ERROR or into.isEnabledFor(logging.DEBUG)):
        _add_traceback(record, event.fields)
    into.handle(record)


def _redacted(value: object) -> object:
    redact, redact_value = _redaction()
    return redact(value) if type(value) is str else redact_value(value)


@cache
def _redaction() -> tuple[Callable[[str], str], Callable[[object], object]]:
    # Not every program that logs has a text to hide, and its patterns take a while to compile.
    from holdfast.job.redaction import redact, redact_value

    return redact, redact_value


def log_hiding(event: Event) -> None:
    """The subscriber of an app that encrypts the texts of errors: a log must not tell what the
    store does not. Kinds of errors are told, and what Holdfast itself says."""
    hidden = _HIDDEN.get(event.name)
    if hidden is None:
        log_event(event)
        return
    fields = {
        name: hidden[name](value) if name in hidden and value is not None else value
        for name, value in event.fields.items()
    }
    log_event(Event(event.name, fields, event.level))


def _nothing(value: object) -> None:
    return None


def _that_it_is_hidden(value: object) -> str:
    return "hidden: errors are encrypted"


def _kind(value: object) -> str:
    """The class in front of an error's text, as in `ValueError: …` or `ValueError(…)`."""
    found = _CLASS.match(str(value))
    return "hidden" if found is None else found[0]


def _without_searched(value: object) -> object:
    """The words of a filter without the text of errors that it looks for."""
    if not isinstance(value, Mapping) or "error_text" not in value:
        return value
    return {**value, "error_text": "hidden"}


_CLASS = re.compile(r"[\w.]+")
_OF_ATTEMPTS = {
    "message": _that_it_is_hidden,
    "traceback": _nothing,
    "exception": _nothing,
}
_OF_ENDS = {"reason": _that_it_is_hidden}
_OF_CODE = {"error": _kind}
_HIDDEN: Mapping[str, Mapping[str, Callable[[object], object]]] = {
    **dict.fromkeys(("job.attempt_failed", "job.failed", "job.retried"), _OF_ATTEMPTS),
    **dict.fromkeys(("job.cancelled", "job.skipped", "job.snoozed"), _OF_ENDS),
    **dict.fromkeys(("schedule.evaluation_failed", "finisher.listener_failed"), _OF_CODE),
    "operator.acted": {"target": _without_searched},
}
"""The fields of events that may quote a user, and what is told instead of each."""


def _add_traceback(record: logging.LogRecord, fields: Mapping[str, object]) -> None:
    """The exception itself, for whoever reports errors, and its text, which is there already. Of an
    exception in a child process there is only the text."""
    error, text = fields.get("exception"), _redacted(fields["traceback"])
    if isinstance(error, BaseException):
        record.exc_info = (type(error), error, error.__traceback__)
    if isinstance(text, str):
        record.exc_text = text.rstrip("\n")


class JobLines:
    """A line for each job while workers of an app run: its end at INFO, its start at DEBUG.

    The level is asked for when the first worker starts. Below it nobody subscribes, and nothing is
    made for nobody. Two workers of one app in one process share the lines.
    """

    def __init__(self, events: Events, log: Subscriber = log_event) -> None:
        self._events = events
        self._log = log
        self._workers = 0
        self._unsubscribe: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        self._workers += 1
        if self._workers == 1:
            for level, names in ((logging.INFO, ENDS), (logging.DEBUG, ("job.started",))):
                if jobs_logger.isEnabledFor(level):
                    self._unsubscribe.append(self._events.subscribe(self._log, *names))
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
