"""How a record becomes a line, and how a handler's own records name their job."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.context import HOLDER
from holdfast.logs.records import VOCABULARY, Shown, shown

UNREAD = frozenset({"max_attempts"})
"""Fields that only programs read."""
COLOURS = {"WARNING": "33", "ERROR": "31", "CRITICAL": "1;31", "DEBUG": "2"}
_OF_EVERY_RECORD = frozenset(logging.makeLogRecord({}).__dict__) | {
    *("message", "asctime", "taskName", "event", "fields"),
    *VOCABULARY,
}


FieldGiver = Callable[[], Mapping[str, object]]
_givers: list[FieldGiver] = []


def add_fields(giver: FieldGiver) -> None:
    """Have `JobFields` give each record these fields too. One that is None is `missing`."""
    if giver not in _givers:
        _givers.append(giver)


class JobFields(logging.Filter):
    """Gives each record that a handler's code logs the fields of its job: `job_id`, `task`,
    `queue`, `attempt` and `fence`, whichever logger it uses. Elsewhere they are `missing`.

    Add it to handlers, not to loggers: a filter of a logger does not see records of the loggers
    below it. It drops no record.
    """

    def __init__(self, missing: object = None) -> None:
        super().__init__()
        self._missing = missing

    def filter(self, record: logging.LogRecord) -> bool:
        known = record.__dict__
        for giver in _givers:
            for key, value in giver().items():
                known.setdefault(key, self._missing if value is None else value)
        if "job_id" in known:
            return True  # the record names its job itself
        holder = HOLDER.get(None)
        job = None if holder is None else holder.job
        for key, of_job in (
            ("job_id", "id"),
            ("task", "task"),
            ("queue", "queue"),
            ("attempt", "attempt"),
            ("fence", "fence"),
        ):
            known.setdefault(key, self._missing if job is None else getattr(job, of_job))
        return True


class TextLines(logging.Formatter):
    """A readable line: time, level, logger, in brackets the task and the id of the job, message."""

    def __init__(self, *, colour: bool = False) -> None:
        super().__init__()
        self._colours = COLOURS if colour else {}
        self._second = (0, "")

    def format(self, record: logging.LogRecord) -> str:
        known = record.__dict__
        level = f"{record.levelname:<7}"
        if record.levelname in self._colours:
            level = f"\033[{self._colours[record.levelname]}m{level}\033[0m"
        line = f"{self._time(record)} {level} {record.name}{_about(known)} {_said(record)}"
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        more = (record.exc_text, record.stack_info and self.formatStack(record.stack_info))
        return "\n".join([line, *filter(None, more)])

    def _time(self, record: logging.LogRecord) -> str:
        """Most records of a busy worker share their second with the one before."""
        second, text = self._second
        if second != int(record.created):
            second = int(record.created)
            text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
            self._second = (second, text)
        return f"{text},{int(record.msecs):03d}"


def _about(known: dict[str, Any]) -> str:
    job_id = known.get("job_id")
    if job_id is None:
        return ""
    task = known.get("task")
    return f" [{job_id}]" if task is None else f" [{task} {job_id}]"


def _said(record: logging.LogRecord) -> str:
    """The message. An event of a job does not repeat what stands in brackets."""
    args, known = record.args, record.__dict__
    if type(args) is not tuple or len(args) != 1 or type(args[0]) is not Shown:
        return record.getMessage()
    if known.get("job_id") is None:
        return record.getMessage()
    rest = shown(known["fields"], UNREAD)
    queue, attempt = known.get("queue"), known.get("attempt")
    about = "" if queue is None else f" queue={queue}"
    about += "" if attempt is None else f" attempt={attempt}"
    return f"{known['event']}{about} {rest}" if rest else f"{known['event']}{about}"


class JsonLines(logging.Formatter):
    """One JSON object a line, with the same names whoever logs: `at`, `level`, `logger`, `message`;
    `event` if it is one; `job_id`, `task`, `queue`, `attempt`, `fence`, `worker`, `trace_id` and
    `span_id` where they are known; `fields` with whatever else was given; `exception` with a
    traceback."""

    def format(self, record: logging.LogRecord) -> str:
        known = record.__dict__
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if "event" in known:
            line["event"] = known["event"]
        line["message"] = _said(record)
        line |= {key: known[key] for key in VOCABULARY if known.get(key) is not None}
        if fields := _fields(known):
            line["fields"] = fields
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        return _encoded(line)


def _fields(known: dict[str, Any]) -> dict[str, Any]:
    """What was given beside the message: by an event, or under `extra`."""
    own = known.get("fields")
    rest = {key: value for key, value in known.items() if key not in _OF_EVERY_RECORD}
    return {**own, **rest} if isinstance(own, dict) else rest


def _encoded(line: dict[str, object]) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=str).decode()
    except Exception:  # noqa: BLE001 - whatever a program gave, its line is written
        import json

        shown = {key: repr(value) if key == "fields" else value for key, value in line.items()}
        return json.dumps(shown, default=repr)
