"""What is read of flows on Postgres."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.flow.model import (
    FLOW_ENDED,
    FLOW_LIVE,
    CloseWhat,
    Errand,
    ErrandKind,
    FlowId,
    FlowInfo,
    FlowState,
    GateInfo,
    Losers,
    NewEdge,
    NodeInfo,
    NodeInput,
)
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.contract.flows import FlowFilter, FlowPage
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.rows import STATES


class PostgresFlowReading:
    """The verbs of `holdfast.store.contract.flows.Flows` that change nothing."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def inputs(self, ids: Sequence[JobId]) -> dict[JobId, NodeInput]:
        found = await self._connections.fetch("flows/inputs", list(ids)) if ids else []
        return {
            JobId(job_id): NodeInput(FlowId(flow), flow_name, FlowState(state), name, inputs)
            for job_id, flow, flow_name, state, name, inputs in found
        }

    async def errands(self, limit: int, after: str | None = None) -> list[Errand]:
        return [
            Errand(
                number,
                FlowId(flow),
                ErrandKind(kind),
                None if job is None else JobId(job),
                None if what is None else CloseWhat(what),
                at,
            )
            for number, flow, kind, job, what, at in await self._connections.fetch(
                "flows/errands", limit, int(after or 0)
            )
        ]

    async def get(self, ids: Sequence[FlowId]) -> list[FlowInfo]:
        found = await self._connections.fetch("flows/get", list(ids)) if ids else []
        return [_flow(row) for row in found]

    async def children(self, ids: Sequence[JobId]) -> dict[JobId, list[FlowId]]:
        found: dict[JobId, list[FlowId]] = {}
        if ids:
            for parent, flow in await self._connections.fetch("flows/children", list(ids)):
                found.setdefault(JobId(parent), []).append(FlowId(flow))
        return found

    async def page(self, which: FlowFilter, limit: int, cursor: str | None = None) -> FlowPage:
        states = which.states or frozenset(FlowState)
        found = await self._connections.fetch(
            "flows/page",
            list(which.ids) or None,
            [state.value for state in which.states] or None,
            list(which.names) or None,
            list(which.tags) or None,
            which.created_after,
            which.created_before,
            cursor,
            limit + 1,
            bool(states & FLOW_LIVE),
            bool(states & FLOW_ENDED),
        )
        flows = tuple(_flow(row) for row in found[:limit])
        return FlowPage(flows, flows[-1].id if len(found) > limit else None)

    async def count(self) -> dict[FlowState, int]:
        found = await self._connections.fetch("flows/count")
        return {FlowState(state): flows for state, flows in found}

    async def nodes(self, flow: FlowId, limit: int, after: str | None = None) -> list[NodeInfo]:
        async def work(session: Session) -> list[NodeInfo]:
            rows = await session.fetch("flows/nodes", flow, limit, after or "")
            blocked = [row["job_id"] for row in rows if row["state"] == JobState.BLOCKED]
            gates = await session.fetch("flows/gates", flow, blocked) if blocked else []
            return _nodes(rows, gates)

        return await self._connections.run(work)

    async def graph(self, flow: FlowId) -> list[str]:
        return [text for (text,) in await self._connections.fetch("flows/graph", flow)]


def _flow(row: Any) -> FlowInfo:
    return FlowInfo(
        id=FlowId(row["id"]),
        name=row["name"],
        state=FlowState(row["state"]),
        total=row["total"],
        open=row["open"],
        failed=row["failed"],
        epoch=row["epoch"],
        created_at=row["created_at"],
        unique_key=row["unique_key"],
        tags=tuple(row["tags"]),
        parent=None if row["parent"] is None else JobId(row["parent"]),
        reason=row["reason"],
        finished_at=row["finished_at"],
        expires_at=row["expires_at"],
    )


def _nodes(rows: Iterable[Any], gates: Iterable[Any]) -> list[NodeInfo]:
    of_job: dict[str, list[GateInfo]] = {}
    for job_id, n, need, total, won, lost, losers, upstreams, wants in gates:
        pairs = zip(upstreams, wants, strict=True)
        edges = tuple(NewEdge(JobId(upstream), bits) for upstream, bits in pairs)
        gate = GateInfo(n, need, total, won, lost, Losers(losers), edges)
        of_job.setdefault(job_id, []).append(gate)
    return [
        NodeInfo(
            name=name,
            job_id=JobId(job_id),
            state=STATES[state],
            is_sink=is_sink,
            task=task,
            queue=queue,
            attempts=attempts,
            reason=reason,
            gates=tuple(of_job.get(job_id, ())),
            finished_at=finished_at,
        )
        for name, job_id, state, is_sink, task, queue, attempts, reason, finished_at in rows
    ]
