"""JSON text without the values that must not be shown.

The text is copied token by token, and only hidden values are replaced. So whatever is shown stands
there as it is stored: the order of names, a number of fifty digits, a name that is there twice. A
text that is no JSON is not shown at all, because nobody knows where its secrets begin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.job.sealed import MARK, SHOWN, is_sealed, shown
from holdfast.job.secret import is_secret_name

HIDDEN: Final = "***"
TOO_DEEP: Final = "…"
MOST_DEPTH = 50
"""Levels that are shown. What lies deeper could not be drawn, and a program could not read it."""

ANY: Final = "*"
ANY_DEPTH: Final = "**"
Path = tuple[str, ...]
"""Names from the outside inwards. `*` stands for any one name, `**` for any number of names."""

_TEXT = r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"'
_TOKEN = re.compile(rf'[ \t\n\r]*({_TEXT}|[{{}}\[\],:]|[^\s{{}}\[\],:"]+)')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
_TYPES: Final = {
    '"': '"<text>"',
    "{": '"<object>"',
    "[": '"<list>"',
    "t": '"<boolean>"',
    "f": '"<boolean>"',
    "n": "null",
}
_NUMBER_TYPE: Final = '"<number>"'
_SHOWN_TYPES: Final = frozenset({*_TYPES.values(), _NUMBER_TYPE})
_CLOSING: Final = {"{": "}", "[": "]"}

ShowText = Callable[[str], str]


def redacted_json(
    text: str, paths: Sequence[Path], show: ShowText, *, only_types: bool = False
) -> tuple[str, list[str]]:
    """The text as it may be shown, and every text and number that was hidden in it.

    `paths` are hidden beside what is secret by its name. `show` gives each text that is not hidden
    as it may be shown. With `only_types` no value is shown, and the names of the outermost object.
    """
    if is_sealed(text):
        return quoted(shown(text)), []
    if text.startswith(f'"{SHOWN}'):  # the client has put these words in its place already
        return text, []
    copy = _Copy(text, show)
    try:
        copy.whole(tuple(path for path in paths if path), () in paths, only_types)
    except _NoJson:
        return quoted(f"<no JSON: {len(text)} characters>"), [text]
    return "".join(copy.shown), copy.hidden


def quoted(text: str) -> str:
    """A text as JSON. A lone surrogate, which has no form in UTF-8, is replaced."""
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()


class _NoJson(Exception):
    """The text is no JSON."""


class _Copy:
    """One pass over one text."""

    def __init__(self, text: str, show: ShowText) -> None:
        self.shown: list[str] = []
        self.hidden: list[str] = []
        self._text = text
        self._show = show
        self._at = 0

    def whole(self, paths: tuple[Path, ...], all_hidden: bool, only_types: bool) -> None:
        if all_hidden:
            self._hide()
        elif not only_types:
            self._value(paths, 1)
        elif self._peek() != "{":
            self._type()
        elif not self._encrypted():
            self._object(lambda name: self._type())
        if self._text[self._at :].strip(" \t\n\r"):
            raise _NoJson

    # One value, which stands next in the text

    def _value(self, paths: tuple[Path, ...], depth: int) -> None:
        token = self._peek()
        if token in _CLOSING and depth > MOST_DEPTH:
            self._skip()
            self.shown.append(quoted(TOO_DEEP))
        elif token == "{":
            if not self._encrypted():
                self._object(lambda name: self._named(name, paths, depth))
        elif token == "[":
            # A path goes through a list: "cards.number" means the number of each card.
            self._list(paths, _behind(paths, ANY), depth)
        else:
            self.shown.append(self._leaf(self._next()))

    def _named(self, name: str, paths: tuple[Path, ...], depth: int) -> None:
        behind = _behind(paths, name) if paths else ()
        if () in behind or is_secret_name(name):
            self._hide()
        else:
            self._value(behind, depth + 1)

    def _object(self, value: Callable[[str], None]) -> None:
        def pair() -> None:
            token = self._next()
            if token[0] != '"':
                raise _NoJson
            self.shown.append(self._leaf(token))
            self._expect(":")
            value(_unquoted(token))

        self._members("{", pair)

    def _list(self, paths: tuple[Path, ...], behind: tuple[Path, ...], depth: int) -> None:
        both = (*paths, *filter(None, behind))
        self._members("[", self._hide if () in behind else lambda: self._value(both, depth + 1))

    def _members(self, opening: str, member: Callable[[], None]) -> None:
        closing = _CLOSING[opening]
        self._expect(opening)
        if self._peek() == closing:
            self._expect(closing)
            return
        while True:
            member()
            token = self._next()
            self.shown.append(token)
            if token == closing:
                return
            if token != ",":
                raise _NoJson

    def _leaf(self, token: str) -> str:
        """A text, a number or a word as it is shown."""
        if token[0] != '"':
            if token not in ("true", "false", "null") and not _NUMBER.match(token):
                raise _NoJson
            return token
        try:
            text = msgspec.json.decode(token, type=str)
        except (msgspec.DecodeError, UnicodeError):
            raise _NoJson from None
        shown = self._show(text)
        return token if shown == text else quoted(shown)

    def _hide(self) -> None:
        self._skip()
        self.shown.append(quoted(HIDDEN))

    def _type(self) -> None:
        token = self._peek()
        if token in _SHOWN_TYPES:
            self.shown.append(self._next())
            return
        self.shown.append(_TYPES.get(token[0], _NUMBER_TYPE))
        self._skip()

    def _encrypted(self) -> bool:
        """Show a value that was encrypted by the name of its key, if one stands next."""
        if not self._text.startswith(MARK, self._at):
            return False
        self.shown.append(quoted(shown(self._skip(keep=False))))
        return True

    def _skip(self, *, keep: bool = True) -> str:
        """Pass over one value, and answer with its text. Its texts and numbers are `hidden`, unless
        they need not be kept."""
        began, open_now = self._at, list[str]()
        while True:
            token = self._next()
            if token in _CLOSING:
                open_now.append(_CLOSING[token])
            elif token in "}]":
                if not open_now or open_now.pop() != token:
                    raise _NoJson
            elif not open_now and token in ",:":
                raise _NoJson
            elif keep and self._is_hidden_leaf(token):
                self.hidden.append(_unquoted(token))
            if not open_now:
                break
        return self._text[began : self._at].strip(" \t\n\r")

    def _is_hidden_leaf(self, token: str) -> bool:
        """Whether a token that was passed over is a text or a number, and no name in an object."""
        if token[0] == '"':
            following = _TOKEN.match(self._text, self._at)
            return following is None or following[1] != ":"
        return _NUMBER.match(token) is not None

    # Tokens

    def _next(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise _NoJson
        self._at = found.end()
        return found[1]

    def _peek(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise _NoJson
        return found[1]

    def _expect(self, sign: str) -> None:
        if self._next() != sign:
            raise _NoJson
        self.shown.append(sign)


def _behind(paths: tuple[Path, ...], name: str) -> tuple[Path, ...]:
    """What is left of the paths inside the value of this name; () for a path that ends there."""
    left: dict[Path, None] = {}
    for path in paths:
        while path and path[0] == ANY_DEPTH:
            left[path] = None
            path = path[1:]
        if path and path[0] in (name, ANY):
            left[path[1:]] = None
    return tuple(left)


def _unquoted(token: str) -> str:
    if token[0] != '"':
        return token
    try:
        return msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeError):  # a lone surrogate, or an escape that is none
        return token[1:-1]
