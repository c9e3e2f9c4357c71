"""The schema: what is applied, and applying what is missing."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.store.migrate import Migration, load_migrations, pending, require_current
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.scripts import PACKAGE, in_schema

KNOWN: list[Migration] = load_migrations(PACKAGE)


class Schema:
    """The migrations of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._name = connections.options.schema
        self._where = connections.options.where

    def require_current(self, applied: Mapping[int, str]) -> None:
        require_current(KNOWN, applied, self._where)

    async def version(self) -> int:
        return max(await self._connections.run(self._applied, transaction=True), default=0)

    async def migrate(self) -> list[str]:
        """Apply all that is missing, in one transaction behind a lock that ends with it."""
        return await self._connections.run(self._apply_missing, transaction=True)

    async def _apply_missing(self, session: Session) -> list[str]:
        await session.fetch("migrations/lock", f"holdfast:{self._name}")
        missing = pending(KNOWN, await self._applied(session), self._where)
        for migration in missing:
            await session.connection.execute(in_schema(migration.sql, self._name))
            await session.fetch(
                "migrations/record", migration.version, migration.name, migration.checksum
            )
        return [migration.name for migration in missing]

    async def _applied(self, session: Session) -> dict[int, str]:
        [(exists,)] = await session.fetch("migrations/schema_exists", self._name)
        if not exists:
            return {}
        found = await session.fetch("migrations/applied")
        return {row["version"]: row["checksum"] for row in found}

    def sql(self) -> str:
        """For operators who run migrations by hand: each with the statement that records it."""
        record = self._connections.scripts["migrations/record_by_hand"]
        return "\n".join(
            in_schema(migration.sql, self._name)
            + record.format(
                version=migration.version, name=migration.name, checksum=migration.checksum
            )
            for migration in KNOWN
        )
