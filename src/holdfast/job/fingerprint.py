"""One short name for all errors that have the same cause.

An error is told by its task, its kind, its message and the places in the user's own code that it
came through. What differs from job to job is left out: numbers, ids, quoted texts, paths, addresses
and times in the message; line numbers and folders in the traceback. Only text is read, so an error
has the same fingerprint on the loop, in a thread and in a child process, and whoever wrote it down.

The texts are the user's and may be anything. Every pattern here reads its text once, from left to
right, and no text is read beyond `MOST_MESSAGE` and `MOST_TRACEBACK`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

MOST_MESSAGE = 1_024
MOST_TRACEBACK = 65_536
MOST_SHAPE = 256
"""Characters of a message that count, after what differs has been left out."""
MOST_FRAMES = 5
MOST_ERRORS = 16
"""Errors of one traceback that count: those of a chain nearest to the end, members of a group."""
LONGEST_WORD = 40
"""A longer word is no word of a language: it is a key, a token, or encoded data."""

DIGEST_BYTES = 8

KEPT, PLACES_KEPT, LONGEST_KEPT = 256, 128, 4_096
"""While a service is down, the same errors come again and again: what was made of so many texts is
kept, unless they are longer."""


def fingerprint(task: str, kind: str, message: str, traceback: str | None = None) -> str:
    """Sixteen hexadecimal digits. It never raises, whatever the texts are."""
    is_long = len(message) + len(traceback or "") > LONGEST_KEPT
    return (_fingerprint if is_long else _kept)(task, kind, message, traceback)


def _fingerprint(task: str, kind: str, message: str, traceback: str | None) -> str:
    parts = [task, kind, "" if kind == "RecursionError" else shape(message)]
    parts += _errors_of(_within_bounds(traceback or ""), kind)
    whole = "\x1f".join(parts).encode("utf-8", "replace")
    return blake2b(whole, digest_size=DIGEST_BYTES).hexdigest()


_kept = lru_cache(maxsize=KEPT)(_fingerprint)


# The message --------------------------------------------------------------------------------

# A pattern whose arms all begin with a known character is searched for fast.
_QUOTED = re.compile(
    r"'(?<!\w')(?:[^'\\\n]|\\.)*+'(?!\w)"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|`[^`\n]*+`|“[^”\n]*+”|«[^»\n]*+»|„[^“”\n]*+[“”]|「[^」\n]*+」"
)
_CUT_QUOTE = re.compile(r"(?:'(?<!\w')|[\"`“«„「])[^'\"`”»“」]*+\Z")
_URL = re.compile(r"(?<![\w+.-])[A-Za-z][\w+.-]*+://\S++")
_WORD = re.compile(r"[A-Za-z\d_.:@/\\~%+#$&!?-]++")
_LABELLED = re.compile(r"([A-Za-z_]{2,}:)(.++)")
_VARIES = re.compile(r"\d|@|\\|\A[~.]{0,2}/|/.*/|/.*\.|\..*/")
_HEX = re.compile(r"[0-9a-fA-F]{8,}")
_SEVERAL = re.compile(r"[\[({<]*+\*(?:\W*\*)?[\])}>]*+")
"""What differs, with all that differs behind it and the brackets around it: how many things there
are in a list differs too."""
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_CALENDAR = frozenset(part for name in (*_DAYS, *_MONTHS) for part in (name, name[:3]))


def shape(message: str) -> str:
    """The message without what differs from job to job.

    >>> shape("order 4711 of 'Ann' not found at /srv/v7/orders.db, tried 3 times")
    'order * of * not found at *, tried * time'
    >>> shape("Bestellung 4711 nicht gefunden") == shape("Bestellung 12 nicht gefunden")
    True
    """
    text = _QUOTED.sub("*", message[:MOST_MESSAGE])
    if len(message) > MOST_MESSAGE:
        text = _CUT_QUOTE.sub("*", text)
    if "://" in text:
        text = _URL.sub("*", text)
    text = _WORD.sub(_steady, text)
    return _SEVERAL.sub("*", " ".join(text.split()))[:MOST_SHAPE]


def _steady(found: re.Match[str]) -> str:
    """A word as it is the same for every job. What stands before a colon is a word of its own."""
    word = found[0]
    labelled = _LABELLED.fullmatch(word) if ":" in word else None
    return _judged(word) if labelled is None else labelled[1] + _judged(labelled[2])


def _judged(word: str) -> str:
    """`*` for a word that differs. Words that only differ in number, such as time and times, count
    as one."""
    bare = word.rstrip(".:!?")
    if _differs(bare):
        return "*" + word[len(bare) :]
    plural = len(bare) > 3 and bare.endswith("s")
    return (bare[:-1] if plural else bare) + word[len(bare) :]


def _differs(word: str) -> bool:
    if len(word) > LONGEST_WORD or word in _CALENDAR:
        return True
    if word.isalpha():
        return _HEX.fullmatch(word) is not None
    return _VARIES.search(word) is not None


# The traceback ------------------------------------------------------------------------------

_FILE = '\n  File "'
_FRAME = re.compile(_FILE + r'(.{1,400})", line \d+(?:, in (.+))?')
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n"
_MEMBER = re.compile(r"^ *\+(?:-\+)?-{10}.*$", re.MULTILINE)
_MARGIN = re.compile(r"^ *[|+] ", re.MULTILINE)
_GROUP = "Exception Group Traceback (most recent call last):"
_SUMMARY = re.compile(r"^(?!Traceback |Exception Group )(\w\S*?)(?:: (.*))?$", re.MULTILINE)
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")
_STANDARD = re.compile(
    r"[/\\]lib(?:64)?[/\\]python3[\d.]*[/\\]|[/\\]Python3\d*[/\\]Lib[/\\]|python3\d*\.zip[/\\]|\A<",
    re.IGNORECASE,
)
_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_NAMELESS = frozenset({"__init__.py", "__main__.py"})
_INLINED = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
"""Frames that newer Pythons no longer have."""


def _within_bounds(traceback: str) -> str:
    """Both ends of a long traceback: what is between them is a recursion or a long message."""
    if len(traceback) > MOST_TRACEBACK:
        half = MOST_TRACEBACK // 2
        traceback = f"{traceback[:half]}\n{traceback[-half:]}"
    return f"\n{traceback}"


def _errors_of(traceback: str, kind: str) -> Iterable[str]:
    """What tells the errors of a traceback. In a chain their order counts. Of the members of a
    group neither order nor number does: how many of a hundred calls fail differs."""
    if _GROUP not in traceback:
        errors = _chain(traceback)[-MOST_ERRORS:]
        return [*map(_error, errors[:-1]), _places(errors[-1], kind)]
    found = set[str]()
    for member in _MEMBER.split(traceback):
        found.update(map(_error, _chain(_MARGIN.sub("", member))))
    return sorted(found)[:MOST_ERRORS]


def _chain(text: str) -> list[str]:
    """The errors of a chain, the first one first."""
    return text.replace(_CONTEXT, _CAUSE).split(_CAUSE)


def _error(text: str) -> str:
    """The kind and message of one error in a traceback, and the places that it came through."""
    frames = list(_FRAME.finditer(text))
    summary = _SUMMARY.search(text, frames[-1].end() if frames else 0)
    if summary is None:
        return _places(text, "")
    return f"{summary[1]} {shape(summary[2] or '')} {_places(text, summary[1])}"


def places(traceback: str) -> list[str]:
    """Where an error happened in the user's own code, innermost first: `mail.py in send`. Of a
    chain only the last error counts, as its message does."""
    last = _chain(_within_bounds(traceback))[-1]
    found = dict.fromkeys(f"{name} in {function or '?'}" for name, function in reversed(_own(last)))
    return list(found)[:MOST_FRAMES]


def _places(text: str, kind: str) -> str:
    """The innermost places in the user's own code."""
    last = text.rfind(_FILE)
    if last == -1:
        return ""
    end = text.find("\n", last + 1)
    return _places_of(text if end == -1 else text[:end], kind)


@lru_cache(maxsize=PLACES_KEPT)
def _places_of(text: str, kind: str) -> str:
    """The places of a traceback that ends with its last frame, before what differs. Where a
    recursion is cut off is chance: of its places all those count that come again."""
    own = [f"{name}:{function}" for name, function in _own(text)]
    if kind == "RecursionError":
        chosen = sorted(place for place, times in Counter(own).items() if times > 1)
    else:
        chosen = list(dict.fromkeys(reversed(own)))[:MOST_FRAMES]
    return "\x1e".join(chosen)


def _own(text: str) -> list[tuple[str, str]]:
    """Files and functions outside installed packages. A program that is itself installed has none;
    its package is then that of the outermost frame."""
    frames = [
        (*whose, function)
        for file, function in _FRAME.findall(text)
        if function not in _INLINED and (whose := _whose(file)) is not None
    ]
    is_installed = frames and all(package for package, _, _ in frames)
    own = frames[0][0] if is_installed else ""
    return [(name, function) for package, name, function in frames if package == own]


@lru_cache(maxsize=1024)
def _whose(file: str) -> tuple[str, str] | None:
    """The installed package that a file belongs to, '' for none, and the file's name; None for a
    file of the standard library or of Holdfast. Folders are left out: each release may have its
    own. A file whose name says nothing goes by its folder too."""
    package = _INSTALLED.search(file)
    if file.startswith(_OURS) or (package is None and _STANDARD.search(file)):
        return None
    *folders, name = re.split(r"[/\\]", file)
    if name in _NAMELESS and folders:
        name = f"{folders[-1]}/{name}"
    return (package[1] if package else "", name)
