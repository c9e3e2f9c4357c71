"""Between Python's values and SQLite's: times are integer microseconds since 1970 UTC."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from holdfast.job.state import JobState

T = TypeVar("T")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000
# The last moment a datetime can say: a later one could be stored but never shown.
LATEST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND

STATES = {state.value: state for state in JobState}  # a third of what `JobState(…)` costs
_encoder = msgspec.json.Encoder()
_texts = msgspec.json.Decoder(tuple[str, ...])


def readable(read: Callable[..., T], *columns: Any) -> T | None:
    """What these columns say. None if something other than holdfast wrote one of them: SQLite keeps
    a text also where a number belongs. Doctor shows such a job, and lists, claims and sweeps go on
    without it."""
    try:
        return read(*columns)
    except (msgspec.DecodeError, TypeError, ValueError):
        return None


def require_numbers(*columns: object) -> None:
    for column in columns:
        if type(column) is not int:
            raise TypeError(f"expected a number, got {column!r}")


def to_micros(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


@lru_cache(maxsize=256)
def to_datetime(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=min(micros, LATEST))


def to_optional_datetime(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(microseconds=min(micros, LATEST))


def after(now: int, seconds: float) -> int:
    """The moment `seconds` after `now`, or the last moment of the calendar if that is earlier."""
    if not math.isfinite(seconds) or seconds * SECOND > LATEST - now:
        return LATEST
    return now + round(seconds * SECOND)


def seconds_until(moment: int, now: int) -> float:
    return (moment - now) / SECOND


def to_json(values: Iterable[object]) -> str:
    return _encoder.encode(list(values)).decode()


def to_json_object(values: Mapping[Any, object]) -> str:
    return _encoder.encode(values).decode()


def to_text(value: object) -> str:
    """One value as JSON."""
    return _encoder.encode(value).decode()


def to_each(values: Sequence[object]) -> list[str]:
    """Each of these values as JSON. It takes a fifth of what `to_text` takes for one after the
    other."""
    return _encoder.encode_lines(values).decode().split("\n")[:-1]


def to_texts(text: str | None) -> tuple[str, ...]:
    """Tags from JSON. A text that is no list of tags, which only another program can have written,
    is shown as one tag."""
    try:
        return () if text is None else _texts.decode(text)
    except msgspec.DecodeError:
        return (text,) if text else ()
