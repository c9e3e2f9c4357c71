"""The shelf on Postgres."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.store.contract.shelf import Document, Put, check_put
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.pool import Record


class PostgresShelf:
    """See `holdfast.store.contract.shelf.Shelf` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def put(self, kind: str, documents: Sequence[Put]) -> list[int | None]:
        """One statement a document, since a put is rare. They come in the order of their keys, so
        that two puts never wait for each other in a circle. Not repeated when the connection is
        lost: the first try may have raised a revision."""
        check_put(kind, documents)

        async def work(session: Session) -> dict[str, int | None]:
            return {
                one.key: await _put(session, kind, one)
                for one in sorted(documents, key=lambda one: one.key)
            }

        if not documents:
            return []
        found = await self._connections.run(work, transaction=True, again=False)
        return [found[one.key] for one in documents]

    async def get(self, kind: str, keys: Collection[str]) -> list[Document]:
        found = await self._connections.timed("shelf/get", kind, [*keys]) if keys else []
        return [_document(row) for row in found]

    async def find(self, kind: str, limit: int, after: str | None = None) -> list[Document]:
        found = await self._connections.timed("shelf/find", kind, limit, after)
        return [_document(row) for row in found]

    async def delete(self, kind: str, keys: Collection[str]) -> list[str]:
        found = await self._connections.timed("shelf/delete", kind, [*keys]) if keys else []
        return sorted(row["key"] for row in found if row["was_there"])

    async def prune(self, limit: int) -> int:
        return int((await self._connections.timed("shelf/prune", limit))[0][0])


async def _put(session: Session, kind: str, document: Put) -> int | None:
    values = (kind, document.key, document.value, document.revision, document.expires_in)
    found = await session.timed("shelf/put", *values)
    return int(found[0]["revision"]) if found else None


def _document(row: Record) -> Document:
    return Document(
        kind=row["kind"],
        key=row["key"],
        value=row["value"],
        revision=row["revision"],
        expires_at=row["expires_at"],
    )
