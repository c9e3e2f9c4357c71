"""What every program on a store loads for itself, loaded before programs are forked.

The stores are imported when one is opened. Valkey's scripts are put together from their parts at
the first call of each, which takes half a second for all. A process migrates its first database in
memory and copies it for the others.
"""

from __future__ import annotations

import asyncio
from importlib.resources import files

import holdfast.store.postgres.store
import holdfast.store.valkey.store  # noqa: F401 - imported for those who are forked
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.valkey.scripts import script


def warm_up() -> None:
    lua = files("holdfast.store.valkey") / "lua"
    for noun in lua.iterdir():
        for file in noun.iterdir() if noun.name != "parts" else ():
            script(f"{noun.name}/{file.name.removesuffix('.lua')}")
    asyncio.run(_migrate_in_memory())


async def _migrate_in_memory() -> None:
    store = SqliteStore("sqlite://")
    await store.open()
    await store.close()
