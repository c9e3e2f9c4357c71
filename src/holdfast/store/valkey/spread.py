"""Bytes that keep the strings of a batch apart in Lua.

Lua keeps each string once, in a table by its hash. Of a long string Lua hashes about thirty bytes
only, counted from the last byte. The records of one batch are alike in most places, and so are
their bodies and their results. So many of them would get one hash, and Lua would compare each new
string with all before it. Therefore every long string that a script reads or writes by the hundred
ends with a byte that varies.
"""

from __future__ import annotations

import string

SPREADS = 128
"""How many values the last number of a packed list has. It is the place in the batch modulo this,
so that neighbours differ, and below 128, which is one byte in MessagePack."""
_LETTERS = string.ascii_letters + string.digits


def with_spread(text: str, index: int) -> str:
    """A text with one letter more."""
    return text + _LETTERS[index % len(_LETTERS)]


def without_spread(text: str) -> str:
    return text[:-1]
