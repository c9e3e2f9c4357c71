"""Faults that no verb makes, put into the tables and keys of flows past the store.

The flow is `{"a": [], "b": [], "c": ["a", "b"], "d": ["c"]}`, and `a` has succeeded.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from holdfast.job.ids import JobId
from holdfast.store.contract.store import Store
from holdfast.store.valkey import flow_rows
from holdfast.store.valkey.connection import Connections
from holdfast.store.valkey.rows import pack
from tests.support.backends import Backend, Inspectable
from tests.support.flows import Trip
from tests.support.planting import with_gates

FAULTS: dict[str, tuple[str, str]] = {
    "wrong count": (
        "update {gate} set won = 2, lost = 0 where job_id = '{c}'",
        "node 'c' has other gates than its graph says",
    ),
    "orphan edge": (
        "insert into {edge} (upstream, downstream, n, wants) values ('{a}', '{c}', 0, 1)",
        "node 'c' has an edge to a node that has ended",
    ),
    "no gate": (
        "delete from {gate} where job_id = '{c}'",
        "node 'c' has other gates than its graph says",
    ),
    "wrong open": (
        "update {flow} set open = 7 where id = '{id}'",
        "3 nodes are live, and 7 are counted",
    ),
    "ended too early": (
        "update {flow} set state = 'succeeded', finished_at = created_at where id = '{id}'",
        "the flow is succeeded, and 3 nodes are live",
    ),
}
"""For each fault the statement that plants it, and what is said of it."""


async def plant(fault: str, backend: Backend, url: str, trip: Trip) -> None:
    if url.startswith("valkey"):
        await _plant_keys(fault, _connections(trip.scene.store), trip)
        return
    before = "holdfast_" if url.startswith("sqlite") else "holdfast."
    names = {table: f"{before}{table}" for table in ("gate", "edge", "flow")}
    statement = FAULTS[fault][0]
    if fault == "orphan edge" and url.startswith("sqlite"):
        statement = "update holdfast_node set is_unsettled = 1 where job_id = '{a}'"
    sql = statement.format(**names, **trip.ids, id=trip.id)
    await cast("Inspectable", backend).query(url, sql)


def _connections(store: Store) -> Connections:
    flows: Any = store.flows
    return cast("Connections", flows._connections)


async def _plant_keys(fault: str, connections: Connections, trip: Trip) -> None:
    partition = connections.partition_of(trip.id)

    def key(name: str) -> str:
        return connections.key(partition, name)

    async def change_gates(job: JobId, **changed: object) -> None:
        packed = await connections.command("GET", key(f"g:{job}"))
        gates = [msgspec.structs.replace(gate, **changed) for gate in flow_rows.gates_in(packed)]
        planted = with_gates(packed, gates if changed else [])
        await connections.command("SET", key(f"g:{job}"), planted)

    async def change_flow(**changed: object) -> None:
        row = flow_rows.to_flow_row(await connections.command("GET", key(f"f:{trip.id}")))
        row = msgspec.structs.replace(row, **changed)
        await connections.command("SET", key(f"f:{trip.id}"), pack(row))

    match fault:
        case "wrong count":
            await change_gates(trip.ids["c"], won=2)
        case "orphan edge":
            await connections.command("ZADD", key(f"unsettled:{trip.id}"), 1, trip.ids["a"])
        case "no gate":
            await change_gates(trip.ids["c"])
            await connections.command("DEL", key(f"in:{trip.ids['c']}:0"))
        case "wrong open":
            await change_flow(open=7)
        case "ended too early":
            row = flow_rows.to_flow_row(await connections.command("GET", key(f"f:{trip.id}")))
            await change_flow(state="succeeded", finished_at=row.created_at)
            await connections.command("ZREM", key("flows:running"), trip.id)
            await connections.command("ZADD", key("flows:succeeded"), 0, trip.id)
        case _:
            raise ValueError(fault)
