"""What the value of an option may be: one check for each kind, wherever options are given.

Jobs travel to the store in batches, and a policy is read by other programs. A value of the wrong
type that passes here would fail jobs that have nothing to do with it, so types are checked and not
only ranges. A bool is no number, and a number has to be finite. Every check answers with the plain
value to keep.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

from holdfast.errors import BadOption, UnknownJob
from holdfast.errors.base import shown
from holdfast.job.ids import JobId

_HEXADECIMAL = frozenset("0123456789abcdef")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}\Z")
PRIORITY_LIMIT = 32_767
LONGEST_WAIT = 36_500 * 86_400.0  # a hundred years: every store's clock can count that far
MOST = 2**31 - 1  # what a column of counts holds
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Between these a moment can be compared, shown and added to on every store. The ends of Python's
calendar cannot: Postgres takes them for infinity, and an hour more is an error everywhere."""


def number(value: object) -> float:
    """The value as a float, or NaN, with which every comparison fails, if it is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def seconds(option: str, value: object, *, least: float = 0.0, zero: bool = True) -> float:
    """A number of seconds, less than a hundred years."""
    found = number(value)
    if least <= found < LONGEST_WAIT and (zero or found > 0):
        return found
    raise BadOption(option, _range(least, zero), value)


def wait(option: str, value: object, *, zero: bool = True, otherwise: str = "") -> float:
    """The same as a number or a timedelta; `otherwise` names what else the option takes."""
    found = value.total_seconds() if isinstance(value, timedelta) else number(value)
    if 0 <= found < LONGEST_WAIT and (zero or found > 0):
        return found
    kinds = "a number or a timedelta, such as 300 or timedelta(minutes=5)"
    expected = f"{otherwise}{_range(0, zero)} ({kinds})"
    raise BadOption(option, expected, value)


def count(option: str, value: object, *, least: int = 1, most: int = MOST) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return int(value)
    is_more = isinstance(value, int) and value > most
    limits = f"at least {least}" if most == MOST and not is_more else f"from {least} to {most}"
    raise BadOption(option, f"a whole number, {limits}", value)


def share(option: str, value: object) -> float:
    found = number(value)
    if 0 < found <= 1:
        return found
    raise BadOption(option, "a number above 0 and at most 1", value)


def flag(option: str, value: object) -> bool:
    """Nothing else: the text "no" would count as yes."""
    if isinstance(value, bool):
        return value
    raise BadOption(option, "True or False", value)


def kind(option: str, value: object, wanted: type, expected: str) -> None:
    if not isinstance(value, wanted):
        raise BadOption(option, expected, value)


def function(option: str, value: object, expected: str) -> None:
    if not callable(value):
        raise BadOption(option, expected, value)


def replacements(option: str, value: object) -> None:
    """Values by the functions that they stand for."""
    if not isinstance(value, Mapping) or not all(map(callable, value)):
        expected = "values by the functions that make them, such as {http: FakeClient()}"
        raise BadOption(option, expected, value)


def text(option: str, value: object, longest: int) -> str:
    """Text that every store can keep."""
    if isinstance(value, str) and 0 < len(value) <= longest and is_storable(value):
        return value
    raise BadOption(option, f"1 to {longest} characters of text", value)


def shown_text(option: str, value: object) -> str:
    """Text for people, of any length: whoever stores it cuts it."""
    if isinstance(value, str):
        return value
    raise BadOption(option, "text", value)


def is_storable(value: object) -> bool:
    """Whether the value is text that every store can keep."""
    return isinstance(value, str) and "\x00" not in value and is_encodable(value)


def is_encodable(value: str) -> bool:
    """Whether the text has a form in UTF-8, which a lone surrogate has not."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def moment(option: str, value: object, *, otherwise: str = "") -> datetime:
    """A moment in UTC that every store can reckon with."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        expected = f"{otherwise}a datetime with a time zone (tzinfo=UTC)"
        raise BadOption(option, expected, value)
    if not EARLIEST <= value <= LATEST:
        expected = f"{otherwise}a moment from 1970 to the year 9000 (for never, leave it out)"
        raise BadOption(option, expected, value)
    return value.astimezone(UTC)


def _range(least: float, zero: bool) -> str:
    if not zero:
        return "more than 0 seconds, less than 100 years"
    if least:
        return f"at least {least:g} seconds, less than 100 years"
    return "0 seconds or more, less than 100 years"


def texts(option: str, given: object, longest: int, each: str) -> tuple[str, ...]:
    """A text is iterable too, but its letters were never meant one by one."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise BadOption(option, "a list of texts, such as ['mail']", given)
    return tuple(text(each, one, longest) for one in given)


def check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not NAME.match(name):
        raise BadOption(
            what, "1 to 128 letters, digits or _ . : / - (not starting with a sign)", name
        )


def check_fingerprint(fingerprint: object) -> str:
    if is_fingerprint(fingerprint):
        return str(fingerprint)
    raise BadOption("fingerprint", "16 hexadecimal digits", fingerprint)


def is_fingerprint(text: object) -> bool:
    """Whether a text could be what `holdfast.job.fingerprint` makes."""
    return isinstance(text, str) and len(text) == 16 and set(text) <= _HEXADECIMAL


def check_job_id(job_id: object) -> JobId:
    """Its one spelling, whether it comes as text or as a `uuid.UUID`."""
    try:
        return JobId(str(UUID(str(job_id))))
    except ValueError:
        raise BadOption("job id", "a UUID", job_id) from None


def known_job_id(job_id: object) -> JobId:
    """The id of a job to look for. A text that is no UUID, as it may stand in an address of a web
    page, is the id of no job."""
    try:
        return check_job_id(job_id)
    except BadOption:
        if not isinstance(job_id, str):
            raise
        raise UnknownJob(shown(job_id), "the id of a job is a UUID") from None


def check_priority(priority: object) -> None:
    match priority:
        case bool():
            pass
        case int() if abs(priority) <= PRIORITY_LIMIT:
            return
    raise BadOption(
        "priority", f"a whole number from -{PRIORITY_LIMIT} to {PRIORITY_LIMIT}", priority
    )
