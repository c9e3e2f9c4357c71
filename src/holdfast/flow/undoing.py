"""What was done is undone by a flow: a chain of jobs in reverse order, started once.

Each job waits for the end of the one before it, whatever that end is: an undo that fails is a dead
letter, and those behind it still run. The id of the flow follows from that of the job or flow whose
work is undone, so whoever starts it twice starts it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.flow.graph import Graph, GraphNode, encode_graph
from holdfast.flow.ids import flow_undo_id, new_node_id, undo_flow_id
from holdfast.flow.model import (
    ANY_END,
    UNHELD,
    FlowId,
    FlowState,
    NewEdge,
    NewFlow,
    NewGate,
    NewNode,
)
from holdfast.job.ids import JobId
from holdfast.job.policy import Retention
from holdfast.job.record import NewJob
from holdfast.job.state import UNDONE, JobState
from holdfast.job.ties import Tie
from holdfast.job.undo import Undo, decode_undo
from holdfast.store.contract.store import Store

NAME = "undo"
"""The name of a flow that undoes."""
KEEP: dict[FlowState, float | None] = {
    FlowState.SUCCEEDED: Retention().succeeded,
    FlowState.FAILED: Retention().failed,
    FlowState.CANCELLED: Retention().other,
}
_encoder = msgspec.json.Encoder()


class Done(NamedTuple):
    """Something that was done: its name, its result as JSON, and who undoes it."""

    name: str
    result: str
    undo: Undo


async def undo_steps(store: Store, job: JobId) -> None:
    """Start the flow that undoes the recorded steps of a job that has ended badly. Where a later
    attempt has recorded them all without their undo, there is none."""
    ended = await store.jobs.outcomes([job])
    if not ended or ended[0].state not in UNDONE:
        return
    steps = (await store.steps.load([job])).get(job, [])
    done = [
        Done(step.name, step.result_json, decode_undo(step.undo))
        for step in steps
        if step.undo is not None and step.result_json is not None
    ]
    if done:
        await store.flows.start([undoing(undo_flow_id(job), done, job)])


async def undo_nodes(store: Store, flow: FlowId) -> None:
    """Start the flow that undoes the nodes of a flow that has ended badly, those that ended last
    first. A flow that was reopened meanwhile will end once more."""
    found = await store.flows.get([flow])
    if not found or found[0].state not in (FlowState.FAILED, FlowState.CANCELLED):
        return
    graph = Graph(await store.flows.graph(flow))
    undone = [one for one in graph.nodes.values() if one.undo]
    ended = [
        job
        for job in await store.jobs.get([one.job for one in undone])
        if job.state is JobState.SUCCEEDED
    ]
    by_job, ranks = {one.job: one for one in undone}, _ranks(graph)
    in_order = sorted(ended, key=lambda job: (str(job.finished_at), ranks[job.id]))
    done = [_done(by_job[job.id], job.result_json) for job in in_order]
    if done:
        new = undoing(flow_undo_id(flow), done, None)
        await store.flows.start([msgspec.structs.replace(new, keep=KEEP)])


def _ranks(graph: Graph) -> dict[JobId, int]:
    """How long the longest way to each node is: of two that ended at one instant, the node that
    waited for the other ended later. Of nodes that wait for each other, which only somebody who
    writes past the workers can add, any may be the first."""
    ranks: dict[JobId, int] = {}
    seen: set[JobId] = set()
    ahead = list(graph.names)
    while ahead:
        seen.add(ahead[-1])
        upstreams = graph.upstreams(ahead[-1])
        if unknown := [one for one in upstreams if one not in seen]:
            ahead += unknown
        else:
            ranks[ahead.pop()] = 1 + max((ranks.get(one, 0) for one in upstreams), default=0)
    return ranks


def _done(node: GraphNode, result: str | None) -> Done:
    assert node.undo is not None
    return Done(node.name, result or "null", node.undo)


def undoing(flow: FlowId, done: Sequence[Done], parent: JobId | None) -> NewFlow:
    """The flow that undoes these, the last first. It has failed if one of its jobs has."""
    nodes: list[NewNode] = []
    for one in reversed(done):
        before = (NewEdge(nodes[-1].job.id, ANY_END),) if nodes else ()
        gates = (NewGate(1, before),) if before else ()
        job = _job(new_node_id(flow), one, blocked=bool(gates))
        nodes.append(NewNode(one.name, job, gates, is_sink=True))
    graph = encode_graph(nodes)
    return NewFlow(id=flow, name=NAME, nodes=tuple(nodes), graph=graph, parent=parent, fence=UNHELD)


def _job(job_id: JobId, done: Done, *, blocked: bool) -> NewJob:
    undo = done.undo
    args = _encoder.encode({undo.param: msgspec.Raw(done.result.encode())}).decode()
    return NewJob(
        job_id,
        undo.task,
        undo.queue,
        args,
        undo.policy,
        undo.priority,
        tags=undo.tags,
        headers=undo.headers,
        ties=int(Tie.NODE),
        blocked=blocked,
    )
