"""The shelf on Valkey. It lies in the first partition: documents are few beside jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from holdfast.store.contract.shelf import Document, Put, check_kind, check_put
from holdfast.store.valkey.connection import ValkeyVerbs
from holdfast.store.valkey.moments import to_optional_datetime
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.requests import PutRow
from holdfast.store.valkey.rows import to_shelf_row

HOME = 0
REFUSED = -1


class ValkeyShelf(ValkeyVerbs):
    """See `holdfast.store.contract.shelf.Shelf`."""

    async def put(self, kind: str, documents: Sequence[Put]) -> list[int | None]:
        """Not repeated when the connection is lost: the first try may have raised a revision."""
        check_put(kind, documents)
        if not documents:
            return []
        given = {"kind": kind, "documents": [_row(one) for one in documents]}
        answer = await self._connections.call("shelf/put", HOME, given, again=False)
        return [None if revision == REFUSED else int(revision) for revision in answer]

    async def get(self, kind: str, keys: Collection[str]) -> list[Document]:
        given = {"kind": kind, "chosen": sorted(set(keys))}
        return _documents(kind, await self._call("shelf/get", given)) if keys else []

    async def find(self, kind: str, limit: int, after: str | None = None) -> list[Document]:
        given = {"kind": kind, "limit": limit, "behind": [] if after is None else [after]}
        return _documents(kind, await self._call("shelf/find", given))

    async def delete(self, kind: str, keys: Collection[str]) -> list[str]:
        given = {"kind": kind, "chosen": [*keys]}
        found = await self._call("shelf/delete", given) if keys else []
        return sorted(key.decode() for key in found)

    async def _call(self, verb: str, given: dict[str, Any]) -> Any:
        check_kind(given["kind"])
        return await self._connections.call(verb, HOME, given)

    async def prune(self, limit: int) -> int:
        return int(await self._connections.call("shelf/prune", HOME, {"limit": limit}))


def _row(document: Put) -> PutRow:
    return PutRow(
        key=document.key,
        value=document.value,
        revision=False if document.revision is None else document.revision,
        expires_in=False if document.expires_in is None else document.expires_in,
    )


def _documents(kind: str, answer: Any) -> list[Document]:
    return [
        Document(
            kind=kind,
            key=key,
            value=row.value,
            revision=row.revision,
            expires_at=to_optional_datetime(row.expires_at),
        )
        for key, packed in paired(answer)
        for row in [to_shelf_row(packed)]
    ]
