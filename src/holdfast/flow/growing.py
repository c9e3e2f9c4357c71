"""A map: one node becomes a node for each element of a list.

The map itself is a job of the task `MAP`, which every worker knows. Its arguments are a `MapPlan`;
the list comes into them as any result does. When it runs it adds a node for each element, some
hundred at a time. A node that waits for all of them gets a gate with each of these hundreds, so
that nobody else has to wait while one gate with all elements is written; a node that waits for a
share of them, or for a failure among them, gets one gate at the end. Those nodes also wait for the
map itself, so none can begin while elements are still being made. The names and ids of elements
follow from the map's own, so a map that is tried again after a crash adds nothing twice.

`any_of(map, other)` needs all elements or the other node, which gates cannot say: a node has to
meet all its gates. So a job of the task `COLLECT` waits for the elements, and its success stands
for theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

import msgspec

from holdfast.flow.elements import element_ids
from holdfast.flow.graph import (
    Gates,
    Graph,
    GraphText,
    encode_elements,
    encode_text,
    require_no_cycle,
)
from holdfast.flow.inputs import NULL
from holdfast.flow.model import (
    ANY_END,
    FAILURE,
    SUCCESS,
    FlowId,
    Growth,
    NewEdge,
    NewElements,
    NewGate,
)
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy, encode_policy
from holdfast.job.record import NewJob
from holdfast.job.retry import Retry
from holdfast.job.ties import Tie

MAP = "holdfast.map"
"""The task of all maps. A name of a user's own cannot begin like this."""

COLLECT = "holdfast.collect"
"""The task of a node whose success stands for what the elements of a map have come to."""

ELEMENTS_AT_ONCE = 500
MOST_ELEMENTS = 100_000


class JoinCondition(StrEnum):
    """What a node waits for that waits for the elements of a map."""

    SUCCESS = "success"  # of a share of them
    END = "end"  # of all of them, however they end
    FAILURE = "failure"  # of one of them, or of the map itself


class Join(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that waits for the elements. One that waits in several ways has as many joins."""

    node: JobId
    wait: JoinCondition = JoinCondition.SUCCESS
    share: float = 1.0

    @property
    def of_all(self) -> int | None:
        """How each element has to end; None if not all of them have to."""
        if self.wait is JoinCondition.SUCCESS and self.share == 1.0:
            return SUCCESS
        return ANY_END if self.wait is JoinCondition.END else None


class MapPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to make the jobs of a map. `args` are the arguments that all have in common, as JSON;
    each element of the list becomes the argument `over`. `deadline_in` are seconds from the moment
    an element is made. `inherits_deadline`: elements have the deadline of the map's own job."""

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
    deadline_at: datetime | None = None
    deadline_in: float | None = None
    inherits_deadline: bool = False


OWN_POLICY = encode_policy(Policy(retry=Retry(max_attempts=10, base=1, cap=60)))
"""The policy of nodes whose tasks every worker knows."""

_arguments = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()


def own_job(like: NewJob, task: str, args: str) -> NewJob:
    """The job of a node beside elements like this one. It passes none of their limits, and has not
    their deadline."""
    return msgspec.structs.replace(
        like,
        task=task,
        args=args,
        policy=OWN_POLICY,
        ties=int(Tie.NODE),
        deadline_at=None,
        deadline_in=None,
        buckets=None,
        costs=None,
        weight=1,
    )


def growths(
    plan: MapPlan, items: Sequence[str], flow: FlowId, by: JobId, fence: int, anew: int = 0
) -> Iterator[Growth]:
    """What the map adds to its flow, in bites: elements, each bite with the gates behind it. The
    gates of nodes that do not need all elements come last, because they cannot be parted. A bite
    and its gates are written together or not at all, and a node that waits no more keeps neither
    from being written: whoever finds elements in the flow finds their gates, too. `items` are JSON;
    `anew` is how often elements of the map have been removed."""
    like, before = _like(plan, by), _before_item(plan)
    whole = _behind(plan.joins)
    for first in range(0, len(items), ELEMENTS_AT_ONCE):
        bite = items[first : first + ELEMENTS_AT_ONCE]
        args = tuple([f"{before}{item}}}" for item in bite])
        new = NewElements(plan.name, first, like, args, not plan.joins, whole, anew)
        yield _growth(new, flow, by, fence)
    gates = _gates(plan.joins, range(len(items)), by, anew)
    yield from _each_gate(gates, flow, by, fence, anew)


def _growth(new: NewElements, flow: FlowId, by: JobId, fence: int) -> Growth:
    graph = encode_elements(new, by)
    return Growth(flow=flow, by=by, fence=fence, elements=new, graph=graph, leaves_out_gone=True)


def _each_gate(gates: Gates, flow: FlowId, by: JobId, fence: int, anew: int) -> Iterator[Growth]:
    for node, some in gates.items():
        graph = encode_text(GraphText(gates={node: some}, by=by, anew=anew))
        yield Growth(
            flow=flow, by=by, fence=fence, gates={node: some}, graph=graph, leaves_out_gone=True
        )


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
        deadline_at=plan.deadline_at,
        deadline_in=plan.deadline_in,
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


def _behind(joins: Sequence[Join]) -> dict[JobId, int]:
    """The nodes that need all elements, and which ends win there. All that succeed have ended."""
    wanted = [(join.node, wants) for join in joins if (wants := join.of_all) is not None]
    return dict(sorted(wanted, key=lambda one: one[1], reverse=True))


def _gates(joins: Sequence[Join], indexes: range, by: JobId, anew: int) -> Gates:
    """The gates of nodes that do not need all of these elements."""
    some = [join for join in joins if join.of_all is None]
    elements = element_ids(by, indexes, anew) if some else []
    gates: dict[JobId, tuple[NewGate, ...]] = {}
    for join in some:
        if (gate := _gate(join, elements, by)) is not None:
            gates[join.node] = (*gates.get(join.node, ()), gate)
    return gates


def _gate(join: Join, elements: Sequence[JobId], by: JobId) -> NewGate | None:
    """A map that made no elements can only fail itself: its success makes the gate impossible."""
    if join.wait is JoinCondition.FAILURE:
        return NewGate(1, tuple([NewEdge(job, FAILURE) for job in (by, *elements)]))
    need = math.ceil(Fraction(str(join.share)) * len(elements))  # 0.07 * 100 is more than 7
    return NewGate(need, tuple(map(NewEdge, elements))) if need else None
