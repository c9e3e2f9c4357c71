"""The keyring: keys by their ids, of which the first one encrypts and all of them open.

A key is written `2026-11:…`: its id, a colon, and 32 bytes in base64. Neither a repr nor an error
nor a log line shows more of a key than its id.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from secrets import token_bytes
from typing import Final

from holdfast.errors import BadOption

KEY_BYTES = 32
MADE = "32 bytes in base64, as 'holdfast keys generate' writes it"
EXPECTED = f"an id, a colon and {MADE}"
REFERENCES = ("env", "file")
"""What a text may begin with that says where the keys are. No key has such an id."""
_KID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_BETWEEN = re.compile(r"[\s,]+")


class Keyring:
    """Keys by their ids. The first one encrypts; each of them opens what it encrypted. The last one
    makes unique keys unreadable, because those must stay the same while other keys come and go.

    >>> Keyring({"2026-11": bytes(32)})
    Keyring(2026-11)
    """

    __slots__ = ("_keys",)

    def __init__(self, keys: Mapping[str, bytes | str]) -> None:
        if not isinstance(keys, Mapping):
            raise BadOption("keys", EXPECTED, f"a {type(keys).__name__}")
        if not keys:
            raise BadOption("keys", "at least one key", "none")
        self._keys: Final = {_kid(kid): _key(kid, key) for kid, key in keys.items()}

    @classmethod
    def of_text(cls, text: str) -> Keyring:
        """Keys with commas or line breaks between them. No part of the text is ever shown."""
        named: dict[str, str] = {}
        for part in filter(None, _BETWEEN.split(text)):
            kid, colon, key = part.partition(":")
            if not colon:
                raise BadOption("keys", EXPECTED, "a text without a colon")
            if kid in named:
                raise BadOption("keys", "keys with an id each", f"two of id {_kid(kid)!r}")
            named[kid] = key
        return cls(named)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._keys)

    @property
    def first(self) -> str:
        """The id of the key that encrypts."""
        return next(iter(self._keys))

    @property
    def last(self) -> str:
        """The id of the key that makes unique keys unreadable."""
        return next(reversed(self._keys))

    def bytes_of(self, kid: str) -> bytes:
        return self._keys[kid]

    def __contains__(self, kid: object) -> bool:
        return kid in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"

    def __reduce__(self) -> str:
        raise TypeError("a keyring is not pickled: keys must not travel or be kept by accident")


def generate_key(kid: str) -> str:
    """A new key as a keyring reads it."""
    return f"{_kid(kid)}:{b64encode(token_bytes(KEY_BYTES)).decode()}"


def _kid(kid: object) -> str:
    if not isinstance(kid, str) or not _KID.fullmatch(kid) or kid in REFERENCES:
        # What stands there may be a key that was pasted into the wrong place.
        got = "another text" if isinstance(kid, str) else f"a {type(kid).__name__}"
        raise BadOption("the id of a key", "up to 64 letters, digits, '.', '_' or '-'", got)
    return kid


def _key(kid: str, given: object) -> bytes:
    found: object = given
    if isinstance(given, str):
        try:
            found = b64decode(given, validate=True)
        except (NotBase64, ValueError):
            raise BadOption(f"key {kid}", MADE, "another text") from None
    if not isinstance(found, bytes):
        raise BadOption(f"key {kid}", "32 bytes, or their base64", f"a {type(found).__name__}")
    if len(found) != KEY_BYTES:
        raise BadOption(f"key {kid}", MADE, f"{len(found)} bytes")
    return found
