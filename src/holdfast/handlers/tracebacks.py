"""The text of a traceback, cheap where many attempts fail in the same way.

While a service is down, all handlers that call it fail at the same place. The lines of a traceback
for one place do not change while the program runs, and making them is most of the cost: the
standard library checks the file's date and compiles the line to point at the part that failed. So
these lines are kept.
"""

from __future__ import annotations

import linecache
import traceback
from functools import lru_cache
from itertools import islice
from types import CodeType, TracebackType

PLACES = 1024
DEEPEST = 50
"""Frames. A deeper stack is most often a recursion, which the standard library shortens."""


def format_traceback(error: BaseException) -> str:
    """The same text as `traceback.format_exception` gives."""
    frames = list(islice(traceback.walk_tb(error.__traceback__), DEEPEST + 1))
    if len(frames) > DEEPEST or _has_others(error):
        return "".join(traceback.format_exception(error))
    places = "".join(_places(error.__traceback__))
    head = "Traceback (most recent call last):\n" if places else ""
    return head + places + "".join(traceback.format_exception_only(error))


def _has_others(error: BaseException) -> bool:
    """Whether other exceptions belong to this one: a cause, a context, or members of a group."""
    hidden = error.__suppress_context__ or error.__context__ is None
    return isinstance(error, BaseExceptionGroup) or error.__cause__ is not None or not hidden


def _places(entry: TracebackType | None) -> list[str]:
    found = []
    while entry is not None:
        code = entry.tb_frame.f_code
        linecache.lazycache(code.co_filename, entry.tb_frame.f_globals)
        found.append(_place(code, entry.tb_lasti, entry.tb_lineno))
        entry = entry.tb_next
    return found


@lru_cache(maxsize=PLACES)
def _place(code: CodeType, instruction: int, line: int) -> str:
    positions = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    _, end_line, column, end_column = positions
    summary = traceback.FrameSummary(
        code.co_filename,
        line,
        code.co_name,
        end_lineno=end_line,
        colno=column,
        end_colno=end_column,
    )
    return "".join(traceback.StackSummary.from_list([summary]).format())
