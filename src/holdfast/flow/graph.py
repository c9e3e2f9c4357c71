"""The graph of a flow as it is written down: names, gates, and what each node takes from others.

No store reads it. It is what `holdfast flows graph` shows, and what tells which nodes a gate no
longer needs, which nodes a retry re-opens, and what the counts of the gates should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from holdfast.errors import FlowCycle
from holdfast.flow.elements import element_ids, element_names
from holdfast.flow.model import Losers, NewEdge, NewElements, NewGate, NewNode
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
    the map's. `behind`: the nodes that got a gate which needs all of them."""

    map: str
    by: JobId
    task: str
    first: int
    count: int
    behind: dict[JobId, Losers] = {}

    @property
    def ids(self) -> list[JobId]:
        return element_ids(self.by, range(self.first, self.first + self.count))

    @property
    def names(self) -> list[str]:
        return element_names(self.map, range(self.first, self.first + self.count))


class GraphText(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is written at the start, and with each growth: new nodes, further gates of nodes that
    were there, elements of a map, and the node whose result is the flow's."""

    nodes: tuple[GraphNode, ...] = ()
    gates: Gates = {}
    returns: str | None = None
    elements: GraphElements | None = None


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
) -> str:
    written = [
        GraphNode(node.name, node.job.id, node.job.task, node.gates, made_by, node.undo)
        for node in nodes
    ]
    return encode_text(GraphText(tuple(written), dict(gates or {}), returns))


def encode_elements(new: NewElements, by: JobId) -> str:
    told = GraphElements(new.map, by, new.like.task, new.first, len(new.args), new.behind)
    return encode_text(GraphText(elements=told))


def gates_behind(jobs: Sequence[JobId], behind: Mapping[JobId, Losers]) -> Gates:
    """A gate before each of the nodes `behind`, which needs all these jobs."""
    edges = tuple(map(NewEdge, jobs)) if behind else ()
    return {node: (NewGate(len(edges), edges, losers),) for node, losers in behind.items()}


class Graph:
    """The whole graph of a flow, as it has grown so far."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.nodes: dict[str, GraphNode] = {}
        self.returns: str | None = None
        self._more: dict[JobId, list[NewGate]] = {}
        for text in texts:
            written = decode_graph(text)
            for node in written.nodes:
                self.nodes.setdefault(node.name, node)
            self._add_gates(written.gates)
            if written.elements is not None:
                self._add_elements(written.elements)
            self.returns = written.returns or self.returns
        self.names: dict[JobId, str] = {node.job: name for name, node in self.nodes.items()}

    def _add_elements(self, told: GraphElements) -> None:
        ids = told.ids
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


def require_no_cycle(waits_for: Mapping[str, Iterable[str]]) -> None:
    """Refuse a graph in which nodes wait for each other (Kahn's algorithm, over the whole graph).
    The error names one circle of them."""
    if is_in_order(waits_for):
        return
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
    if left:
        raise FlowCycle(_circle(left))


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
