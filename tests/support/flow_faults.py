"""Faults that no verb makes, put into the tables and keys of flows past the store.

A test plants one by a method of the `Planter`, or goes through all `FAULTS` of this flow, of which
`a` has succeeded and `b` runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, LiteralString, Protocol

import msgspec

from holdfast.flow.model import FlowId
from holdfast.job.ids import JobId
from holdfast.store.contract.store import Store
from holdfast.store.valkey import flow_rows
from holdfast.store.valkey.flow_layout import GateRow, NodeState
from holdfast.store.valkey.layout import width
from holdfast.store.valkey.rows import pack
from tests.support.backends import Backend, PostgresDatabase, SqliteFile
from tests.support.flows import Trip

GRAPH = {"a": [], "b": [], "c": ["a", "b"], "d": ["c"]}


class Planter(Protocol):
    async def miscount_gate(self, job: JobId, won: int) -> None:
        """The first gate of a blocked node counts so many wins."""
        ...

    async def lose_gates(self, job: JobId) -> None:
        """A blocked node waits for nothing."""
        ...

    async def lose_edge(self, upstream: JobId, downstream: JobId) -> None:
        """The first gate of a node no longer hears of this upstream."""
        ...

    async def leave_edge(self, flow: FlowId, upstream: JobId, downstream: JobId) -> None:
        """An upstream that has ended looks as if its downstream had not heard of it."""
        ...

    async def miscount_flow(self, flow: FlowId, live: int) -> None:
        """The flow counts so many live nodes."""
        ...

    async def end_flow(self, flow: FlowId) -> None:
        """The flow has succeeded, whatever its nodes do."""
        ...


Plant = Callable[[Planter, Trip], Awaitable[None]]

FAULTS: dict[str, tuple[Plant, str]] = {
    "wrong count": (
        lambda planter, trip: planter.miscount_gate(trip.ids["c"], 2),
        "node 'c' has other gates than its graph says",
    ),
    "orphan edge": (
        lambda planter, trip: planter.leave_edge(trip.id, trip.ids["a"], trip.ids["c"]),
        "node 'c' has an edge to a node that has ended",
    ),
    "no gate": (
        lambda planter, trip: planter.lose_gates(trip.ids["c"]),
        "node 'c' has other gates than its graph says",
    ),
    "wrong open": (
        lambda planter, trip: planter.miscount_flow(trip.id, 7),
        "3 nodes are live, and 7 are counted",
    ),
    "ended too early": (
        lambda planter, trip: planter.end_flow(trip.id),
        "the flow is succeeded, and 3 nodes are live",
    ),
}
"""For each fault how it is planted, and what is said of it."""


async def plant(fault: str, backend: Backend, url: str, trip: Trip) -> None:
    put, _ = FAULTS[fault]
    await put(planter(backend, url, trip.scene.store), trip)


def planter(backend: Backend, url: str, store: Store) -> Planter:
    if isinstance(backend, SqliteFile):
        return SqlitePlanter(backend, url, "holdfast_")
    if isinstance(backend, PostgresDatabase):
        return PostgresPlanter(backend, url, "holdfast.")
    return ValkeyPlanter(store)


class SqlPlanter:
    """The edges of a node lie in its row, and stay there when it has ended."""

    def __init__(
        self, backend: SqliteFile | PostgresDatabase, url: str, prefix: LiteralString
    ) -> None:
        self._backend, self._url, self._prefix = backend, url, prefix

    async def miscount_gate(self, job: JobId, won: int) -> None:
        await self._say(f"update {self._prefix}gate set won = {won} where job_id = '{job}'")

    async def lose_gates(self, job: JobId) -> None:
        await self._say(f"delete from {self._prefix}gate where job_id = '{job}'")

    async def leave_edge(self, flow: FlowId, upstream: JobId, downstream: JobId) -> None:
        unsettled = f"update {self._prefix}node set is_unsettled = true"
        await self._say(f"{unsettled} where job_id = '{upstream}'")

    async def miscount_flow(self, flow: FlowId, live: int) -> None:
        await self._say(f"update {self._prefix}flow set open = {live} where id = '{flow}'")

    async def end_flow(self, flow: FlowId) -> None:
        ended = "state = 'succeeded', finished_at = created_at"
        await self._say(f"update {self._prefix}flow set {ended} where id = '{flow}'")

    async def _say(self, sql: str) -> None:
        await self._backend.run(self._url, sql)


class PostgresPlanter(SqlPlanter):
    async def lose_edge(self, upstream: JobId, downstream: JobId) -> None:
        nobody = "00000000-0000-0000-0000-000000000000"
        lost = f"array_replace(behind, '{downstream}', '{nobody}')"
        await self._say(f"update holdfast.node set behind = {lost} where job_id = '{upstream}'")


class SqlitePlanter(SqlPlanter):
    async def lose_edge(self, upstream: JobId, downstream: JobId) -> None:
        lost = f"""json_remove(edges, '$."{downstream}"')"""
        await self._say(f"update holdfast_node set edges = {lost} where job_id = '{upstream}'")


class ValkeyPlanter:
    def __init__(self, store: Store) -> None:
        self._connections: Any = store._connections  # type: ignore[attr-defined]

    async def miscount_gate(self, job: JobId, won: int) -> None:
        first, *rest = flow_rows.gates_in(await self._node(job))
        await self._keep_gates(job, [msgspec.structs.replace(first, won=won), *rest])

    async def lose_gates(self, job: JobId) -> None:
        await self._keep_gates(job, [])
        await self._say("DEL", self._key(job, f"in:{job}:0"))

    async def lose_edge(self, upstream: JobId, downstream: JobId) -> None:
        key = self._key(upstream, f"n:{upstream}")
        values = flow_rows.to_values(await self._say("GET", key))
        while downstream in values:
            place = values.index(downstream)
            del values[place : place + 3]  # with the number of its gate, and what it wants
        await self._say("SET", key, pack(values))

    async def leave_edge(self, flow: FlowId, upstream: JobId, downstream: JobId) -> None:
        await self._say("ZADD", self._key(flow, f"unsettled:{flow}"), 1, upstream)

    async def miscount_flow(self, flow: FlowId, live: int) -> None:
        await self._change_flow(flow, open=live)

    async def end_flow(self, flow: FlowId) -> None:
        row = flow_rows.to_flow_row(await self._say("GET", self._key(flow, f"f:{flow}")))
        await self._change_flow(flow, state="succeeded", finished_at=row.created_at)
        await self._say("ZREM", self._key(flow, "flows:running"), flow)
        await self._say("ZADD", self._key(flow, "flows:succeeded"), 0, flow)

    async def _node(self, job: JobId) -> Any:
        return await self._say("GET", self._key(job, f"g:{job}"))

    async def _keep_gates(self, job: JobId, gates: Sequence[GateRow]) -> None:
        values = flow_rows.to_values(await self._node(job))
        own = [value for gate in gates for value in msgspec.structs.astuple(gate)]
        damaged = pack([*values[: width(NodeState)], *own, values[-1]])
        await self._say("SET", self._key(job, f"g:{job}"), damaged)

    async def _change_flow(self, flow: FlowId, **changed: object) -> None:
        key = self._key(flow, f"f:{flow}")
        row = flow_rows.to_flow_row(await self._say("GET", key))
        await self._say("SET", key, pack(msgspec.structs.replace(row, **changed)))

    async def _say(self, *command: str | bytes | float) -> Any:
        return await self._connections.command(*command)

    def _key(self, of: str, name: str) -> str:
        return str(self._connections.key(self._connections.partition_of(of), name))
