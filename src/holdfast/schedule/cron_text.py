"""The text of a cron expression, read term by term before `cronsim` gets it.

cronsim reads most terms as Debian's cron does. Here the rest of what people write is brought into
that form, and what nobody can mean is refused by the name of its field:

| term | where | means |
|---|---|---|
| `fri-mon`, `22-2/2`, `nov-feb` | everywhere | a range that goes on at the start of its field |
| `?` | day of month, weekday | `*`, as in Quartz |
| `L-3` | day of month | three days before the last |
| `15W`, `L-3W` | day of month | the weekday (Monday to Friday) nearest to that day, in its month |
| `friL` | weekday | `5L`: the last Friday of the month |
| `6-6/12` | everywhere | `6`: a step stays within its range |
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from holdfast.errors import BadOption

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
EXPECTED = (
    "a cron expression of 5 fields (minute hour day month weekday), 6 fields (second first) "
    "or one of " + ", ".join(ALIASES)
)
WEEKDAYS = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}
MONTHS = {"JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6}
MONTHS |= {"JUL": 7, "AUG": 8, "SEP": 9, "OCT": 10, "NOV": 11, "DEC": 12}
TERM = re.compile(r"(?P<low>\*|\w+)(?:-(?P<high>\w+))?(?:/(?P<step>\d+))?")
DAY = re.compile(r"(?P<day>\d+|L(?:-(?P<back>\d+))?)(?P<weekday>W?)")
NTH = re.compile(r"(?P<weekday>\w+?)(?P<which>L|#[1-5])")
MOST_BACK = 30


class Field(msgspec.Struct, frozen=True):
    """One of the six fields: its values, and their names."""

    name: str
    low: int
    high: int
    names: Mapping[str, int]

    def number(self, text: str, term: str) -> int:
        value = self.names.get(text, int(text) if text.isdecimal() else -1)
        if not self.low <= value <= self.high:
            raise self.wrong(term)
        return value

    def wrong(self, term: str, takes: str | None = None) -> ValueError:
        names = f" or {', '.join(self.names).lower()}" if self.names else ""
        takes = takes or f"it takes {self.low} to {self.high}{names}"
        random = "~" in term or term.startswith("H")
        hint = "; for times by chance use jitter=…" if random else ""
        return ValueError(f"{term.lower()!r} is no {self.name}: {takes}{hint}")


SECOND = Field("second", 0, 59, {})
MINUTE = Field("minute", 0, 59, {})
HOUR = Field("hour", 0, 23, {})
DAY_OF_MONTH = Field("day of month", 1, 31, {})
MONTH = Field("month", 1, 12, MONTHS)
WEEKDAY = Field("weekday", 0, 7, WEEKDAYS)
FIELDS = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, WEEKDAY)


class SpecialDay(msgspec.Struct, frozen=True):
    """A day of the month that cronsim has no form for: `day`, or `back` days before the last; with
    `nearest`, the nearest day from Monday to Friday."""

    day: int | None
    back: int
    nearest: bool


class CronText(msgspec.Struct, frozen=True):
    """An expression for cronsim, always with six fields, and the days that cronsim cannot read. If
    `only_special`, its day of month stands for nothing."""

    fields: tuple[str, ...]
    special: tuple[SpecialDay, ...]
    only_special: bool

    @property
    def text(self) -> str:
        return " ".join(self.fields)

    @property
    def elapsed(self) -> bool:
        """Whether a field below the hours begins with `*`: Vixie's wildcard jobs."""
        return any(field.startswith("*") for field in self.fields[:2])


def read_text(text: str) -> CronText:
    """The expression as cronsim takes it. Raises BadOption that names the field."""
    parts = ALIASES.get(text.strip().lower(), text).upper().split()
    try:
        if len(parts) == 5:
            parts = ["0", *parts]
        if len(parts) != 6:
            raise ValueError(_wrong_count(parts))
        _refuse_numbers_beside_question_mark(parts)
        special, days = _days_of_month(parts[3])
        parts[3] = days or "1"
        fields = [_field(field, part) for field, part in zip(FIELDS, parts, strict=True)]
    except ValueError as error:
        raise BadOption("cron", f"{EXPECTED} ({error})", text) from None
    return CronText(tuple(fields), special, not days)


def _wrong_count(parts: list[str]) -> str:
    if parts and parts[0].startswith("@"):
        return "intervals are every=timedelta(…)" if parts[0] == "@EVERY" else "no such word"
    years = ": years are not a field, use start=… and end=…" if len(parts) == 7 else ""
    return f"it has {len(parts)} fields{years}"


def _refuse_numbers_beside_question_mark(parts: list[str]) -> None:
    """An expression with `?` comes from Quartz or from Spring, and these two number weekdays
    differently."""
    if "?" in parts[3:6] and any(letter.isdigit() for letter in re.sub(r"[#/]\d+", "", parts[5])):
        raise ValueError(
            "beside '?' a weekday must be a name such as mon: Quartz counts from 1 for Sunday, "
            "cron from 0"
        )


def _days_of_month(part: str) -> tuple[tuple[SpecialDay, ...], str]:
    """The special days of the field, and the rest of its terms."""
    special, rest = [], []
    for term in part.split(","):
        found = DAY.fullmatch(term)
        if found is None or term == "LW" or not (found["back"] or found["weekday"]):
            rest.append(term)
            continue
        back = int(found["back"] or 0)
        if back > MOST_BACK:
            raise DAY_OF_MONTH.wrong(term, f"it takes L-1 to L-{MOST_BACK}")
        day = None if term.startswith("L") else DAY_OF_MONTH.number(found["day"], term)
        special.append(SpecialDay(day, back, bool(found["weekday"])))
    return tuple(special), ",".join(rest)


def _field(field: Field, part: str) -> str:
    return ",".join(_term(field, term) for term in part.split(","))


def _term(field: Field, term: str) -> str:
    if term == "?" and field in (DAY_OF_MONTH, WEEKDAY):
        return "*"
    if field is DAY_OF_MONTH and term in ("L", "LW"):
        return term
    if field is WEEKDAY and (nth := NTH.fullmatch(term)):
        return f"{field.number(nth['weekday'], term)}{nth['which']}"
    found = TERM.fullmatch(term)
    if found is None or (found["low"] == "*" and found["high"]):
        raise field.wrong(term)
    if found["step"] is not None and int(found["step"]) == 0:
        raise field.wrong(term, "a step is at least 1")
    return term if found["low"] == "*" else _range(field, term, found)


def _range(field: Field, term: str, found: re.Match[str]) -> str:
    low, step = field.number(found["low"], term), found["step"]
    if found["high"] is None:
        return str(low) if step is None else f"{low}/{step}"
    high = field.number(found["high"], term)
    if low < high:
        return f"{low}-{high}" + ("" if step is None else f"/{step}")
    return ",".join(map(str, _wrapped(field, low, high)[:: int(step or 1)]))


def _wrapped(field: Field, low: int, high: int) -> list[int]:
    """The values from `low` to the end of the field, and from its start to `high`."""
    top = field.high
    if field is WEEKDAY:  # 7 is Sunday too
        low, high, top = low % 7, high % 7, 6
    if low <= high:
        return list(range(low, high + 1))
    return [*range(low, top + 1), *range(field.low, high + 1)]
