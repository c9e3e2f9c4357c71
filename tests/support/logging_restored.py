"""Keeps what a command does to logging within the test that runs it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logging_restored() -> Iterator[None]:
    """`holdfast worker` adds a filter to the handlers of its process. Run by a test, that process
    is pytest's, whose handlers serve all tests after it."""
    root = logging.getLogger()
    handlers, level, own = list(root.handlers), root.level, logging.getLogger("holdfast").level
    filters = [list(handler.filters) for handler in handlers]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.getLogger("holdfast").setLevel(own)
        for handler, kept in zip(handlers, filters, strict=True):
            handler.filters[:] = kept
