"""What is said about arguments and results that do not fit, in words of the caller's own code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PLACE = re.compile(r"(.*) - at (`key` in )?`\$\.(\w+)(.*)`", re.DOTALL)

NO_NAN = "JSON has no NaN or infinity: use None or a str"
PLAIN_DATA = "pass plain data, such as an id, and build the object inside the task"
CHANGED = (
    "the function changed since this job was enqueued, or the code that gives the arguments has a "
    "slip"
)
WORD = r"^[^\x00]*\Z"
"""The pattern of a text that a program can be given."""
NO_OPTION = r"^(?!-)[^\x00]*\Z"
"""The same, of a text that the program cannot take for an option."""
_NUL = "it has a NUL character, which no program can be given"
_WORDS = {
    f"expected str matching regex {WORD!r}": _NUL,
    f"expected str matching regex {NO_OPTION!r}": "it begins with -, so the program would take it "
    f"for an option (if the program knows --, write that before its place in argv), or {_NUL}",
}
"""What msgspec says about patterns of ours, in words."""


def unwritable(exc: Exception, advice: str = PLAIN_DATA) -> str:
    """Why a value could not be written as JSON, and what to pass instead."""
    match exc:
        case UnicodeEncodeError():
            return f"a lone surrogate at position {exc.start} has no UTF-8 form: use bytes"
        case RecursionError():
            return f"it contains itself or is nested too deep: {advice}"
        case _:
            return f"{exc}: {advice}"


def misplaced(message: str, fields: Mapping[str, Any]) -> str:
    """msgspec's message, with the parameter's name in place of msgspec's path. Where msgspec saw
    only the JSON form of a value, the message names the Python type that was passed."""
    found = _PLACE.fullmatch(message)
    if found is None:
        return clean(message)
    what, key, name, inside = found.groups()
    if not (key or inside) and name in fields:
        what = re.sub("got `.*`", f"got {type(fields[name]).__name__}", what)
    where = f" at {inside.lstrip('.')}" if inside else ""
    return f"parameter {name!r}{where}{' in a key' if key else ''}: {clean(what)}"


def clean(message: str) -> str:
    """msgspec's message as a part of ours: no backticks, no capital at its start."""
    text = message.replace("`", "")
    text = text[:1].lower() + text[1:]
    return _WORDS.get(text, text)
