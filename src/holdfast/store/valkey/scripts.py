"""Lua lives in files, `lua/<noun>/<verb>.lua`, each with its keys and arguments in the header.

    -- What the verb does.
    -- KEYS: partition
    -- ARGV: now worker wants
    -- uses: time record

The loader turns the header into locals of these names, so that a script reads `worker` and not
`ARGV[2]`. It puts the parts named by `uses` (files in `lua/parts`) before the verb, each behind the
parts that it uses itself. A call gives its arguments by name and is checked against the header: an
argument too many, or one missing, is an error here and not a nil in Lua.

Lua makes every function of a script anew at each call. The parts that a call seldom needs say
`-- fills: <table>`: their functions all lie in this one table, and are made when a script first
asks the table for one of them. So are the parts that only these use. `next(<table>)` is nil before
that.

Lua allows a function 200 names of its own, and to make a function it looks for each name that the
function captures among all captured names around it. So the parts stand in functions within
functions, and each of those declares some thirty names.

A name in capitals that a script does not declare is one of `constants.py`, mostly the position of a
value in a row. The loader declares the constants that the script uses; a name that `constants.py`
does not know is an error.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import accumulate

import msgspec

from holdfast.store.valkey.constants import constants

Value = str | bytes | int | float
_AS_IT_IS = (str, bytes, int, float)
_NAME = re.compile(r"[a-z_]+\Z")
_NO_CODE = re.compile(r"--[^\n]*|'[^'\n]*'")
_CAPITALS = re.compile(r"\b[A-Z][A-Z_]*\b")
_PIECES = re.compile(f"{_NO_CODE.pattern}|{_CAPITALS.pattern}")
_OWN_CONSTANTS = re.compile(r"^\s*local ([A-Z][A-Z_, ]*) =", re.MULTILINE)
_FILLED = """\
local {table} = setmetatable({{}}, {{__index = function({table}, name)
setmetatable({table}, nil)
{parts}
return {table}[name]
end}})"""
_WORD = re.compile(r"(?<![.:\w])[A-Za-z_]\w*")
_DECLARED = re.compile(r"^local (?:function )?([\w, ]*\w)", re.MULTILINE)
NAMES_DECLARED = 30  # by one function of a script, and more only by its last part
NAMES_CAPTURED = 60  # of the functions around it, at most: Lua allows no more
_pack = msgspec.msgpack.Encoder().encode


class Script(msgspec.Struct, frozen=True):
    """One verb: its text, its digest, and what it must be given."""

    verb: str
    keys: tuple[str, ...]
    arguments: tuple[str, ...]
    text: str
    digest: str
    names: frozenset[str]

    def values(self, given: Mapping[str, object]) -> list[Value]:
        """The arguments in order; lists travel as MessagePack."""
        if given.keys() != self.names:
            wanted, got = ", ".join(self.arguments), ", ".join(given)
            raise TypeError(f"{self.verb}.lua takes {wanted}; it was given {got}")
        return [_encoded(given[name]) for name in self.arguments]


@cache
def script(verb: str) -> Script:
    text = _read(f"{verb}.lua")
    keys, arguments = _declared(verb, text, "KEYS"), _declared(verb, text, "ARGV")
    code = _texts(verb, text)
    head = [
        *(f"local {name} = KEYS[{n}]" for n, name in enumerate(keys, 1)),
        *(f"local {name} = ARGV[{n}]" for n, name in enumerate(arguments, 1)),
        *(f"local {name} = {value}" for name, value in _tables_used(verb, code).items()),
    ]
    whole = "\n".join(_nested(["\n".join(head), *code]))
    digest = hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest()
    return Script(verb, keys, arguments, whole, digest, frozenset(arguments))


def verbs() -> list[str]:
    """Every script but the parts, as `noun/verb`."""
    nouns = [noun for noun in files(__package__).joinpath("lua").iterdir() if noun.name != "parts"]
    return sorted(
        f"{noun.name}/{file.name.removesuffix('.lua')}" for noun in nouns for file in noun.iterdir()
    )


def _texts(verb: str, text: str) -> list[str]:
    """The texts of a script, in the order in which Lua has to read them: each part behind the parts
    that it uses, and the script last."""
    used = {part: _declared(verb, _part(part), "uses") for part in _parts(verb, text)}
    tables = _tables(verb, text, used)
    found: dict[str, str] = {}

    def add(part: str) -> None:
        table = tables.get(part)
        if (table or part) in found:
            return
        together = [one for one in used if tables.get(one) == table] if table else [part]
        for other in dict.fromkeys(other for one in together for other in used[one]):
            if other not in together:
                add(other)
        whole = "\n".join(map(_part, together))
        found[table or part] = _FILLED.format(table=table, parts=whole) if table else whole

    for part in _declared(verb, text, "uses"):
        add(part)
    return [*found.values(), text]


def _tables(verb: str, text: str, used: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The parts that are made when somebody asks a table for something: those that fill the table,
    and those that only such parts use."""
    tables = {part: table for part in used for table in _declared(verb, _part(part), "fills")}
    at_once = _declared(verb, text, "uses")
    for part in reversed(list(used)):
        wanted_by = {tables.get(user, "") for user, uses in used.items() if part in uses}
        if (
            part not in tables
            and part not in at_once
            and len(wanted_by) == 1
            and "" not in wanted_by
        ):
            tables[part] = wanted_by.pop()
    return tables


def _parts(verb: str, text: str) -> list[str]:
    """The parts that a text uses, each once, and each behind those that it uses."""
    found: dict[str, None] = {}
    for part in _declared(verb, text, "uses"):
        found |= dict.fromkeys([*_parts(verb, _part(part)), part])
    return list(found)


@cache
def _part(name: str) -> str:
    return _read(f"parts/{name}.lua")


def _nested(texts: Sequence[str]) -> Iterator[str]:
    """The texts in functions within functions, each of which declares some of the names."""
    used_from = list(accumulate(map(_words, reversed(texts)), lambda one, other: one | other))[::-1]
    outside: set[str] = set()
    inside: set[str] = set()
    depth = 0
    for text, used in zip(texts, used_from, strict=True):
        if len(inside) >= NAMES_DECLARED and len((outside | inside) & used) <= NAMES_CAPTURED:
            outside, inside, depth = outside | inside, set(), depth + 1
            yield "return (function()"
        yield _written(text)
        inside |= _names(text)
    yield "end)()" * depth


# A part stands in many scripts, so what is found in a text is kept ---------------------------


@cache
def _bare(text: str) -> str:
    """A text without comments and quoted texts."""
    return _NO_CODE.sub("", text)


@cache
def _words(text: str) -> frozenset[str]:
    """The names that a text may use."""
    return frozenset(_WORD.findall(_bare(text)))


@cache
def _names(text: str) -> frozenset[str]:
    """The names that a text declares, but for those within its functions."""
    return frozenset(name for names in _DECLARED.findall(text) for name in names.split(", "))


@cache
def _written(text: str) -> str:
    """A text with each constant that is a number or a text written where it is used, because a
    script may have 200 local names only."""
    shared = constants()

    def value(found: re.Match[str]) -> str:
        known = shared.get(found[0], found[0])
        return found[0] if known.startswith("{") else known

    return _PIECES.sub(value, text)


@cache
def _capitals(text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """The constants that a text declares, and those that it names."""
    bare = _bare(text)
    own = frozenset(name for names in _OWN_CONSTANTS.findall(bare) for name in names.split(", "))
    return own, tuple(dict.fromkeys(_CAPITALS.findall(bare)))


def _tables_used(verb: str, code: Sequence[str]) -> dict[str, str]:
    """The constants that a script uses and that are tables, which have a local name."""
    found = [_capitals(text) for text in code]
    own = frozenset[str]().union(*(names for names, _ in found))
    shared = constants()
    if twice := own & shared.keys():
        raise ValueError(f"{verb}.lua declares what constants.py declares: {', '.join(twice)}")
    used = dict.fromkeys(name for _, names in found for name in names if name not in own)
    if unknown := used.keys() - shared.keys():
        raise ValueError(f"{verb}.lua uses constants that nobody declares: {', '.join(unknown)}")
    return {name: shared[name] for name in used if shared[name].startswith("{")}


def _declared(verb: str, text: str, what: str) -> tuple[str, ...]:
    found = re.search(rf"^-- {what}:(.*)$", text, re.MULTILINE)
    names = tuple(found[1].split()) if found else ()
    if what == "KEYS" and len(names) != 1:
        raise ValueError(f"{verb}.lua must declare one key: all others are named after it")
    bad = [name for name in names if not _NAME.match(name)]
    if bad or len(set(names)) != len(names):
        raise ValueError(f"{verb}.lua declares {what} that are no distinct names: {names}")
    return names


def _encoded(value: object) -> Value:
    return value if isinstance(value, _AS_IT_IS) else _pack(value)


def _read(name: str) -> str:
    return files(__package__).joinpath("lua", name).read_text().strip()
