"""What a filter asks of a job's body, decided in Python: SQL dialects read JSON in different ways,
and some raise an error at a text that is no JSON."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from holdfast.job.json_text import shown_value
from holdfast.job.sealed import is_sealed, read_envelope
from holdfast.store.contract.filters import JobFilter, Scalar

SCHEDULE_HEADER = "holdfast-schedule"
"""The header by which a job names the schedule that started it (`holdfast.schedule.plan_job`)."""
_PLAIN = re.compile(r'[^"\\/\x00-\x1f]+')
_INDEX = re.compile(r"\d{1,9}")
_ABSENT = object()


class BodyTest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tags, arguments and schedule that a filter names."""

    tags: tuple[str, ...] = ()
    args: dict[str, Scalar] = {}
    schedule: str | None = None

    @classmethod
    def of(cls, which: JobFilter) -> BodyTest | None:
        """None if the filter asks nothing of bodies."""
        if which.tags or which.args or which.schedule is not None:
            return cls(which.tags, which.args, which.schedule)
        return None

    def fits(self, tags: Collection[str], args: str, headers: str | None) -> bool:
        return (
            all(tag in tags for tag in self.tags)
            and (self.schedule is None or scheduled_by(headers) == self.schedule)
            and (not self.args or has_values(args, self.args))
        )


def has_values(args: str, wanted: dict[str, Scalar]) -> bool:
    """Whether a JSON text has these values at their paths. An encrypted text has none.

    >>> has_values('{"order": {"id": 7, "lines": ["a"]}}', {"order.id": 7.0, "order.lines.0": "a"})
    True
    >>> has_values('{"paid": true}', {"paid": 1})
    False
    """
    if is_sealed(args):
        return False
    whole = shown_value(args)
    return all(_same(_value_at(whole, path), value) for path, value in wanted.items())


def _value_at(value: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return _ABSENT
    return value


def _same(found: Any, wanted: Scalar) -> bool:
    """Numbers are equal by value, so 7 is 7.0; true and false are no numbers."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return bool(found == wanted)


def scheduled_by(headers: str | None) -> str | None:
    """The schedule that a job's headers name. It stays readable where they are encrypted."""
    if is_sealed(headers):
        return read_envelope(headers or "").schedule
    value = shown_value(headers)
    return value.get(SCHEDULE_HEADER) if isinstance(value, dict) else None


class Unusual(Enum):
    """How a JSON text may write a value without the piece that it mostly has."""

    ESCAPED = "a character by its number, as in \\u0041"
    EXPONENT = "a number with an exponent, as in 4.2e1"


class Piece(NamedTuple):
    """A text that every JSON text with a value has, unless the JSON text is unusual. So a store can
    leave out most rows before it reads any JSON."""

    text: str
    unless: Unusual

    @classmethod
    def of(cls, value: Scalar) -> Piece:
        match value:
            case str() if _PLAIN.fullmatch(value):
                return cls(f'"{value}"', Unusual.ESCAPED)
            case str():
                return cls(max(_PLAIN.findall(value), key=len, default=""), Unusual.ESCAPED)
            case bool() | None:
                return cls({True: "true", False: "false", None: "null"}[value], Unusual.ESCAPED)
            case int() | float():
                written = repr(value).removesuffix(".0")
                return cls("" if "e" in written else written, Unusual.EXPONENT)

    @classmethod
    def best(cls, args: dict[str, Scalar]) -> Piece | None:
        """The longest piece of any value: it leaves out the most. None without values."""
        return max(map(cls.of, args.values()), key=lambda piece: len(piece.text), default=None)
