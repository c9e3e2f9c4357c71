"""The version of the layout of keys and rows, recorded when a store is first opened.

The number of partitions is recorded with it and is fixed from then on: it decides where every job
lies. A program refuses a store of any other layout than its own.
"""

from __future__ import annotations

from secrets import token_hex
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
        """Record this program's layout in a new store and mark it; refuse a store of another
        layout. A store that this program has opened before is not made again elsewhere."""
        connections = self._connections
        if connections.marks.known:
            await connections.require_marked(connections.partitions)
        chosen = script("store/migrate")
        given = {
            "version": VERSION,
            "name": NAME,
            "partitions": connections.options.partitions,
        }
        values = chosen.values(given)
        meta = connections.meta

        async def record(client: Any) -> Any:
            return await evaluate(client, chosen, meta, values)

        version, partitions, is_new = await connections.run(record)
        self._require(int(version), int(partitions or 1))
        if not connections.marks.known:
            await self._mark()
        return [NAME] if is_new else []

    async def _mark(self) -> None:
        """A partition without a mark is given one: it is new, or has lost all that it had. Programs
        that were there before still know its former mark."""
        found = await self._connections.everywhere("store/mark", unlike=token_hex(8))
        for partition, mark in enumerate(found):
            self._connections.marks.learn(partition, mark)

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
