"""JSON text as a store keeps it, and the value that it stands for."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import Unreadable
from holdfast.job.sealed import is_sealed, require_open, shown


def read_json(what: str, text: str) -> Any:
    """The value of a JSON text. Raises `Unreadable` if the text is no JSON, and `NoKey` if it is
    still encrypted."""
    require_open(text)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Unreadable(what, str(error)) from None


def shown_text(text: str | None) -> msgspec.Raw | str | None:
    """A JSON text to be put into another one as it is; a text that is no JSON becomes a text of
    it."""
    try:
        return None if text is None else msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def shown_value(text: str | None) -> Any:
    """The value of a JSON text, for whoever looks at a job; the text itself if it is no JSON, so
    that one damaged row spoils no list. Of a text that is still encrypted it is said that it is."""
    if is_sealed(text):
        return shown(text or "")
    try:
        return None if text is None else msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
