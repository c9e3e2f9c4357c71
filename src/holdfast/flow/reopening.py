"""What a retry of a flow runs again. Pure, so that it can be shown before it is done.

A node may have added others to the flow: a map its elements, a handler what it wrote down with
`ctx.flow`. When such a node runs again with other arguments, what it added before is removed, with
all that was added from there in turn, and the node adds it anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from holdfast.errors import BadFlow
from holdfast.flow.drift import counted
from holdfast.flow.graph import Graph
from holdfast.flow.model import BITS, FlowInfo, NewEdge, NewGate, NodeInfo, Reopening
from holdfast.job.ids import JobId
from holdfast.job.state import ENDED, JobState

S = JobState
FAILED = frozenset({S.FAILED, S.EXPIRED, S.CANCELLED})


class RetryPlan(msgspec.Struct, frozen=True):
    """The nodes that run again at once, those that run again when what they wait for has ended,
    those that are removed and added anew, and those that are kept, by name."""

    again: tuple[str, ...]
    wait: tuple[str, ...]
    anew: tuple[str, ...]
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
    """The named nodes, or those that failed, run again with fresh attempts. One whose gates are not
    met by what has ended and is kept waits again. One whose gates are impossible by that is refused
    if it is named, and left out otherwise. Descendants of these nodes that were skipped or failed
    wait for them again. A descendant that succeeded is kept, unless `cascade` runs it again too.
    What was added to the flow by a node that waits again, or by a named one with `cascade`, is
    removed."""
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
    while True:
        spread = _Spread(graph, states, chosen, cascade=cascade)
        removed, behind = spread.removed, spread.behind
        again = chosen | behind | removed
        left, text = graph, ""
        if spread.growers:
            left, text = graph.without_added_by(spread.growers, spread.further_gates())
        kept = {job: state for job, state in states.items() if job not in again}
        whys = _why_never(left, chosen - removed, kept)
        if not whys:
            break
        if names or chosen <= whys.keys():
            raise BadFlow(min(whys.values()))
        chosen -= whys.keys()
    _require_ended(graph, removed, states)
    waiting = graph.downstreams()
    _require_nobody_has_begun(graph, waiting, again, states)
    _require_nobody_left_behind(graph, left, removed)
    anew = {
        job: left.gates_of(job)
        for one in sorted(again)
        for job in waiting.get(one, ())
        if states.get(job) is S.BLOCKED
    }
    chosen -= removed | behind
    ready = {job for job in chosen if _are_met(left.gates_of(job), kept)}
    blocked = behind | chosen - ready
    succeeded = [node.name for node in nodes if kept.get(node.job_id) is S.SUCCEEDED]
    return RetryPlan(
        _names(graph, ready),
        _names(graph, blocked),
        _names(graph, removed),
        tuple(sorted(succeeded)),
        Reopening(
            flow=flow.id,
            epoch=flow.epoch,
            ready=tuple(sorted(ready)),
            blocked={job: left.gates_of(job) for job in sorted(blocked)},
            counted_anew=anew,
            removed=tuple(sorted(removed)),
            graph=text,
        ),
    )


def _are_met(gates: Collection[NewGate], kept: Mapping[JobId, JobState]) -> bool:
    """Whether the ends that are kept meet these gates."""
    tallies = [counted(gate, kept) for gate in gates]
    return all(won >= need for won, _, _, need in tallies)


def _why_never(
    graph: Graph, jobs: Collection[JobId], kept: Mapping[JobId, JobState]
) -> dict[JobId, str]:
    """Why some of these nodes could only be skipped again: a gate of theirs is impossible by the
    ends that are kept."""
    found: dict[JobId, str] = {}
    for job in jobs:
        for gate in graph.gates_of(job):
            _, lost, total, need = counted(gate, kept)
            if lost > total - need:
                found[job] = _why_lost(graph, job, gate, kept)
    return found


def _why_lost(graph: Graph, job: JobId, gate: NewGate, kept: Mapping[JobId, JobState]) -> str:
    ended = [edge for edge in gate.edges if kept.get(edge.upstream) in ENDED]
    lost = [edge.upstream for edge in ended if not edge.wants & BITS[kept[edge.upstream]]]
    name, state = min((graph.names[one], kept[one]) for one in lost)
    return (
        f"node {graph.names[job]!r} cannot run: it waits for {name!r}, which is {state}; retry "
        f"{name!r} too"
    )


class _Spread:
    """What runs again because these nodes do: `behind`, ended nodes that have to wait again, and
    `removed`, those that were added by one of the `growers`, which add them anew."""

    def __init__(
        self,
        graph: Graph,
        states: Mapping[JobId, JobState],
        chosen: Collection[JobId],
        *,
        cascade: bool,
    ) -> None:
        self._graph = graph
        self.behind: set[JobId] = set()
        self.growers: set[JobId] = set()
        self._added_by: dict[JobId, JobId] = {}
        self._states = states
        self._ahead = list(chosen)
        if cascade:
            for job in chosen:
                self._adds_anew(job)
        reopened = ENDED if cascade else FAILED | {S.SKIPPED}
        waiting = graph.downstreams()
        while self._ahead:
            for job in waiting.get(self._ahead.pop(), ()):
                is_again = job in chosen or states.get(job) in reopened
                if job not in self.behind and is_again:
                    self.behind.add(job)
                    self._ahead.append(job)
                    self._adds_anew(job)
        self.removed = set(self._added_by)
        self.behind -= self.removed

    def _adds_anew(self, job: JobId) -> None:
        added = self._graph.added_by(job)
        if added is None or job in self.growers:
            return
        self.growers.add(job)
        for one in added:
            self._added_by[one] = job
            self._ahead.append(one)
            self._adds_anew(one)

    def _root(self, grower: JobId) -> JobId:
        """The one that stays, of the growers that have led to this one."""
        while grower in self._added_by:
            grower = self._added_by[grower]
        return grower

    def further_gates(self) -> dict[JobId, tuple[NewGate, ...]]:
        """A node waited for what a grower added, and not for the grower: it was held up by others
        meanwhile, which have ended by now. So it waits for the grower too."""
        roots: dict[JobId, set[JobId]] = {}
        for grower in self.growers:
            root = self._root(grower)
            for job in self._graph.held_up_by(grower) - self.removed:
                waits = job in self.behind or self._states.get(job) is S.BLOCKED
                if waits and root not in self._graph.upstreams(job):
                    roots.setdefault(job, set()).add(root)
        return {
            job: tuple(NewGate(1, (NewEdge(root),)) for root in sorted(some))
            for job, some in sorted(roots.items())
        }


def _require_ended(
    graph: Graph, removed: Collection[JobId], states: Mapping[JobId, JobState]
) -> None:
    for job in sorted(removed):
        if (state := states.get(job)) is not None and state not in ENDED:
            raise BadFlow(
                f"node {graph.names[job]!r} is {state}, and would be removed and added anew: wait "
                "until it has ended, or cancel it, and retry"
            )


def _require_nobody_has_begun(
    graph: Graph,
    waiting: Mapping[JobId, Collection[JobId]],
    again: Collection[JobId],
    states: Mapping[JobId, JobState],
) -> None:
    """What was released by a success needs its result as long as it is live."""
    for one in sorted(again):
        for job in sorted(waiting.get(one, ())) if states.get(one) is S.SUCCEEDED else ():
            state = states.get(job)
            if state is not None and state not in ENDED and state is not S.BLOCKED:
                raise BadFlow(
                    f"node {graph.names[job]!r} is {state}, and goes on from what "
                    f"{graph.names[one]!r} has come to: wait until it has ended, or cancel it, and "
                    "retry"
                )


def _require_nobody_left_behind(graph: Graph, left: Graph, removed: Collection[JobId]) -> None:
    """Another node may have been added that waits for one which is removed. Nobody can tell for
    which of the new ones it should wait."""
    for job, name in sorted(left.names.items()) if removed else ():
        for gone in sorted(left.upstreams(job) & set(removed)):
            raise BadFlow(
                f"node {name!r} waits for {graph.names[gone]!r}, which would be removed and added "
                "anew: start the flow again"
            )


def _names(graph: Graph, jobs: Collection[JobId]) -> tuple[str, ...]:
    return tuple(sorted(graph.names[job] for job in jobs))
