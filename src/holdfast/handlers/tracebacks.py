"""The text of a traceback, cheap where many attempts fail in the same way.

While a service is down, all handlers that call it fail at the same place. The lines of a traceback
for one place do not change while the program runs, and making them is most of the cost: the
standard library checks the file's date and compiles the line to point at the part that failed. So
these lines are kept.
"""

from __future__ import annotations

import linecache
import traceback
from itertools import islice
from types import CodeType, TracebackType

PLACES = 1024
DEEPEST = 50
"""Frames. A deeper stack is most often a recursion, which the standard library shortens."""
_SAID_MORE_OF = (SyntaxError, NameError, AttributeError, ImportError)
"""Exceptions of which the standard library says more than their own words."""

_kept: dict[tuple[CodeType, int], str] = {}


def format_traceback(error: BaseException) -> str:
    """The same text as `traceback.format_exception` gives."""
    places = None if _has_others(error) else _places(error.__traceback__)
    if places is None:
        return "".join(traceback.format_exception(error))
    head = "Traceback (most recent call last):\n" if places else ""
    return f"{head}{''.join(places)}{_last_lines(error)}"


def _has_others(error: BaseException) -> bool:
    """Whether other exceptions belong to this one: a cause, a context, or members of a group."""
    hidden = error.__suppress_context__ or error.__context__ is None
    return isinstance(error, BaseExceptionGroup) or error.__cause__ is not None or not hidden


def _last_lines(error: BaseException) -> str:
    kind, said = type(error), _said(error)
    if not said or isinstance(error, _SAID_MORE_OF) or hasattr(error, "__notes__"):
        return "".join(traceback.format_exception_only(error))
    module = "" if kind.__module__ in ("__main__", "builtins") else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}: {said}\n"


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the user's own class; the standard library has words for it
        return ""


def _places(entry: TracebackType | None) -> list[str] | None:
    """The lines of each place, None if there are too many places."""
    found: list[str] = []
    while entry is not None:
        if len(found) == DEEPEST:
            return None
        place = (entry.tb_frame.f_code, entry.tb_lasti)
        found.append(_kept.get(place) or _new_place(entry, place))
        entry = entry.tb_next
    return found


def _new_place(entry: TracebackType, place: tuple[CodeType, int]) -> str:
    code, instruction = place
    linecache.lazycache(code.co_filename, entry.tb_frame.f_globals)
    positions = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    _, end_line, column, end_column = positions
    summary = traceback.FrameSummary(
        code.co_filename,
        entry.tb_lineno,
        code.co_name,
        end_lineno=end_line,
        colno=column,
        end_colno=end_column,
    )
    if len(_kept) >= PLACES:
        _kept.clear()
    _kept[place] = text = "".join(traceback.StackSummary.from_list([summary]).format())
    return text
