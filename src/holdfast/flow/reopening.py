"""What a retry of a flow runs again. Pure, so that it can be shown before it is done."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from holdfast.errors import BadFlow
from holdfast.flow.graph import Graph
from holdfast.flow.model import FlowInfo, NodeInfo, Reopening
from holdfast.job.ids import JobId
from holdfast.job.state import ENDED, JobState

S = JobState
FAILED = frozenset({S.FAILED, S.EXPIRED, S.CANCELLED})


class RetryPlan(msgspec.Struct, frozen=True):
    """The nodes that will run again, those that will wait for them, and those that are kept, by
    name."""

    again: tuple[str, ...]
    wait: tuple[str, ...]
    kept: tuple[str, ...]
    reopening: Reopening


def plan_retry(
    flow: FlowInfo,
    graph: Graph,
    nodes: Collection[NodeInfo],
    names: Collection[str] = (),
    *,
    cascade: bool = False,
) -> RetryPlan:
    """The named nodes, or those that failed, run again with fresh attempts. Their descendants that
    were skipped or failed wait for them again. A descendant that succeeded is kept, unless
    `cascade` runs it again too."""
    by_name = {node.name: node for node in nodes}
    unknown = sorted(set(names) - by_name.keys())
    if unknown:
        raise BadFlow(f"flow {flow.id} has no node {unknown[0]!r}: see flows show {flow.id}")
    chosen = {by_name[name].job_id for name in names} or {
        node.job_id for node in nodes if node.state in (S.FAILED, S.EXPIRED)
    }
    states = {node.job_id: node.state for node in nodes}
    live = sorted(graph.names[job] for job in chosen if states[job] not in ENDED)
    if live:
        state = states[by_name[live[0]].job_id]
        raise BadFlow(f"node {live[0]!r} is {state}: only nodes that have ended run again")
    behind = _descendants(graph, chosen, states, cascade) - chosen
    blocked = {job: graph.gates_of(job) for job in sorted(behind)}
    waiting = graph.downstreams()
    anew = {
        job: graph.gates_of(job)
        for one in sorted(chosen | behind)
        for job in waiting.get(one, ())
        if states.get(job) is S.BLOCKED
    }
    kept = [node.name for node in nodes if node.state is S.SUCCEEDED]
    return RetryPlan(
        _names(graph, chosen),
        _names(graph, behind),
        tuple(sorted(set(kept) - set(_names(graph, chosen | behind)))),
        Reopening(
            flow=flow.id,
            epoch=flow.epoch,
            ready=tuple(sorted(chosen)),
            blocked=blocked,
            counted_anew=anew,
        ),
    )


def _descendants(
    graph: Graph, of: Collection[JobId], states: Mapping[JobId, JobState], cascade: bool
) -> set[JobId]:
    """Ended nodes behind these that have to wait again."""
    reopened = ENDED if cascade else FAILED | {S.SKIPPED}
    waiting = graph.downstreams()
    found: set[JobId] = set()
    ahead = list(of)
    while ahead:
        for job in waiting.get(ahead.pop(), ()):
            if job not in found and states.get(job) in reopened:
                found.add(job)
                ahead.append(job)
    return found


def _names(graph: Graph, jobs: Collection[JobId]) -> tuple[str, ...]:
    return tuple(sorted(graph.names[job] for job in jobs))
