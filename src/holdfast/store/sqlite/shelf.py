"""The shelf on SQLite."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from holdfast.store.contract.shelf import Document, Put, check_put
from holdfast.store.sqlite.rows import SECOND, to_json, to_optional_datetime
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteShelf(Verbs):
    """See `holdfast.store.contract.shelf.Shelf` for what each verb promises."""

    async def put(self, kind: str, documents: Sequence[Put]) -> list[int | None]:
        check_put(kind, documents)
        if not documents:
            return []
        return await self._writer.write(lambda tx: [_put(tx, kind, one) for one in documents])

    async def get(self, kind: str, keys: Collection[str]) -> list[Document]:
        wanted = {"kind": kind, "keys": to_json(keys)}
        return await self._read("shelf/get", wanted) if keys else []

    async def find(self, kind: str, limit: int, after: str | None = None) -> list[Document]:
        return await self._read("shelf/find", {"kind": kind, "after": after, "limit": limit})

    async def _read(self, verb: str, wanted: Mapping[str, object]) -> list[Document]:
        def work(tx: Transaction) -> list[Document]:
            return [_document(row) for row in tx.rows(script(verb), {**wanted, "now": tx.now})]

        return await self._writer.read(work)

    async def delete(self, kind: str, keys: Collection[str]) -> list[str]:
        def work(tx: Transaction) -> list[str]:
            values = {"kind": kind, "keys": to_json(keys), "now": tx.now}
            return sorted(
                key for key, was_there in tx.rows(script("shelf/delete"), values) if was_there
            )

        return await self._writer.write(work) if keys else []

    async def prune(self, limit: int) -> int:
        return await self._writer.write(
            lambda tx: tx.changed(script("shelf/prune"), (tx.now, limit))
        )


def _put(tx: Transaction, kind: str, document: Put) -> int | None:
    ends = None if document.expires_in is None else tx.now + round(document.expires_in * SECOND)
    values = {
        "kind": kind,
        "key": document.key,
        "value": document.value,
        "revision": document.revision,
        "expires_at": ends,
        "now": tx.now,
    }
    row = tx.row(steps("shelf/put")["change" if document.revision else "make"], values)
    return None if row is None else int(row[0])


def _document(row: Row) -> Document:
    kind, key, value, revision, expires_at = row
    return Document(
        kind=kind,
        key=key,
        value=value,
        revision=revision,
        expires_at=to_optional_datetime(expires_at),
    )
