"""Sets up the logging of a process that is nothing but a worker, as `holdfast worker` starts it.

What the program has set up itself stays: its handlers, their formats and levels. A worker that a
program runs as a library, with `app.run_worker()` or `app.worker()`, never comes here.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator

import msgspec

from holdfast.logs.formats import JobFields, JsonLines, TextLines

LEVELS = ("debug", "info", "warning", "error")
DEFAULT = "info"


class LogPlan(msgspec.Struct, frozen=True):
    """What was asked for. Without a `level` it is INFO, unless the program has chosen one."""

    level: str | None = None
    as_json: bool = False


_in_force: LogPlan | None = None


def plan_in_force() -> LogPlan | None:
    """What the child processes of this process are set up with, too."""
    return _in_force


def set_up_logs(plan: LogPlan) -> None:
    """Let lines come to standard error, once each. Safe to call twice. To be called when the
    modules of the program are imported, because they may set up logging."""
    global _in_force
    _in_force = plan
    _enable_own_loggers()
    level = (plan.level or DEFAULT).upper()
    if plan.as_json:
        for handler in _handlers():
            if _writes_to_terminal(handler):
                handler.setFormatter(JsonLines())
    root, own = logging.getLogger(), logging.getLogger("holdfast")
    if not root.handlers or (plan.as_json and not any(map(_writes_to_terminal, root.handlers))):
        root.addHandler(_own_handler(plan))
        root.setLevel(level)
    if plan.level is not None or own.level == logging.NOTSET:
        own.setLevel(level)
    for handler in _handlers():
        if not any(isinstance(one, JobFields) for one in handler.filters):
            handler.addFilter(JobFields())


def _own_handler(plan: LogPlan) -> logging.Handler:
    handler = logging.StreamHandler()
    coloured = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    handler.setFormatter(JsonLines() if plan.as_json else TextLines(colour=coloured))
    handler.addFilter(_is_unwritten)
    return handler


def _is_unwritten(record: logging.LogRecord) -> bool:
    """Whether no handler of the program has written the record to the terminal. Django's own
    loggers have such a handler, and their records come to the root's handler besides."""
    logger = _loggers().get(record.name)
    while isinstance(logger, logging.Logger) and logger.parent is not None:
        if any(_has_written(handler, record) for handler in logger.handlers):
            return False
        logger = logger.parent
    return True


def _has_written(handler: logging.Handler, record: logging.LogRecord) -> bool:
    enough = record.levelno >= handler.level
    return enough and _writes_to_terminal(handler) and bool(handler.filter(record))


def _writes_to_terminal(handler: logging.Handler) -> bool:
    terminals = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    return isinstance(handler, logging.StreamHandler) and handler.stream in terminals


def _handlers() -> Iterator[logging.Handler]:
    for logger in (logging.getLogger(), *_loggers().values()):
        if isinstance(logger, logging.Logger):
            yield from logger.handlers


def _loggers() -> dict[str, logging.Logger | logging.PlaceHolder]:
    return logging.Logger.manager.loggerDict


def _enable_own_loggers() -> None:
    """`logging.config` disables every logger that exists and that it does not name, unless told
    otherwise: a worker whose program sets up logging by it would fall silent."""
    for name, logger in _loggers().items():
        if isinstance(logger, logging.Logger) and f"{name}.".startswith("holdfast."):
            logger.disabled = False
