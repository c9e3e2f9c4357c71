"""What is read of flows on SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.flow.model import (
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
from holdfast.store.sqlite.rows import (
    to_datetime,
    to_json,
    to_micros,
    to_optional_datetime,
    to_texts,
)
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteFlowReading(Verbs):
    """The verbs of `holdfast.store.contract.flows.Flows` that change nothing."""

    async def inputs(self, ids: Sequence[JobId]) -> dict[JobId, NodeInput]:
        rows = await self._writer.read(
            lambda tx: tx.rows(steps("flows/inputs")["whole"], (to_json(ids),))
        )
        return {
            JobId(job_id): NodeInput(FlowId(flow), flow_name, FlowState(state), name, inputs)
            for job_id, flow, flow_name, state, name, inputs in rows
        }

    async def errands(self, limit: int, after: str | None = None) -> list[Errand]:
        values = (int(after or 0), limit)
        rows = await self._writer.read(lambda tx: tx.rows(script("flows/errands"), values))
        return [
            Errand(
                str(number),
                FlowId(flow),
                ErrandKind(kind),
                None if job is None else JobId(job),
                None if what is None else CloseWhat(what),
                to_datetime(at),
            )
            for number, flow, kind, job, what, at in rows
        ]

    async def get(self, ids: Sequence[FlowId]) -> list[FlowInfo]:
        return await self._writer.read(
            lambda tx: [_flow(row) for row in tx.rows(script("flows/get"), (to_json(ids),))]
        )

    async def children(self, ids: Sequence[JobId]) -> dict[JobId, list[FlowId]]:
        wanted = (to_json(ids),)
        found: dict[JobId, list[FlowId]] = {}
        for parent, flow in await self._writer.read(
            lambda tx: tx.rows(script("flows/children"), wanted)
        ):
            found.setdefault(JobId(parent), []).append(FlowId(flow))
        return found

    async def page(self, which: FlowFilter, limit: int, cursor: str | None = None) -> FlowPage:
        created_after, created_before = which.created_after, which.created_before
        values = {
            "ids": to_json(which.ids) if which.ids else None,
            "states": to_json(which.states) if which.states else None,
            "names": to_json(which.names) if which.names else None,
            "tags": to_json(which.tags),
            "created_after": None if created_after is None else to_micros(created_after),
            "created_before": None if created_before is None else to_micros(created_before),
            "cursor": cursor,
            "limit": limit + 1,
        }
        rows = await self._writer.read(lambda tx: tx.rows(script("flows/page"), values))
        flows = tuple(_flow(row) for row in rows[:limit])
        return FlowPage(flows, flows[-1].id if len(rows) > limit else None)

    async def count(self) -> dict[FlowState, int]:
        rows = await self._writer.read(lambda tx: tx.rows(script("flows/count")))
        return {FlowState(state): flows for state, flows in rows}

    async def nodes(self, flow: FlowId, limit: int, after: str | None = None) -> list[NodeInfo]:
        values = {"flow": flow, "limit": limit, "after": after or ""}
        return await self._writer.read(lambda tx: _nodes(tx, values))

    async def graph(self, flow: FlowId) -> list[str]:
        rows = await self._writer.read(lambda tx: tx.rows(script("flows/graph"), (flow,)))
        return [text for (text,) in rows]


def _flow(row: Row) -> FlowInfo:
    flow, name, state, total, live, failed, epoch, created_at, key, tags, parent, *rest = row
    reason, finished_at, expires_at = rest
    return FlowInfo(
        id=FlowId(flow),
        name=name,
        state=FlowState(state),
        total=total,
        open=live,
        failed=failed,
        epoch=epoch,
        created_at=to_datetime(created_at),
        unique_key=key,
        tags=to_texts(tags),
        parent=None if parent is None else JobId(parent),
        reason=reason,
        finished_at=to_optional_datetime(finished_at),
        expires_at=to_optional_datetime(expires_at),
    )


def _nodes(tx: Transaction, values: Mapping[str, object]) -> list[NodeInfo]:
    sql = steps("flows/nodes")
    rows = tx.rows(sql["nodes"], values)
    blocked = [row[1] for row in rows if row[2] == JobState.BLOCKED]
    gates = _gates(tx, {**values, "ids": to_json(blocked)}) if blocked else {}
    return [
        NodeInfo(
            name=name,
            job_id=JobId(job_id),
            state=JobState(state),
            is_sink=bool(is_sink),
            task=task,
            queue=queue,
            attempts=attempts,
            reason=reason,
            gates=tuple(gates.get(job_id, ())),
            finished_at=to_optional_datetime(finished_at),
        )
        for name, job_id, state, is_sink, task, queue, attempts, reason, finished_at in rows
    ]


def _gates(tx: Transaction, values: Mapping[str, object]) -> dict[str, list[GateInfo]]:
    """The gates of blocked nodes, with the edges that they still wait for. Edges lie with their
    upstreams, so the nodes of the flow are looked through for them."""
    sql = steps("flows/nodes")
    edges: dict[tuple[str, int], list[NewEdge]] = {}
    for downstream, n, upstream, wants in tx.rows(sql["edges"], values):
        edges.setdefault((downstream, n), []).append(NewEdge(JobId(upstream), wants))
    gates: dict[str, list[GateInfo]] = {}
    for job_id, n, need, total, won, lost, losers in tx.rows(sql["gates"], (values["ids"],)):
        open_edges = tuple(edges.get((job_id, n), ()))
        gate = GateInfo(n, need, total, won, lost, Losers(losers), open_edges)
        gates.setdefault(job_id, []).append(gate)
    return gates
