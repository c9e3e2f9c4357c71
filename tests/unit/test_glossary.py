"""The identifiers of `src` use the words of `docs/glossary.md`.

The page has the tables: words that are not used, with the better word, and words that are kept
free. To ban a word, add a row there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import PurePosixPath

import pytest

from tests.support.source import ROOT, modules

TEXT = (ROOT / "docs/glossary.md").read_text("utf-8")
CODE = re.compile(r"`([^`]+)`")
KINDS = frozenset({"class", "function", "constant", "module"})
IDENTIFIER = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True)
class Named:
    """One identifier that a module defines."""

    path: str
    name: str
    kind: str  # one of KINDS, or "variable"

    @cached_property
    def words(self) -> list[str]:
        return [word.lower() for word in IDENTIFIER.findall(self.name)]


@dataclass(frozen=True)
class Ban:
    """One word that may not be used as it is described."""

    word: str
    kind: str  # one of KINDS, or "word"
    below: str
    instead: str

    def forbids(self, found: Named) -> bool:
        if not found.path.startswith(self.below):
            return False
        if self.kind == "word":
            return self.word in found.words
        return found.kind == self.kind and found.name == self.word


@dataclass(frozen=True)
class Kept:
    """One word that only some modules may use."""

    word: str
    allowed: tuple[str, ...]

    def forbids(self, found: Named) -> bool:
        return self.word in found.words and not found.path.startswith(self.allowed)


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    section = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def bans() -> list[Ban]:
    found = []
    for words, kind, instead, _ in rows("Words that are not used"):
        below = "".join(CODE.findall(kind))
        for word in CODE.findall(words):
            found.append(Ban(word, kind.split()[0], below, instead))
    return found


def kept() -> list[Kept]:
    return [
        Kept(word, tuple(CODE.findall(purpose) + CODE.findall(meanwhile)))
        for words, purpose, meanwhile in rows("Words that are kept free")
        for word in CODE.findall(words)
    ]


def identifiers(path: str, tree: ast.Module) -> Iterator[Named]:
    yield Named(path, PurePosixPath(path).stem, "module")
    constants = {id(target) for node in tree.body for target in _targets(node)}
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                yield Named(path, name, "class")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield Named(path, name, "function")
            case ast.Name(id=name, ctx=ast.Store()):
                yield Named(path, name, "constant" if id(node) in constants else "variable")
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield Named(path, name, "variable")


def _targets(node: ast.stmt) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target):
            return [target]
    return []


@cache
def names() -> list[Named]:
    return [found for path, tree in modules().items() for found in identifiers(path, tree)]


def test_no_identifier_uses_a_word_that_has_a_better_one() -> None:
    everything = names()
    wrong = [
        f"{found.path}: {found.kind} {found.name}: not {ban.word}, but {ban.instead}"
        for ban in bans()
        for found in everything
        if ban.forbids(found)
    ]
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_words_that_are_kept_free_stand_only_where_the_glossary_says() -> None:
    everything = names()
    wrong = [
        f"{found.path}: {found.kind} {found.name}: {word.word} is kept free"
        for word in kept()
        for found in everything
        if word.forbids(found)
    ]
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_both_tables_are_read() -> None:
    assert len(bans()) > 50
    assert {ban.kind for ban in bans()} == KINDS | {"word"}
    assert {"server"} <= {word.word for word in kept()}
    assert all(word.allowed for word in kept())


@pytest.mark.parametrize(
    ("source", "kind", "name"),
    [
        ("class BackDesk: ...", "class", "BackDesk"),
        ("def look(): ...", "function", "look"),
        ("BITE = 500", "constant", "BITE"),
        ("def f(old_desk): ...", "variable", "old_desk"),
        ("self.strays = 1", "variable", "strays"),
    ],
)
def test_a_banned_word_is_found(source: str, kind: str, name: str) -> None:
    found = {one for one in identifiers("x.py", ast.parse(source)) if one.kind == kind}
    assert found == {Named("x.py", name, kind)}
    assert any(ban.forbids(one) for ban in bans() for one in found)


def test_words_are_told_apart_inside_a_name() -> None:
    assert Named("x.py", "_JSONLines_lostIn2", "class").words == [
        "json",
        "lines",
        "lost",
        "in",
        "2",
    ]
    assert not any(ban.forbids(Named("x.py", "outlook", "function")) for ban in bans())


def test_each_word_is_explained_once_and_none_is_banned_everywhere() -> None:
    explained = [
        word
        for title in re.findall(r"^## (?!Words)(.+)$", TEXT, re.MULTILINE)
        for cell, _ in rows(title)
        for word in cell.split(", ")
    ]
    assert len(explained) == len(set(explained)) > 60
    assert not {ban.word for ban in bans() if ban.kind == "word"} & set(explained)
