"""The version of the layout of keys and rows, recorded when a store is first opened.

The number of partitions is recorded with it and is fixed from then on: it decides where every job
lies. A program refuses a store of any other layout than its own.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import SchemaTooNew, StoreError
from holdfast.store.valkey.connection import Connections, evaluate
from holdfast.store.valkey.scripts import script

VERSION = 6
NAME = "0006_changes_first"


class Schema:
    """The recorded layout of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def migrate(self) -> list[str]:
        """Record this program's layout in a new store; refuse a store of another layout."""
        chosen = script("store/migrate")
        given = {
            "version": VERSION,
            "name": NAME,
            "partitions": self._connections.options.partitions,
        }
        values = chosen.values(given)
        meta = self._connections.meta

        async def record(client: Any) -> Any:
            return await evaluate(client, chosen, meta, values)

        version, partitions, is_new = await self._connections.run(record)
        self._require(int(version), int(partitions or 1))
        return [NAME] if is_new else []

    async def version(self) -> int:
        found = await self._connections.command("HGET", self._connections.meta, "version")
        return int(found or 0)

    def _require(self, version: int, partitions: int) -> None:
        options = self._connections.options
        if version > VERSION:
            raise SchemaTooNew(options.where, version, VERSION)
        if version < VERSION:
            raise StoreError(
                f"{options.where} was written by an older program, in layout {version}; this one "
                f"needs {VERSION}, and nothing converts it: let the older program finish its jobs, "
                "or use another namespace"
            )
        if partitions != options.partitions:
            raise StoreError(
                f"{options.where} was first used with {partitions} partitions and the URL asks for "
                f"{options.partitions}: their number is fixed, so put ?partitions={partitions} in "
                "the URL or use another namespace"
            )
