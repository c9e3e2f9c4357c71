"""How nodes are written down: those of a flow to start, and those that a handler adds to its flow.

Nothing here writes to a store: a builder collects nodes, and makes the records that are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from holdfast.codec.calls import ENCODER
from holdfast.declaring.approvals import approval_args
from holdfast.declaring.arguments import (
    elements,
    encoded,
    may_have_outputs,
    outputs_in,
    without_first,
)
from holdfast.declaring.nodes import (
    CollectorNode,
    MapNode,
    Node,
    NodeGroup,
)
from holdfast.enqueue.maker import JobMaker
from holdfast.enqueue.options import JobOptions, Seconds
from holdfast.errors import BadArguments, BadFlow, BadOption
from holdfast.flow.approving import APPROVE
from holdfast.flow.defaults import NO_DEFAULTS, inherited, inherits_deadline
from holdfast.flow.growing import MAP, OWN_POLICY, Join, JoinCondition, MapPlan, own_job
from holdfast.flow.inputs import Input, encode_inputs
from holdfast.flow.model import ANY_END, FAILURE, SUCCESS, NewEdge, NewGate, NewNode
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.line_rule import LineRule
from holdfast.job.record import NewJob
from holdfast.job.ties import Tie
from holdfast.job.vote import Approval
from holdfast.task import Task

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

UNMINTED = JobId("")
"""The id of a job in a flow that is not started."""

Ids = Mapping[Node[Any], JobId]

_TEMPLATES: WeakKeyDictionary[Task[..., Any], Template] = WeakKeyDictionary()

NOT_OF_NODES: dict[str, Any] = {"connection": msgspec.UNSET, "id": None, "delay": None}
"""Options that the job of a node has otherwise than its task."""


class Template(NamedTuple):
    """What nodes of one task have in common: the job without its arguments, the line that it
    stands in, if in any, the name before it is numbered, and the delay."""

    job: NewJob
    line: LineRule | None
    name: str
    delay: float | None


class FlowBuilder:
    """Collects nodes. Names are unique among them."""

    def __init__(self) -> None:
        self._nodes: dict[Node[Any], None] = {}
        self._numbered: dict[str, tuple[int, str, Node[Any]]] = {}
        self._plans: dict[Node[Any], MapPlan] = {}
        self._over: dict[Node[Any], list[msgspec.Raw] | None] = {}
        self._named: dict[Node[Any], frozenset[str]] = {}
        self._defaults = NO_DEFAULTS

    def add(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Node[R]:
        """A node that runs this task. An argument may be the output of another node: the node then
        waits for that one, and gets its result."""
        if not (may_have_outputs(args) or (kwargs and may_have_outputs(kwargs.values()))):
            whole: Node[R] = self._new(Node, task, task.codec.encode(args, kwargs))
            return whole
        arguments = task.codec.some(args, kwargs)
        outputs = outputs_in(arguments)
        node: Node[R] = self._new(Node, task, encoded(task, arguments, outputs))
        node.take(outputs)
        return node

    def map(
        self,
        task: Task[Concatenate[T, P], R],
        items: Iterable[T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> MapNode[R]:
        """A node for each element of a list, which may be the output of another node. The element
        is the first argument of the task; the others are the same for all."""
        over, arguments = without_first(task, args, kwargs)
        if outputs_in(arguments):
            problem = "only the list of a map may be the output of another node"
            raise BadArguments(task.name, problem)
        given = elements(task, over, items)
        node: MapNode[R] = self._new(MapNode, task, encoded(task, arguments, (), over=over))
        job = node.job
        self._plans[node] = MapPlan(
            node.name,
            job.task,
            job.queue,
            job.policy,
            job.args,
            over,
            headers=job.headers,
            buckets=job.buckets,
            costs=job.costs,
            weight=job.weight,
        )
        self._over[node] = given
        if given is None:
            node.take(outputs_in({"items": items}))
        return node

    def approval(
        self,
        name: str,
        *,
        of: Iterable[str],
        need: int | None = None,
        timeout: Seconds | None = None,
        escalate_to: Iterable[str] = (),
        tell: Task[..., Any] | None = None,
        queue: str = "default",
    ) -> Node[Approval]:
        """A node that asks people, and succeeds when so many have said yes, all of them without
        `need`. When the time is over, one of `escalate_to` may say yes instead. Otherwise it fails
        with `Denied`, and what needs it is skipped.

        `tell` is a task that is told whom to ask: a mapping for `client.tokens(**asked)`, which
        gives the token of each person. No token is written to the store."""
        args = approval_args(name, of, need, timeout, escalate_to, tell)
        options = JobOptions().using({"queue": queue})
        job = JobMaker(APPROVE, options).make(args)
        job = msgspec.structs.replace(job, id=UNMINTED, ties=int(Tie.NODE), policy=OWN_POLICY)
        node: Node[Approval] = self._put(Node, name, job, None)
        return node

    # ------------------------------------------------------------------------------------------

    def _new(self, kind: type[Any], task: Task[..., Any], args: str) -> Any:
        job, line, name, delay = _TEMPLATES.get(task) or _new_template(task)
        if line is None:
            job = msgspec.structs.replace(job, args=args)
        else:
            buckets, costs = line.passed(task.name, msgspec.json.decode(args))
            job = msgspec.structs.replace(
                job, args=args, buckets=buckets, costs=costs, weight=line.weight
            )
        node = self._put(kind, name, job, delay)
        if task.named:
            self._named[node] = task.named
        return node

    def _put(self, kind: type[Any], name: str, job: NewJob, delay: float | None) -> Any:
        """The next node of this name has the next number. If the last one was given another name,
        its number is free again."""
        if (last := self._numbered.get(name)) is None:
            number, numbered = 1, name
        else:
            number, numbered, node = last
            if node.name == numbered:
                number += 1
                numbered = f"{name}#{number}"
        node = kind(numbered, job, delay)
        self._numbered[name] = (number, numbered, node)
        self._nodes[node] = None
        return node

    def _apply_befores(self) -> dict[str, list[Node[Any]]]:
        """Let the nodes that `before(…)` names wait. Answers with the names that no node here has,
        each with the nodes that it is to wait for."""
        others: dict[str, list[Node[Any]]] = {}
        if not any(node.before_names for node in self._nodes):
            return others
        by_name = {one.name: one for one in self._nodes}
        for node in self._nodes:
            for name in node.before_names:
                if name in by_name:
                    by_name[name].after(node)
                else:
                    others.setdefault(name, []).append(node)
        return others

    def _add_collectors(self) -> None:
        """Add the nodes that stand for the elements of maps."""
        for node in [one for one in self._nodes if one.groups]:
            for one in upstreams(node):
                if isinstance(one, CollectorNode):
                    one.take_name()
                    self._nodes[one] = None

    def _require_own_names(self) -> None:
        names = [node.name for node in self._nodes]
        if len(set(names)) < len(names):
            [(twice, _)] = Counter(names).most_common(1)
            raise BadFlow(f"two nodes are named {twice!r}: give one another by .named(…)")

    def _new_node(
        self, node: Node[Any], ids: Ids, joined_by: Sequence[JobId] = (), *, is_sink: bool
    ) -> NewNode:
        """`joined_by`: nodes of the flow, not written down here, that wait for it."""
        gates = gates_of(node, ids)
        job = self._inherited(node)
        if node in self._plans:
            job = self._map_job(node, job, ids, joined_by)
        delay = None if gates else node.delay
        job = msgspec.structs.replace(job, id=ids[node], blocked=bool(gates), delay=delay)
        inputs = None
        if node.inputs:
            taken = [Input(path, output.source(ids)) for path, output in node.inputs]
            inputs = encode_inputs(taken)
        return NewNode(node.name, job, gates, inputs, node.delay, is_sink, node.undone_by)

    def _inherited(self, node: Node[Any]) -> NewJob:
        """The job of a node with what the flow says of all its nodes."""
        if self._defaults is NO_DEFAULTS:
            return node.job
        of = node.of if isinstance(node, CollectorNode) else node
        return inherited(node.job, self._defaults, self._named.get(of, ()))

    def _map_job(
        self, node: Node[Any], like: NewJob, ids: Ids, joined_by: Sequence[JobId]
    ) -> NewJob:
        """The job that makes elements `like` this. A deadline of the task is theirs, that of the
        flow is the job's too."""
        named = self._named.get(node, frozenset())
        joins = [join for one in self._nodes for join in _joins(one, node, ids[one])]
        others = [Join(job) for job in joined_by]
        plan = msgspec.structs.replace(
            self._plans[node],
            name=node.name,
            priority=like.priority,
            tags=like.tags,
            joins=(*joins, *others),
            deadline_at=node.job.deadline_at,
            deadline_in=node.job.deadline_in,
            inherits_deadline=inherits_deadline(node.job, self._defaults, named),
        )
        job = own_job(like, MAP, ENCODER.encode({"plan": plan, "items": self._over[node]}).decode())
        return inherited(job, self._defaults, named - {"deadline"})


def _new_template(task: Task[..., Any]) -> Template:
    """The job of a node without its arguments. Programs build the same flow many times, so it is
    remembered as long as its task."""
    options = task.options
    for word, given in (("unique", options.unique), ("run_at", options.run_at)):
        if given is not None:
            raise BadOption(word, "left out for a node of a flow: a flow may have one", given)
    alone: dict[str, Any] = {"limits": (), "cost": {}, "fair": None, "requires": ()}
    job = JobMaker(task.name, options.using({**NOT_OF_NODES, **alone})).make("")
    line = options.line or None
    ties = Tie.NODE | Tie.PERMITS if line else Tie.NODE
    job = msgspec.structs.replace(job, id=UNMINTED, ties=int(ties))
    delay = None if options.delay is None else checks.wait("delay", options.delay)
    template = Template(job, line, task.name.rpartition(".")[2], delay)
    _TEMPLATES[task] = template
    return template


def upstreams(node: Node[Any]) -> list[Node[Any]]:
    if not node.groups:
        return list(node.needs)
    grouped = (one for group in node.groups for one, _ in group.edges)
    return list(dict.fromkeys([*node.needs, *grouped]))


def gates_of(node: Node[Any], ids: Ids) -> tuple[NewGate, ...]:
    """A gate for all nodes that must succeed, and one for each other condition."""
    gates = [_gate(group, ids) for group in node.groups] if node.groups else []
    if node.needs:
        edges = tuple([NewEdge(ids[one]) for one in node.needs])
        gates.insert(0, NewGate(len(edges), edges))
    return tuple(gates)


def _joins(node: Node[Any], of: Node[Any], job: JobId) -> Iterator[Join]:
    """How this node waits for the elements of a map."""
    shares = [share for share in node.shares if share.of is of]
    if of in node.needs and not shares:
        yield Join(job)
    for share in shares:
        yield Join(job, share=share.fraction)
        if not share.early:
            yield Join(job, JoinCondition.END)
    for group in node.groups:
        if of in group.nodes and group.needs_all:
            yield Join(job, _WAITS[group.wants])


_WAITS = {
    SUCCESS: JoinCondition.SUCCESS,
    FAILURE: JoinCondition.FAILURE,
    ANY_END: JoinCondition.END,
}


def _gate(group: NodeGroup, ids: Ids) -> NewGate:
    edges = tuple([NewEdge(ids[node], wants) for node, wants in group.edges])
    return NewGate(group.need, edges, group.losers)
