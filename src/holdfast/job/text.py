"""Text for people: such as every store can keep, cut to what a row can bear, and counts."""

from __future__ import annotations

MESSAGE_LIMIT = 8_192
TRACEBACK_LIMIT = 16_384


def clean(text: str, limit: int, *, keep_end: bool = False) -> str:
    """Text that every store can keep: no NUL, no lone surrogate, cut between characters.

    A traceback is cut at its start, because its last lines say what happened.
    """
    safe = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if len(safe) <= limit:
        return safe
    return "…" + safe[len(safe) - limit + 1 :] if keep_end else safe[: limit - 1] + "…"


def describe(error: BaseException) -> str:
    """The exception's own words; a broken `__str__` is the user's and must not stop us."""
    try:
        return str(error) or type(error).__name__
    except Exception as broken:  # noqa: BLE001 - any error of the user's own class
        return f"{type(error).__name__} (its message cannot be shown: {type(broken).__name__})"


def counted(number: int, thing: str, things: str | None = None) -> str:
    """A number with its noun, and with a verb where both numbers of it are given.

    >>> counted(1, "job"), counted(1234, "job"), counted(2, "job waits", "jobs wait")
    ('1 job', '1,234 jobs', '2 jobs wait')
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"
