"""Which live nodes a flow no longer needs. Pure.

A gate with `losers="cancel"` that is met lets its other upstreams go. Such a node is cancelled
unless an open gate still waits for it. Cancelling it may leave its own upstreams without anybody
who waits: they are cancelled too, as far back as only losers need them. With a map go its elements.
A map that is being cancelled may make more of them until it ends, so the same question is asked
again then, and looks past the nodes that were cancelled before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from holdfast.flow.drift import counted
from holdfast.flow.graph import Graph
from holdfast.flow.growing import MAP
from holdfast.flow.model import BITS, Losers
from holdfast.job.ids import JobId
from holdfast.job.state import ENDED, LIVE, JobState

MOST_NAMED = 3
_PASSED = LIVE | {JobState.CANCELLED, JobState.SKIPPED}
"""The nodes behind which it is looked for others that only they needed."""


def winners_of(graph: Graph, met: JobId, states: Mapping[JobId, JobState]) -> list[JobId]:
    """The nodes by which gates of `met` were met whose losers are cancelled, as many as are told
    of."""
    return [
        edge.upstream
        for gate in graph.gates_of(met)
        if gate.losers is Losers.CANCEL
        for edge in gate.edges
        if (state := states.get(edge.upstream)) in ENDED and edge.wants & BITS[state]
    ][:MOST_NAMED]


def losers_of(graph: Graph, met: JobId, states: Mapping[JobId, JobState]) -> set[JobId]:
    """The live nodes that only the gates of `met` needed, and that nobody needs any more."""
    named = {
        edge.upstream
        for gate in graph.gates_of(met)
        if gate.losers is Losers.CANCEL
        for edge in gate.edges
    }
    return _unneeded(graph, named, states)


def skipped_behind(
    graph: Graph, losers: Collection[JobId], states: Mapping[JobId, JobState]
) -> set[JobId]:
    """Those of the losers that a skipped node waited for. Their cancel is no failure of it."""
    skipped = [job for job, state in states.items() if state is JobState.SKIPPED] if losers else []
    return {upstream for job in skipped for upstream in graph.upstreams(job)} & set(losers)


def _unneeded(
    graph: Graph, candidates: Iterable[JobId], states: Mapping[JobId, JobState]
) -> set[JobId]:
    waiting = graph.downstreams()
    needed: dict[JobId, set[JobId]] = {}
    lost: set[JobId] = set()

    def is_needed(job: JobId) -> bool:
        for other in waiting.get(job, ()):
            if other not in needed:
                needed[other] = _needed_by(graph, other, states)
            if job in needed[other] and other not in lost:
                return True
        return False

    ahead = list(candidates)
    while ahead:
        job = ahead.pop()
        if job in lost or states.get(job) not in _PASSED or is_needed(job):
            continue
        lost.add(job)
        for one in graph.upstreams(job):
            ahead += (one, *_elements(graph, one))
    return {job for job in lost if states[job] in LIVE}


def _elements(graph: Graph, job: JobId) -> list[JobId]:
    """What a map has made; nothing if the node is no map."""
    node = graph.nodes.get(graph.names.get(job, ""))
    if node is None or node.task != MAP:
        return []
    return graph.added_by(job) or []


def _needed_by(graph: Graph, job: JobId, states: Mapping[JobId, JobState]) -> set[JobId]:
    """What the open gates of a blocked node wait for. Another gate of it may be met: what only that
    one waited for is not needed any more."""
    if states.get(job) is not JobState.BLOCKED:
        return set()
    gates = graph.gates_of(job)
    return {
        edge.upstream
        for gate in gates
        if counted(gate, states)[0] < gate.need
        for edge in gate.edges
    }
