"""The filter as people write it: `queue:mail state:failed args.customer:42 since:2h`.

A filter is terms with blanks between them. A term is a word, a colon and a value. A value with
blanks stands in quotes, where `\\"` is a quote and `\\\\` a backslash. Terms of the words queue,
state, task and id may be repeated, and mean any of the values; tags and arguments may be repeated,
and mean all of them. A star at the end of a queue or task stands for any end. There are no other
patterns.

In `args.PATH` a value without quotes is a number, `true`, `false` or `null` if it reads so; in
quotes it is always text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from holdfast.clock import utcnow
from holdfast.errors import BadOption
from holdfast.insights.when import parse_moment
from holdfast.job import checks
from holdfast.job.checks import check_job_id, check_priority, is_fingerprint
from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter, Scalar

LONGEST = 4_096
MOST_TERMS = 50
_QUOTED = r'"(?:[^"\\]|\\["\\])*"'
_TERM = re.compile(
    rf'\s*(?P<word>[A-Za-z_]+)(?:\.(?P<path>{_QUOTED}|[^\s:"]+))?:(?P<value>{_QUOTED}|[^\s"]+)(?=\s|$)'
)
_BOUND = re.compile(r"(<=|>=|<|>|)(-?\d{1,10})")


class Term(NamedTuple):
    """`shown` is the term as it was written; `value` is without quotes."""

    shown: str
    word: str
    path: str | None
    value: str
    quoted: bool

    def refused(self, expected: str) -> BadOption:
        return BadOption(f"where: the value of {self.shown!r}", expected, self.value)


def parse_where(text: str, now: datetime | None = None) -> JobFilter:
    """The filter that a text stands for; raises `BadOption`, which names the term that is wrong.

    >>> parse_where("queue:mail task:send_* args.customer:42").args
    {'customer': 42}
    """
    if not 0 < len(text.strip()) <= LONGEST:
        expected = f"1 to {LONGEST:,} characters, such as 'queue:mail state:failed since:2h'"
        raise BadOption("where", expected, text)
    given: dict[str, Any] = {}
    moment = now or utcnow()
    for number, term in enumerate(_terms(text), start=1):
        if number > MOST_TERMS:
            raise BadOption("where", f"at most {MOST_TERMS} terms", number)
        READERS[term.word](given, term, moment)
    given["states"] = frozenset(given.get("states", ()))
    return JobFilter(**given)


def where_text(which: JobFilter) -> str:
    """The text that `parse_where` makes the same filter of.

    >>> where_text(JobFilter(queues=("mail",), tags=("very important",), priority_under=0))
    'queue:mail tag:"very important" priority:<0'
    """
    return " ".join(_written(which))


def _terms(text: str) -> Iterator[Term]:
    at = 0
    while text[at:].strip():
        found = _TERM.match(text, at)
        if found is None:
            rest = text[at:].strip()
            expected = 'terms such as queue:mail or error:"timed out", with blanks between them'
            raise BadOption("where", expected, rest)
        at = found.end()
        word, path, value = found["word"].lower(), found["path"], found["value"]
        if word not in READERS or (path is None) != (word != "args"):
            name = word if path is None else f"{word}.{path}"
            raise BadOption(f"where: the word of {found[0].strip()!r}", f"one of {WORDS}", name)
        plain_path = None if path is None else _unquoted(path)
        yield Term(found[0].strip(), word, plain_path, _unquoted(value), value.startswith('"'))


# Reading ------------------------------------------------------------------------------------

Given = dict[str, Any]
Reader = Callable[[Given, Term, datetime], None]


def _many(field: str, read: Callable[[Term], Any]) -> Reader:
    def reader(given: Given, term: Term, now: datetime) -> None:
        value = read(term)
        given[field] = tuple(dict.fromkeys((*given.get(field, ()), value)))

    return reader


def _once(field: str, read: Callable[[Term, datetime], Any]) -> Reader:
    def reader(given: Given, term: Term, now: datetime) -> None:
        _put(given, field, term, read(term, now))

    return reader


def _put(given: Given, field: str, term: Term, value: Any) -> None:
    if field in given:
        raise BadOption(f"where: {term.word!r}", "given once", term.shown)
    given[field] = value


def _name(term: Term) -> str:
    if "*" in term.value[:-1] or term.value == "*":
        raise term.refused("a name, or the beginning of a name and one star at its end")
    return _text(term)


def _state(term: Term) -> JobState:
    try:
        return JobState(term.value)
    except ValueError:
        raise term.refused(f"one of {', '.join(JobState)}") from None


def _text(term: Term, now: datetime | None = None) -> str:
    if not term.value or not checks.is_storable(term.value):
        raise term.refused("text")
    return term.value


def _id(term: Term, now: datetime | None = None) -> str:
    try:
        return check_job_id(term.value)
    except BadOption:
        raise term.refused("a UUID") from None


def _fingerprint(term: Term, now: datetime) -> str:
    if not is_fingerprint(term.value):
        raise term.refused("a fingerprint: 16 hexadecimal digits")
    return term.value


def _moment(term: Term, now: datetime) -> datetime:
    found = parse_moment(term.value, now)
    if found is None:
        raise term.refused("how long ago, such as 90s, 15m, 2h, 3d, or a time: 2026-03-01T12:00")
    return checks.moment(f"where: {term.shown!r}", found)


def _bound(term: Term, signs: str) -> tuple[str, int]:
    found = _BOUND.fullmatch(term.value)
    if found is None or (found[1] or "=") not in signs.split():
        raise term.refused(f"a whole number behind one of {signs.replace('= ', 'nothing, ', 1)}")
    return found[1], int(found[2])


def _priority(given: Given, term: Term, now: datetime) -> None:
    sign, number = _bound(term, "= < <= > >=")
    check_priority(number)
    match sign:
        case "":
            _put(given, "priority", term, number)
        case "<" | "<=":
            _put(given, "priority_under", term, number + (sign == "<="))
        case _:
            _put(given, "priority_over", term, number - (sign == ">="))


def _attempts(given: Given, term: Term, now: datetime) -> None:
    sign, number = _bound(term, "> >=")
    number -= sign == ">="
    if not 0 <= number < 2**31:
        raise term.refused("0 or more attempts")
    _put(given, "attempts_over", term, number)


def _argument(given: Given, term: Term, now: datetime) -> None:
    args = given.setdefault("args", {})
    if not checks.is_storable(term.path):
        raise BadOption(f"where: the path of {term.shown!r}", "text", term.path)
    if term.path in args:
        raise BadOption(f"where: 'args.{term.path}'", "given once", term.shown)
    args[term.path] = _text(term) if term.quoted else _scalar(term)


def _scalar(term: Term) -> Scalar:
    try:
        found: Scalar = msgspec.json.decode(term.value, type=int | float | bool | None)
    except (msgspec.DecodeError, UnicodeError):
        return _text(term)
    return found


READERS: dict[str, Reader] = {
    "id": _many("ids", _id),
    "queue": _many("queues", _name),
    "state": _many("states", _state),
    "task": _many("tasks", _name),
    "tag": _many("tags", _text),
    "args": _argument,
    "worker": _once("worker", _id),
    "fingerprint": _once("fingerprint", _fingerprint),
    "schedule": _once("schedule", _text),
    "priority": _priority,
    "attempts": _attempts,
    "since": _once("created_after", _moment),
    "until": _once("created_before", _moment),
    "finished_since": _once("finished_after", _moment),
    "finished_until": _once("finished_before", _moment),
    "error": _once("error_text", _text),
}
"""How each word of the grammar is read."""
WORDS = ", ".join("args.PATH" if word == "args" else word for word in READERS)


# Writing ------------------------------------------------------------------------------------


def _written(which: JobFilter) -> Iterator[str]:
    names = (("id", which.ids), ("queue", which.queues), ("state", sorted(which.states)))
    for word, values in (*names, ("task", which.tasks), ("tag", which.tags)):
        yield from (f"{word}:{_quoted(value)}" for value in values)
    for path, value in which.args.items():
        yield f"args.{_quoted(path, plain=_PLAIN_PATH)}:{_value_text(value)}"
    texts = (
        ("worker", which.worker),
        ("fingerprint", which.fingerprint),
        ("schedule", which.schedule),
        ("error", which.error_text),
    )
    yield from (f"{word}:{_quoted(text)}" for word, text in texts if text)
    numbers = (
        ("priority:", which.priority),
        ("priority:>", which.priority_over),
        ("priority:<", which.priority_under),
        ("attempts:>", which.attempts_over),
    )
    yield from (f"{word}{number}" for word, number in numbers if number is not None)
    moments = (
        ("since", which.created_after),
        ("until", which.created_before),
        ("finished_since", which.finished_after),
        ("finished_until", which.finished_before),
    )
    yield from (f"{word}:{moment.isoformat()}" for word, moment in moments if moment is not None)


_PLAIN = re.compile(r'[^\s"]+')
_PLAIN_PATH = re.compile(r'[^\s":]+')


def _quoted(text: str, plain: re.Pattern[str] = _PLAIN) -> str:
    if plain.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    return re.sub(r'\\(["\\])', r"\1", text[1:-1])


def _value_text(value: Scalar) -> str:
    """A text that would read as something else stands in quotes."""
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    try:
        msgspec.json.decode(value, type=int | float | bool | None)
    except (msgspec.DecodeError, UnicodeError):
        return _quoted(value)
    return f'"{value}"'
