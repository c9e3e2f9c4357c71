"""Which argument of a call does not fit, and why: said to the caller, who can mend it."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.codec.messages import CHANGED, NO_NAN, clean, misplaced, unwritable
from holdfast.codec.parameters import is_required
from holdfast.codec.structs import ENCODER, passed
from holdfast.codec.types import Adapter, has_nan, loss, plain


def lost_in(sent: Struct, arrived: Struct, adapters: Mapping[str, Adapter]) -> str | None:
    """Which argument would arrive changed, or None. Arguments that compare unequal may still have
    arrived: a tuple arrives as a list, and some classes compare by identity."""
    for name, value in passed(sent).items():
        came = getattr(arrived, name)
        if value != came and (lost := lost_value(name, value, came, adapters.get(name))):
            return lost
    return None


def lost_value(name: str, value: Any, came: Any, adapter: Adapter | None) -> str | None:
    """How this argument would arrive changed, or None."""
    show = adapter.plain if adapter else plain
    if found := loss(show(value), show(came)):
        advice = NO_NAN if has_nan(show(value)) else "pass or annotate its real type"
        return f"parameter {name!r}: {found}: {advice}"
    return None


def blamed(sent: Struct, exc: Exception, adapters: Mapping[str, Adapter]) -> str:
    """Name the parameter behind a failed write or read."""
    fields = passed(sent)
    for name, value in fields.items():
        if (found := blamed_value(name, value, adapters.get(name))) is not None:
            return found
    return misplaced(str(exc), fields)


def blamed_value(name: str, value: Any, adapter: Adapter | None) -> str | None:
    """Why this argument has no JSON form, or None."""
    try:
        adapter.write(value) if adapter else ENCODER.encode(value)
        lost = has_nan(adapter.plain(value) if adapter else plain(value))
    except Exception as cause:  # noqa: BLE001 - the user's code, and told to the caller
        return f"parameter {name!r}: {unwritable(cause)}"
    return f"parameter {name!r}: {NO_NAN}" if lost else None


def misfit(known: Mapping[str, Parameter], text: str | bytes, exc: Exception, advice: str) -> str:
    """Why arguments in JSON do not fit. Names every parameter that the function has lost or
    gained."""
    try:
        stored = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError) as cause:
        return f"the arguments are not a JSON object: {clean(str(cause))}"
    gone = sorted(stored.keys() - known.keys())
    new = sorted(p.name for p in known.values() if is_required(p) and p.name not in stored)
    if gone:
        return f"it takes no {', '.join(map(repr, gone))}: {advice}"
    if new:
        mended = "; a new parameter needs a default" if advice is CHANGED else ""
        return f"no value for {', '.join(map(repr, new))}: {advice}{mended}"
    return f"{misplaced(str(exc), {})}: {advice}"
