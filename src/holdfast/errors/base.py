"""The root of all errors, and errors about options, which any part may raise."""

from __future__ import annotations


class HoldfastError(Exception):
    """Base of all errors that Holdfast raises on purpose."""


class BadOption(HoldfastError):
    """An option, name or setting outside its range."""

    def __init__(self, option: str, expected: str, got: object) -> None:
        super().__init__(f"{option} must be {expected}, got {shown(got)}")
        self.option = option
        self.expected = expected
        self.got = got


def shown(got: object) -> str:
    """The value in at most 500 characters. This never raises, although `repr` may: a number may be
    too long to be written, and a class of the user may break in its own `__repr__`."""
    try:
        text = repr(got)
    except Exception:  # noqa: BLE001 - whatever the value's own class does
        return f"a value of type {type(got).__name__}"
    return text if len(text) <= 500 else f"{text[:500]}…"


class Refused(HoldfastError):
    """An operation that the job's state does not allow; nothing was changed."""
