"""Logging of a worker process: readable lines, or one JSON object a line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from holdfast.cli.target import UsageProblem

LEVELS = ("debug", "info", "warning", "error")
LINE = "%(asctime)s %(levelname)-7s %(message)s"
ABOUT_JOB = ("job_id", "task", "queue", "attempt")
_OF_EVERY_LINE = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def set_up_logs(level: str, *, as_json: bool) -> None:
    """Set up logging to standard error. An app that has set up logging itself keeps its own, unless
    JSON was asked for."""
    if level.lower() not in LEVELS:
        raise UsageProblem(f"--log-level must be one of {', '.join(LEVELS)}; got {level!r}")
    if as_json:
        handler = logging.StreamHandler()
        handler.setFormatter(JsonLines())
        logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    else:
        logging.basicConfig(level=level.upper(), format=LINE)
    logging.getLogger("holdfast").setLevel(level.upper())


class JsonLines(logging.Formatter):
    """One JSON object a line. An event keeps its name and fields apart; a plain message has the
    values of its `extra` in `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        given = {key: value for key, value in vars(record).items() if key not in _OF_EVERY_LINE}
        if {"event", "fields"} <= given.keys():
            line |= {"event": given["event"], "fields": given["fields"]}
        else:
            line["message"] = record.getMessage()
            fields = {key: value for key, value in given.items() if key not in ABOUT_JOB}
            line |= {"fields": fields} if fields else {}
        line |= {key: getattr(record, key) for key in ABOUT_JOB if hasattr(record, key)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)
