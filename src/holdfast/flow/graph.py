"""The graph of a flow as it is written down: names, gates, and what each node takes from others.

No store reads it. It is what `holdfast flows graph` shows, and what tells which nodes a gate no
longer needs, which nodes a retry re-opens, and what the counts of the gates should be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from holdfast.errors import FlowCycle
from holdfast.flow.defaults import NO_DEFAULTS, NodeDefaults
from holdfast.flow.elements import element_ids, element_names
from holdfast.flow.model import NewEdge, NewElements, NewGate, NewNode
from holdfast.job.ids import JobId
from holdfast.job.undo import Undo

T = TypeVar("T")
Gates = dict[JobId, tuple[NewGate, ...]]


class GraphNode(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One node. `map` is the name of the map that made it, `undo` who undoes it."""

    name: str
    job: JobId
    task: str
    gates: tuple[NewGate, ...] = ()
    map: str | None = None
    undo: Undo | None = None


class GraphElements(msgspec.Struct, frozen=True, omit_defaults=True):
    """Elements of a map that were added together, without their names and ids, which follow from
    the map's. `behind`: the nodes that got a gate which needs all of them, and which ends win.
    `anew`: how often elements of the map had been removed before."""

    map: str
    task: str
    first: int
    count: int
    behind: dict[JobId, int] = {}
    anew: int = 0

    def ids(self, by: JobId) -> list[JobId]:
        return element_ids(by, range(self.first, self.first + self.count), self.anew)

    @property
    def names(self) -> list[str]:
        return element_names(self.map, range(self.first, self.first + self.count))


class GraphText(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is written at the start, and with each growth: new nodes, further gates of nodes that
    were there, elements of a map, and the node whose result is the flow's. `by` is the node that
    added them; at the start nobody did. `anew`: how often what it had added was removed before, if
    the text does not say so otherwise. `defaults`: what the flow says of all its nodes.

    A retry that lets nodes add anew what they have added writes these nodes as `removed`: what they
    added before is no part of the graph from then on."""

    nodes: tuple[GraphNode, ...] = ()
    gates: Gates = {}
    returns: str | None = None
    elements: GraphElements | None = None
    by: JobId | None = None
    anew: int = 0
    removed: tuple[JobId, ...] = ()
    defaults: NodeDefaults = NO_DEFAULTS


_encoder = msgspec.json.Encoder()
decode_graph = msgspec.json.Decoder(GraphText).decode


def encode_text(written: GraphText) -> str:
    return _encoder.encode(written).decode()


def encode_graph(
    nodes: Sequence[NewNode],
    gates: Mapping[JobId, tuple[NewGate, ...]] | None = None,
    *,
    returns: str | None = None,
    made_by: str | None = None,
    by: JobId | None = None,
    defaults: NodeDefaults = NO_DEFAULTS,
) -> str:
    written = [
        GraphNode(node.name, node.job.id, node.job.task, node.gates, made_by, node.undo)
        for node in nodes
    ]
    return encode_text(
        GraphText(tuple(written), dict(gates or {}), returns, by=by, defaults=defaults)
    )


def encode_elements(new: NewElements, by: JobId) -> str:
    told = GraphElements(new.map, new.like.task, new.first, len(new.args), new.behind, new.anew)
    return encode_text(GraphText(elements=told, by=by))


def gates_behind(jobs: Sequence[JobId], behind: Mapping[JobId, int]) -> Gates:
    """A gate before each of the nodes `behind`, which needs all these jobs to end as it wants."""
    edges = {wants: tuple([NewEdge(job, wants) for job in jobs]) for wants in behind.values()}
    return {node: (NewGate(len(jobs), edges[wants]),) for node, wants in behind.items()}


class Graph:
    """The whole graph of a flow, as it has grown so far."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = tuple(texts)
        all_written = tuple(map(decode_graph, self._texts))
        self._removals = Counter(job for written in all_written for job in written.removed)
        self.nodes: dict[str, GraphNode] = {}
        self.returns: str | None = None
        self.defaults = all_written[0].defaults if all_written else NO_DEFAULTS
        self._more: dict[JobId, list[NewGate]] = {}
        self._added: dict[JobId, list[JobId]] = {}
        self._held_up: dict[JobId, set[JobId]] = {}
        for written in _standing(all_written):
            added = [node.job for node in written.nodes]
            for node in written.nodes:
                self.nodes.setdefault(node.name, node)
            self._add_gates(written.gates)
            if written.elements is not None and written.by is not None:
                added = written.elements.ids(written.by)
                self._add_elements(written.elements, added)
            if written.by is not None:
                self._added.setdefault(written.by, []).extend(added)
                behind = () if written.elements is None else written.elements.behind
                self._held_up.setdefault(written.by, set()).update(written.gates, behind)
            self.returns = written.returns or self.returns
        self.names: dict[JobId, str] = {node.job: name for name, node in self.nodes.items()}

    def without_added_by(self, jobs: Iterable[JobId], gates: Gates) -> tuple[Graph, str]:
        """The graph when all that these nodes have added is removed and nodes that are left have
        these further gates, and the text that says so."""
        text = encode_text(GraphText(gates=gates, removed=tuple(sorted(jobs))))
        return Graph([*self._texts, text]), text

    def added_by(self, job: JobId) -> list[JobId] | None:
        """The nodes that a node has added to its flow. It may have added nothing but gates; None if
        it has added nothing at all."""
        return self._added.get(job)

    def added_through(self, job: JobId) -> list[JobId]:
        """A node, the one that added it to its flow, the one that added that one, and so on."""
        adder = {one: by for by, added in self._added.items() for one in added}
        found = [job]
        while (by := adder.get(found[-1])) is not None:
            found.append(by)
        return found

    def held_up_by(self, job: JobId) -> set[JobId]:
        """The nodes that were there already, and that a node has let wait for what it added."""
        return self._held_up.get(job, set())

    def times_removed(self, job: JobId) -> int:
        """How often all that a node had added was removed, so that it adds anew."""
        return self._removals[job]

    def _add_elements(self, told: GraphElements, ids: Sequence[JobId]) -> None:
        for name, job in zip(told.names, ids, strict=True):
            self.nodes.setdefault(name, GraphNode(name, job, told.task, map=told.map))
        self._add_gates(gates_behind(ids, told.behind))

    def _add_gates(self, gates: Gates) -> None:
        for job, some in gates.items():
            self._more.setdefault(job, []).extend(some)

    def gates_of(self, job: JobId) -> tuple[NewGate, ...]:
        """All gates that a node was ever given."""
        node = self.nodes.get(self.names.get(job, ""))
        own = () if node is None else node.gates
        return (*own, *self._more.get(job, ()))

    def upstreams(self, job: JobId) -> set[JobId]:
        return {edge.upstream for gate in self.gates_of(job) for edge in gate.edges}

    def downstreams(self) -> dict[JobId, set[JobId]]:
        """Who waits for each node."""
        found: dict[JobId, set[JobId]] = {job: set() for job in self.names}
        for job in self.names:
            for upstream in self.upstreams(job):
                found.setdefault(upstream, set()).add(job)
        return found


def _standing(texts: Sequence[GraphText]) -> list[GraphText]:
    """Those that nothing written later has removed."""
    gone: set[JobId] = set()
    found: list[GraphText] = []
    for written in reversed(texts):
        if written.by not in gone:
            found.append(written)
        gone.update(written.removed)
    return found[::-1]


def require_no_cycle(waits_for: Mapping[str, Iterable[str]]) -> None:
    """Refuse a graph in which nodes wait for each other. The error names one circle of them."""
    if circle := cycle_in(waits_for):
        raise FlowCycle(circle)


def cycle_in(waits_for: Mapping[str, Iterable[str]]) -> list[str]:
    """One circle of nodes that wait for each other, of which the first is the last too; empty if
    there is none (Kahn's algorithm, over the whole graph)."""
    if is_in_order(waits_for):
        return []
    left = {name: set(needed) for name, needed in waits_for.items()}
    needed_by: dict[str, list[str]] = {name: [] for name in left}
    for name, needed in left.items():
        for other in needed:
            needed_by[other].append(name)
    free = [name for name, needed in left.items() if not needed]
    while free:
        gone = free.pop()
        del left[gone]
        for name in needed_by[gone]:
            left[name].discard(gone)
            if not left[name]:
                free.append(name)
    return _circle(left) if left else []


def is_in_order(waits_for: Mapping[T, Iterable[T]]) -> bool:
    """Whether every node stands behind all that it waits for, as most graphs are written down. Then
    there is no cycle, and nobody waits for a node that is not there."""
    seen: set[T] = set()
    for node, needed in waits_for.items():
        if not seen.issuperset(needed):
            return False
        seen.add(node)
    return True


def _circle(left: Mapping[str, set[str]]) -> list[str]:
    """Every node that is left waits for another one that is left: walking on must meet itself."""
    walked: list[str] = []
    name = min(left)
    while name not in walked:
        walked.append(name)
        name = min(left[name])
    return [*walked[walked.index(name) :], name]
