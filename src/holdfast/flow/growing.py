"""A map: one node becomes a node for each element of a list.

The map itself is a job of the task `MAP`, which every worker knows. Its arguments are a `MapPlan`;
the list comes into them as any result does. When it runs it adds a node for each element, some
hundred at a time. A node that waits for all of them gets a gate with each of these hundreds, so
that nobody else has to wait while one gate with all elements is written; a node that waits for a
share of them gets one gate at the end. Those nodes also wait for the map itself, so none can begin
while elements are still being made. The names and ids of elements follow from the map's own, so a
map that is tried again after a crash adds nothing twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.flow.elements import element_ids
from holdfast.flow.graph import (
    Gates,
    Graph,
    encode_elements,
    encode_graph,
    gates_behind,
    require_no_cycle,
)
from holdfast.flow.inputs import NULL
from holdfast.flow.model import FlowId, Growth, Losers, NewEdge, NewElements, NewGate
from holdfast.job.ids import JobId
from holdfast.job.record import NewJob
from holdfast.job.ties import Tie

MAP = "holdfast.map"
"""The task of all maps. A name of a user's own cannot begin like this."""

ELEMENTS_AT_ONCE = 500
MOST_ELEMENTS = 100_000


class Join(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that waits for the elements, and which part of them it needs."""

    node: JobId
    share: float = 1.0
    losers: Losers = Losers.LET_RUN


class MapPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to make the jobs of a map. `args` are the arguments that all have in common, as JSON;
    each element of the list becomes the argument `over`."""

    name: str
    task: str
    queue: str
    policy: str
    args: str
    over: str
    priority: int = 0
    tags: tuple[str, ...] = ()
    headers: str | None = None
    buckets: str | None = None
    costs: str | None = None
    weight: int = 1
    joins: tuple[Join, ...] = ()


_arguments = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()


def growths(
    plan: MapPlan, items: Sequence[str], flow: FlowId, by: JobId, fence: int, anew: int = 0
) -> Iterator[Growth]:
    """What the map adds to its flow, in bites: elements, each bite with the gates behind it. A node
    that needs only a part of the elements waits for all of them at one gate, which comes last.
    `items` are JSON; `anew` is how often elements of the map have been removed."""
    like, before = _like(plan, by), _before_item(plan)
    whole = {join.node: join.losers for join in plan.joins if join.share == 1.0}
    for first in range(0, len(items), ELEMENTS_AT_ONCE):
        bite = items[first : first + ELEMENTS_AT_ONCE]
        args = tuple([f"{before}{item}}}" for item in bite])
        new = NewElements(plan.name, first, like, args, not plan.joins, whole, anew)
        yield _growth(new, flow, by, fence)
    shares = [join for join in plan.joins if join.share != 1.0]
    yield from _each_gate(_gates(shares, range(len(items)), by, anew), flow, by, fence)


def apart(growth: Growth, elements: NewElements) -> Iterator[Growth]:
    """The same elements without the gates, and then each gate: one that its node no longer needs
    keeps neither the elements nor the other gates from being added."""
    flow, by, fence = growth.flow, growth.by, growth.fence
    yield _growth(msgspec.structs.replace(elements, behind={}), flow, by, fence)
    gates = gates_behind(element_ids(by, elements.indexes, elements.anew), elements.behind)
    yield from _each_gate(gates, flow, by, fence)


def _growth(new: NewElements, flow: FlowId, by: JobId, fence: int) -> Growth:
    return Growth(flow=flow, by=by, fence=fence, elements=new, graph=encode_elements(new, by))


def _each_gate(gates: Gates, flow: FlowId, by: JobId, fence: int) -> Iterator[Growth]:
    for node, some in gates.items():
        graph = encode_graph((), {node: some}, by=by)
        yield Growth(flow=flow, by=by, fence=fence, gates={node: some}, graph=graph)


def may_close_a_cycle(growth: Growth) -> bool:
    """Whether nodes that are there may come to wait for nodes that are there. A growth of which
    none does closes no cycle with what the flow has."""
    if not growth.gates:
        return False
    new = {node.job.id for node in growth.nodes}
    given = (*(node.gates for node in growth.nodes), *growth.gates.values())
    return any(edge.upstream not in new for gates in given for gate in gates for edge in gate.edges)


def require_no_cycle_with(graph: Graph, growth: Growth) -> None:
    """Refuse a growth after which nodes of the flow would wait for each other. A graph without
    nodes leaves only the new ones to look at."""
    names = {**graph.names, **{node.job.id: node.name for node in growth.nodes}}
    waits_for = {name: set(graph.upstreams(job)) for job, name in graph.names.items()}
    added = {node.job.id: node.gates for node in growth.nodes}
    for job, gates in (*added.items(), *growth.gates.items()):
        if job in names:
            some = {edge.upstream for gate in gates for edge in gate.edges}
            waits_for.setdefault(names[job], set()).update(some)
    require_no_cycle(
        {name: [names[job] for job in some if job in names] for name, some in waits_for.items()}
    )


def _like(plan: MapPlan, by: JobId) -> NewJob:
    """The job of an element, but for its id and arguments."""
    return NewJob(
        by,
        plan.task,
        plan.queue,
        "",
        plan.policy,
        plan.priority,
        tags=plan.tags,
        headers=plan.headers,
        ties=int(Tie.NODE | Tie.PERMITS if plan.buckets else Tie.NODE),
        buckets=plan.buckets,
        costs=plan.costs,
        weight=plan.weight,
    )


def _before_item(plan: MapPlan) -> str:
    """The arguments of an element up to its item, which is the last of them."""
    shared = _arguments.decode(plan.args)
    shared.pop(plan.over, None)
    return _encoder.encode({**shared, plan.over: NULL}).decode().removesuffix("null}")


def _gates(joins: Sequence[Join], indexes: range, by: JobId, anew: int) -> Gates:
    """A gate before each of these nodes, which waits for these elements."""
    edges = tuple(map(NewEdge, element_ids(by, indexes, anew))) if joins else ()
    needs = {join: math.ceil(join.share * len(edges)) for join in joins}
    return {join.node: (NewGate(need, edges, join.losers),) for join, need in needs.items() if need}
