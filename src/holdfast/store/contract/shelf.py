"""The shelf: small documents that a store keeps for programs, such as the catalogue of tasks."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks

KIND = re.compile(r"[a-z][a-z_]{0,31}\Z")
LONGEST_KEY = 200
VALUE_BYTES = 64 * 1024
"""What one document may take. A shelf is no place for data: whatever is larger is cut, or kept
elsewhere."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One document. `revision` is 1 for a new document and grows with every put. A document that
    was deleted, or that expired, begins again at 1."""

    kind: str
    key: str
    value: str
    revision: int
    expires_at: datetime | None


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """One document to write. `revision` is the one that must be there: 0 for no document, None
    for whatever is there. Without `expires_in` seconds it stays until it is deleted."""

    key: str
    value: str
    revision: int | None = None
    expires_in: float | None = None


class Shelf(Protocol):
    """Small documents by kind and key. A document whose time is over is not there, for any verb,
    also before it is pruned."""

    async def put(self, kind: str, documents: Sequence[Put]) -> list[int | None]:
        """Write documents of one kind; answers with the new revision of each, None where another
        revision was there than the put named: that document is left as it was. Raises before
        anything is written if a key is named twice, or a value is too large."""
        ...

    async def get(self, kind: str, keys: Collection[str]) -> list[Document]:
        """Those of these documents that are there, by their keys."""
        ...

    async def find(self, kind: str, limit: int, after: str | None = None) -> list[Document]:
        """Documents of one kind in the order of their keys, which is that of their bytes in UTF-8.
        `after`: only those that stand behind this key."""
        ...

    async def delete(self, kind: str, keys: Collection[str]) -> list[str]:
        """Remove documents; answers with the keys of those that were there, in their order."""
        ...

    async def prune(self, limit: int) -> int:
        """Remove up to `limit` documents of any kind whose time is over, the oldest first."""
        ...


def check_kind(kind: object) -> None:
    if not isinstance(kind, str) or not KIND.match(kind):
        raise BadOption("kind of a document", "1 to 32 small letters or _", kind)


def check_put(kind: str, documents: Sequence[Put]) -> None:
    """Refuse a batch that a store could not keep whole."""
    check_kind(kind)
    for document in documents:
        checks.text("key of a document", document.key, LONGEST_KEY)
        if (size := len(document.value.encode(errors="replace"))) > VALUE_BYTES:
            what = f"value of the {kind} document {document.key!r}"
            raise BadOption(what, f"at most {VALUE_BYTES} bytes", f"{size} bytes")
    if len({document.key for document in documents}) < len(documents):
        raise BadOption("keys of a put", "distinct", [document.key for document in documents])
