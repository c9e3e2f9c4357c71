"""What must not be shown: the one place where values of jobs become what people may see.

Command line, logs, spans, audit and everything else that shows, logs or exports a job goes through
here. Nothing here changes what is stored.

- `redact` is for any text: it hides passwords in URLs, and values behind names that are secret.
- `Redactor` is for one job: it hides values in the job's JSON by their names and by the rules of
  its task, and removes the hidden arguments from every other text of the job, such as the message
  of an exception that repeats them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec

from holdfast.job.redacted_json import (
    HIDDEN,
    MOST_DEPTH,
    TOO_DEEP,
    Path,
    quoted,
    redacted_json,
)
from holdfast.job.sealed import MARK, shown
from holdfast.job.secret import (
    PLAIN_SECRET_WORDS,
    is_secret_name,
    may_have_secret_name,
    may_name_secret,
)

RETURN: Final = "return"
"""The first name of a path that means the result. No parameter of a function can have it."""

SHORTEST_SECRET, SHORTEST_NUMBER = 4, 3
WORD_SECRET = 8
"""A hidden value that is shorter is removed from texts only where it stands alone: as a part of
longer words it would tear holes into everything."""
LONGEST_PATTERN = 2_048
"""A longer value is looked for in the forms that it most often has, and not in every form."""
KEPT, LONGEST_KEPT = 256, 4_096
CUT: Final = "…"
"""Where a stored text was cut, with what may be half a secret before or behind it."""

_URL = re.compile(r"(://[^\s:/@'\"]{0,256}):(?!\d{1,5}(?:[/?#\s'\"]|$))[^\s'\"]{1,1024}@")
_LOGIN = re.compile(r"((?<![^\s'\"(,;=<])[^\s:/@'\"]{0,256}):[^\s@/'\"]{1,1024}@")
_QUERY = re.compile(r"([?&;]([\w.\[\]-]{1,128})=)[^\s&;#'\"<>]+")
_IN_QUOTES = r"(?P<quote>\\?['\"])(?P<value>(?:\\.|(?!(?P=quote))[^\\\n]){1,8192}?)(?P=quote)"
_QUOTED_PAIR = re.compile(
    rf"(?P<before>(?P<q>\\?['\"])(?P<name>[\w.\[\] -]{{1,128}})(?P=q)\s*[:=]\s*){_IN_QUOTES}"
)
_QUOTED_VALUE = re.compile(
    rf"(?P<before>(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{{0,127}})\s*=\s*){_IN_QUOTES}"
)
_BARE = re.compile(r"((?<![\w.-])([A-Za-z_][\w.-]{0,127})=)[^\s,;&'\"(){}\[\]]+")
_HEADER = re.compile(r"(\b(?:proxy-)?(?:authorization|(?:set-)?cookie)\s*:\s*)[^\n]+", re.I)
_BEARER = re.compile(r"(\bbearer\s+)[\w.~+/=-]{6,}", re.I)
_MOST_ROUNDS = 8
_PLAIN = re.compile("[A-Za-z0-9]+")
_ESCAPES: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


class Rules(msgspec.Struct, frozen=True):
    """What is hidden of the jobs of one task, beside what is secret by its name. `only_types`:
    nobody knows the task, so no value of its jobs is shown."""

    paths: tuple[Path, ...] = ()
    only_types: bool = False

    @property
    def of_args(self) -> tuple[Path, ...]:
        if not self.paths:  # most tasks have no rules
            return ()
        return tuple(path for path in self.paths if path[0] != RETURN)

    @property
    def of_result(self) -> tuple[Path, ...]:
        return tuple(path[1:] for path in self.paths if path[0] == RETURN)


BY_NAME: Final = Rules()
UNKNOWN: Final = Rules(only_types=True)


def redact(text: str) -> str:
    """The text without passwords of URLs, and without values behind names that are secret. Where
    many attempts fail in the same way, the same texts come again: they are looked at once.

    >>> redact("cannot reach postgres://ann:secret@db/jobs?sslkey=abc")
    'cannot reach postgres://ann:***@db/jobs?sslkey=abc'
    >>> redact("Login(user='ann', password='hunter2')")
    "Login(user='ann', password='***')"
    """
    return (_redacted if len(text) > LONGEST_KEPT else _kept)(text)


def _redacted(text: str) -> str:
    if MARK in text:
        text = shown(text)
    if "@" in text:
        text = _LOGIN.sub(rf"\1:{HIDDEN}@", _URL.sub(rf"\1:{HIDDEN}@", text))
    if not may_name_secret(text):
        return text
    for sign, pattern, instead in _BY_NAME:
        if sign in text:
            text = pattern.sub(instead, text)
    return text


_kept = lru_cache(maxsize=KEPT)(_redacted)


def _by_name(found: re.Match[str]) -> str:
    return f"{found[1]}{HIDDEN}" if is_secret_name(found[2]) else found[0]


def _by_plain_name(found: re.Match[str]) -> str:
    secret = is_secret_name(found[2], PLAIN_SECRET_WORDS)
    return f"{found[1]}{HIDDEN}" if secret else found[0]


def _by_quoted_name(found: re.Match[str]) -> str:
    value = HIDDEN
    if not is_secret_name(found["name"]):
        value = found.re.sub(_by_quoted_name, found["value"])  # JSON may stand inside a text
    return f"{found['before']}{found['quote']}{value}{found['quote']}"


_BY_NAME: Final[tuple[tuple[str, re.Pattern[str], Any], ...]] = (
    ("=", _QUERY, _by_name),
    ("=", _QUOTED_VALUE, _by_quoted_name),
    (":", _QUOTED_PAIR, _by_quoted_name),
    ("=", _BARE, _by_plain_name),
    (":", _HEADER, rf"\1{HIDDEN}"),
    (" ", _BEARER, rf"\1{HIDDEN}"),
)
"""The sign without which a pattern finds nothing, the pattern, and what it is replaced by."""


def redact_value(value: object, depth: int = 0) -> Any:
    """A value of Python as logs and the audit may show it: what stands under a secret name is
    hidden, at any depth, and every text is redacted. Objects of other classes stay as they are."""
    if depth > MOST_DEPTH:
        return TOO_DEEP
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {
                name: HIDDEN if is_secret_name(str(name)) else redact_value(inner, depth + 1)
                for name, inner in value.items()
            }
        case list():
            return [redact_value(inner, depth + 1) for inner in value]
        case tuple():
            return tuple(redact_value(inner, depth + 1) for inner in value)
        case _:
            return value


class Redactor:
    """Shows the texts of one job. `args` and `headers` are what the store keeps of it. Without
    `args` nobody knows the job any more: if its task hides arguments, its texts are hidden too,
    because they may repeat what nobody can look for."""

    def __init__(self, rules: Rules, args: str | None, headers: str | None = None) -> None:
        self._rules = rules
        self._args = args
        self._headers = headers
        self._found: tuple[_HiddenValue, ...] | None = None

    def text(self, text: str) -> str:
        """A message, a traceback or any other text about the job."""
        if self._args is None and self._rules != BY_NAME:
            return HIDDEN
        for _ in range(_MOST_ROUNDS):  # what replaces one secret may complete another
            before, text = text, redact(self._without_secrets(text))
            if text == before:
                break
        return text

    def args(self) -> str:
        """The arguments, as JSON."""
        return self._shown("" if self._args is None else self._args, self._rules.of_args)

    def headers(self) -> str | None:
        """The headers, as JSON."""
        return None if self._headers is None else self._shown(self._headers, ())

    def result(self, text: str) -> str:
        """The result, as JSON."""
        return self._shown(text, self._rules.of_result)

    def json(self, text: str) -> str:
        """Any other JSON of the job, such as its checkpoint."""
        return self._shown(text, ())

    def _shown(self, text: str, paths: tuple[Path, ...]) -> str:
        return redacted_json(text, paths, self.text, only_types=self._rules.only_types)[0]

    def _without_secrets(self, text: str) -> str:
        if self._found is None:  # looked for with the first text
            self._found = self._secrets()
        for secret in self._found:
            text = secret.removed_from(text)
        return text

    def _secrets(self) -> tuple[_HiddenValue, ...]:
        """The values that are hidden in arguments and headers; the longest first, since one may be
        a part of another."""
        rules = self._rules
        hidden: list[str] = []
        for text, paths in ((self._args, rules.of_args), (self._headers, ())):
            if text and (paths or rules.only_types or may_have_secret_name(text)):
                hidden += redacted_json(text, paths, str, only_types=rules.only_types)[1]
        if not hidden:
            return ()
        values = {value for one in hidden for value in (one, *one.splitlines()) if _is_worth(value)}
        return tuple(map(_HiddenValue, sorted(values, key=len, reverse=True)))


def _is_worth(value: str) -> bool:
    """Whether a hidden value is removed from texts. Of a shorter one nobody could say whether the
    text means it."""
    shortest = SHORTEST_NUMBER if value.isdigit() else SHORTEST_SECRET
    return len(value) >= shortest and bool(value.strip(" *"))


class _HiddenValue:
    """A value that texts of its job must not repeat, however they quote and escape it."""

    def __init__(self, value: str) -> None:
        self._value = value
        self._part = max(_PLAIN.findall(value), key=len, default="")

    def removed_from(self, text: str) -> str:
        if self._part in text and len(self._value) <= len(text):
            text = self._whole_removed(text)
        return self._without_halves(text) if CUT in (text[:1], text[-1:]) else text

    def _whole_removed(self, text: str) -> str:
        if len(self._value) <= LONGEST_PATTERN:
            return self._pattern.sub(HIDDEN, text)
        for form in (self._value, repr(self._value)[1:-1], quoted(self._value)[1:-1]):
            text = text.replace(form, HIDDEN)
        return text

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        inside = "".join(map(_in_any_form, self._value))
        alone = len(self._value) < WORD_SECRET
        return re.compile(rf"(?<!\w){inside}(?!\w)" if alone else inside)

    def _without_halves(self, text: str) -> str:
        """Without the beginning of the value where the text was cut at its end, and without the
        end of the value where the text was cut at its start."""
        value = self._value
        if text.endswith(CUT):
            for start in _places(value[:SHORTEST_SECRET], text):
                if value.startswith(text[start:-1]):
                    text = f"{text[:start]}{HIDDEN}{CUT}"
                    break
        if text.startswith(CUT):
            for start in reversed(_places(value[-SHORTEST_SECRET:], text)):
                if value.endswith(text[1 : start + SHORTEST_SECRET]):
                    return f"{CUT}{HIDDEN}{text[start + SHORTEST_SECRET :]}"
        return text


def _places(part: str, text: str) -> list[int]:
    """Where a part begins in a text, also if its places overlap."""
    return [found.start() for found in re.finditer(f"(?={re.escape(part)})", text)]


def _in_any_form(letter: str) -> str:
    """A pattern for one letter of a value: as it is, escaped by Python or JSON, also several times
    over, or as a part of an address."""
    if letter.isascii() and letter.isalnum():
        return letter
    number = ord(letter)
    named = _ESCAPES.get(letter, "")
    address = "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "replace"))
    forms = [
        rf"\\*{re.escape(letter)}",
        rf"\\+(?:x{number:02x}|u{number:04x}|U{number:08x})",
        address,
    ]
    if number > 0xFFFF:  # JSON writes two halves
        high, low = divmod(number - 0x10000, 0x400)
        forms.append(rf"\\+u{0xD800 + high:04x}\\+u{0xDC00 + low:04x}")
    if named:
        forms.append(rf"\\+{named}")
    if letter == "\\":
        forms = [r"\\+", address]
    return f"(?:{'|'.join(forms)})"
