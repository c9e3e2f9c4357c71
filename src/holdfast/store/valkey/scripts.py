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
asks the table for one of them. `next(<table>)` is nil before that.

A name in capitals that a script does not declare is one of `constants.py`, mostly the position of a
value in a row. The loader declares the constants that the script uses; a name that `constants.py`
does not know is an error.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

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
_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Script:
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
    code = "\n".join([*_texts(verb, _parts(verb, text)), text])
    shared = _constants(verb, code)
    plain = {name: value for name, value in shared.items() if not value.startswith("{")}
    whole = "\n".join(
        [
            *(f"local {name} = KEYS[{n}]" for n, name in enumerate(keys, 1)),
            *(f"local {name} = ARGV[{n}]" for n, name in enumerate(arguments, 1)),
            *(f"local {name} = {value}" for name, value in shared.items() if name not in plain),
            _PIECES.sub(lambda found: plain.get(found[0], found[0]), code),
        ]
    )
    digest = hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest()
    return Script(verb, keys, arguments, whole, digest, frozenset(arguments))


def verbs() -> list[str]:
    """Every script but the parts, as `noun/verb`."""
    nouns = [noun for noun in files(__package__).joinpath("lua").iterdir() if noun.name != "parts"]
    return sorted(
        f"{noun.name}/{file.name.removesuffix('.lua')}" for noun in nouns for file in noun.iterdir()
    )


def _parts(verb: str, text: str) -> list[str]:
    """The parts that a text uses, each once, and each behind those that it uses."""
    found: dict[str, None] = {}
    for part in _declared(verb, text, "uses"):
        found |= dict.fromkeys([*_parts(verb, _read(f"parts/{part}.lua")), part])
    return list(found)


def _texts(verb: str, parts: Sequence[str]) -> Iterator[str]:
    """The texts of parts, in the order in which Lua has to read them. Parts that fill a table stand
    together, behind all that they use."""
    texts = {part: _read(f"parts/{part}.lua") for part in parts}
    late = {part: name for part in parts for name in _declared(verb, texts[part], "fills")}
    needed = {used for part in late for used in _parts(verb, texts[part])} - late.keys()
    yield from (texts[part] for part in parts if part in needed)
    for table in dict.fromkeys(late.values()):
        filling = "\n".join(texts[part] for part, filled in late.items() if filled == table)
        yield _FILLED.format(table=table, parts=filling)
    yield from (texts[part] for part in parts if part not in needed and part not in late)


def _constants(verb: str, code: str) -> dict[str, str]:
    """The constants that a text uses without declaring them. A number or a text is written where it
    is used, because a script may have 200 local names only."""
    bare = _NO_CODE.sub("", code)
    own = {name for names in _OWN_CONSTANTS.findall(bare) for name in names.split(", ")}
    shared = constants()
    if twice := own & shared.keys():
        raise ValueError(f"{verb}.lua declares what constants.py declares: {', '.join(twice)}")
    used = dict.fromkeys(name for name in _CAPITALS.findall(bare) if name not in own)
    if unknown := used.keys() - shared.keys():
        raise ValueError(f"{verb}.lua uses constants that nobody declares: {', '.join(unknown)}")
    return {name: shared[name] for name in used}


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
