"""Why a node did not succeed: the chain of causes, back to the node with which it began, and why a
flow told it to stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.flow.model import NodeInfo
from holdfast.job.ends import Cancelled
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.sealed import shown
from holdfast.job.state import JobState
from holdfast.job.ties import NODE
from holdfast.job.what import What
from holdfast.store.contract.reading import ReadingById

if TYPE_CHECKING:
    from holdfast.flow.whole_flow import WholeFlow

ENDS_NAMED = 2
"""So many nodes at each end of a long chain are named; those between are counted."""

_RANK = {
    JobState.FAILED: 0,
    JobState.EXPIRED: 0,
    JobState.SKIPPED: 1,
    JobState.CANCELLED: 2,
    JobState.SUCCEEDED: 3,
}
"""Which of several nodes is named as the cause: a failure before what only followed from one."""


def chain_of(whole: WholeFlow, job: JobId) -> list[NodeInfo]:
    """The nodes that decided the end of this one, the nearest first. The last is where it began: a
    node that failed, was cancelled, succeeded though others waited for its failure, or skipped
    itself. Empty for a node that decided its own end. Nodes that wait for each other, which only
    somebody who writes past the workers can add, are named once."""
    chain: list[NodeInfo] = []
    cause = _cause(whole, job)
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = _cause(whole, cause.job_id)
    return chain


def _cause(whole: WholeFlow, job: JobId) -> NodeInfo | None:
    node = whole.nodes.get(job)
    if node is None or node.state is not JobState.SKIPPED:
        return None
    lost = [one for gate in whole.impossible_gates(job) for one in whole.lost_at(gate)]
    return min(lost, key=lambda one: (_RANK[one.state], str(one.finished_at)), default=None)


def chain_text(chain: list[NodeInfo]) -> str:
    """The chain in words: `because 'c' was skipped, because 'a' failed`."""
    said = [f"because {node.name!r} {end_text(node, is_first=node is chain[-1])}" for node in chain]
    between = len(said) - 2 * ENDS_NAMED
    if between > 1:
        left_out = f"and so on through {between:,} more nodes"
        said = [*said[:ENDS_NAMED], left_out, *said[-ENDS_NAMED:]]
    return ", ".join(said)


def end_text(node: NodeInfo, *, is_first: bool = False) -> str:
    """How a node ended. `is_first`: no other node made it end like this."""
    match node.state:
        case JobState.FAILED:
            return "failed"
        case JobState.EXPIRED:
            return "passed its deadline"
        case JobState.CANCELLED:
            return "was cancelled"
        case JobState.SKIPPED:
            return "skipped itself" if is_first else "was skipped"
        case _:
            return node.state.value


def skipped_because_of(whole: WholeFlow, job: JobId) -> int:
    """How many nodes were skipped because this one ended as it did."""
    waiting = whole.graph.downstreams()
    found: set[JobId] = set()
    ahead = [job]
    while ahead:
        for one in waiting.get(ahead.pop(), ()):
            node = whole.nodes.get(one)
            if node is not None and node.state is JobState.SKIPPED and one not in found:
                found.add(one)
                ahead.append(one)
    return len(found)


async def jobs_with_reasons(reading: ReadingById, jobs: Sequence[Job]) -> list[Job]:
    """These jobs, each with why its flow told it to stop, if it did: who lost a race, and to whom.
    The end of such a job says only that it was asked for."""
    asked = [job.id for job in jobs if job.ties & NODE and job.reason == Cancelled().reason]
    why = await _why_told_to_stop(reading, asked)
    return [replace(job, reason=why[job.id]) if job.id in why else job for job in jobs]


async def nodes_with_reasons(reading: ReadingById, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
    """The same for nodes as their flow tells of them."""
    asked = [node.job_id for node in nodes if node.reason == Cancelled().reason]
    why = await _why_told_to_stop(reading, asked)
    return [
        replace(node, reason=why[node.job_id]) if node.job_id in why else node for node in nodes
    ]


async def _why_told_to_stop(reading: ReadingById, jobs: Sequence[JobId]) -> dict[JobId, str]:
    """A cancel that an operator asked for is left as it is."""
    if not jobs:
        return {}
    told = await reading.life(jobs)
    asked = {one.job_id: one for one in told if one.what is What.CANCEL_ASKED}
    return {job: shown(one.message) for job, one in asked.items() if one.message and one.by is None}
