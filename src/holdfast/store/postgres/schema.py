"""The schema: what is applied, and applying what is missing."""

from __future__ import annotations

from holdfast.store.migrate import Migration, load_migrations, pending, require_current
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Line
from holdfast.store.postgres.scripts import PACKAGE, in_schema

KNOWN: list[Migration] = load_migrations(PACKAGE)


class Schema:
    """The migrations of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._where = connections.options.where

    async def require_current(self) -> None:
        applied = await self._connections.run(self._applied, transaction=True)
        require_current(KNOWN, applied, self._where)

    async def version(self) -> int:
        return max(await self._connections.run(self._applied, transaction=True), default=0)

    async def migrate(self) -> list[str]:
        """All that is missing, in one transaction behind a lock that ends with it."""
        return await self._connections.run(self._apply_missing, transaction=True)

    async def _apply_missing(self, line: Line) -> list[str]:
        scripts = self._connections.scripts
        await line.fetch(scripts["migrations/lock"], f"holdfast:{self._connections.options.schema}")
        missing = pending(KNOWN, await self._applied(line), self._where)
        for migration in missing:
            await line.execute(in_schema(migration.sql, self._connections.options.schema))
            await line.fetch(
                scripts["migrations/record"],
                migration.version,
                migration.name,
                migration.checksum,
            )
        return [migration.name for migration in missing]

    async def _applied(self, line: Line) -> dict[int, str]:
        scripts = self._connections.scripts
        if not await line.fetchval(
            scripts["migrations/schema_exists"], self._connections.options.schema
        ):
            return {}
        return {row[0]: row[1] for row in await line.fetch(scripts["migrations/applied"])}

    def sql(self) -> str:
        """For operators who run migrations by hand: each with the line that records it."""
        schema = self._connections.options.schema
        record = self._connections.scripts["migrations/record_by_hand"]
        return "\n".join(
            in_schema(migration.sql, schema)
            + record.format(
                version=migration.version, name=migration.name, checksum=migration.checksum
            )
            for migration in KNOWN
        )
