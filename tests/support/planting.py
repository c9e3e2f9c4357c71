"""Damage to the books of a flow, done from outside the store, as no verb would do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString, Protocol

import msgspec

from holdfast.flow.model import FlowId
from holdfast.job.ids import JobId
from holdfast.store.contract.store import Store
from holdfast.store.valkey import flow_rows
from holdfast.store.valkey.layout import GateRow, NodeState, width
from holdfast.store.valkey.rows import pack
from tests.support.backends import Backend, PostgresDatabase, SqliteFile


class Planter(Protocol):
    async def miscount_gate(self, job: JobId, won: int) -> None:
        """The first gate of a blocked node counts so many wins."""
        ...

    async def lose_edge(self, upstream: JobId, downstream: JobId) -> None:
        """The first gate of a node no longer hears of this upstream."""
        ...

    async def miscount_flow(self, flow: FlowId, live: int) -> None:
        """The flow counts so many live nodes."""
        ...


def planter(backend: Backend, url: str, store: Store) -> Planter:
    if isinstance(backend, SqliteFile):
        return SqlitePlanter(backend, url, "holdfast_")
    if isinstance(backend, PostgresDatabase):
        return SqlPlanter(backend, url, "holdfast.")
    return ValkeyPlanter(store)


class SqlPlanter:
    def __init__(
        self, backend: SqliteFile | PostgresDatabase, url: str, prefix: LiteralString
    ) -> None:
        self._backend, self._url, self._prefix = backend, url, prefix

    async def miscount_gate(self, job: JobId, won: int) -> None:
        await self._say(f"update {self._prefix}gate set won = {won} where job_id = '{job}'")

    async def lose_edge(self, upstream: JobId, downstream: JobId) -> None:
        which = f"upstream = '{upstream}' and downstream = '{downstream}'"
        await self._say(f"delete from {self._prefix}edge where {which}")

    async def add_edge(self, upstream: JobId, downstream: JobId) -> None:
        values = f"'{upstream}', '{downstream}', 0, 1"
        await self._say(
            f"insert into {self._prefix}edge (upstream, downstream, n, wants) values ({values})"
        )

    async def miscount_flow(self, flow: FlowId, live: int) -> None:
        await self._say(f"update {self._prefix}flow set open = {live} where id = '{flow}'")

    async def _say(self, sql: str) -> None:
        await self._backend.run(self._url, sql)


class SqlitePlanter(SqlPlanter):
    """The edges of a node lie in its row, and stay there when it has ended."""

    async def lose_edge(self, upstream: JobId, downstream: JobId) -> None:
        lost = f"""json_remove(edges, '$."{downstream}"')"""
        await self._say(f"update holdfast_node set edges = {lost} where job_id = '{upstream}'")

    async def add_edge(self, upstream: JobId, downstream: JobId) -> None:
        await self._say(f"update holdfast_node set is_unsettled = 1 where job_id = '{upstream}'")


def with_gates(packed: bytes, gates: Sequence[GateRow]) -> bytes:
    """The row of a node with these gates instead of those that it has."""
    values = flow_rows.to_values(packed)
    own = [value for gate in gates for value in msgspec.structs.astuple(gate)]
    return pack([*values[: width(NodeState)], *own, values[-1]])


class ValkeyPlanter:
    def __init__(self, store: Store) -> None:
        self._connections: Any = store._connections  # type: ignore[attr-defined]

    async def miscount_gate(self, job: JobId, won: int) -> None:
        key = self._key(job, f"g:{job}")
        packed = await self._connections.command("GET", key)
        first, *rest = flow_rows.gates_in(packed)
        gates = [msgspec.structs.replace(first, won=won), *rest]
        await self._connections.command("SET", key, with_gates(packed, gates))

    async def lose_edge(self, upstream: JobId, downstream: JobId) -> None:
        key = self._key(upstream, f"n:{upstream}")
        values = flow_rows.to_values(await self._connections.command("GET", key))
        while downstream in values:
            place = values.index(downstream)
            del values[place : place + 3]  # with the number of its gate, and what it wants
        await self._connections.command("SET", key, pack(values))

    async def miscount_flow(self, flow: FlowId, live: int) -> None:
        key = self._key(flow, f"f:{flow}")
        row = flow_rows.to_flow_row(await self._connections.command("GET", key))
        await self._connections.command("SET", key, pack(msgspec.structs.replace(row, open=live)))

    def _key(self, of: str, name: str) -> str:
        return str(self._connections.key(self._connections.partition_of(of), name))
