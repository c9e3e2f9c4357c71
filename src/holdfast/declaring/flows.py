"""`app.flow(name)`: a graph of jobs, written down and then started whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from holdfast.client.flows import FlowHandle
from holdfast.client.joining import WITHIN
from holdfast.codec.calls import ENCODER
from holdfast.codec.signature import Signature
from holdfast.declaring.nodes import (
    MapNode,
    Node,
    NodeGroup,
    Output,
    outputs_in,
    without_outputs,
)
from holdfast.enqueue.maker import JobMaker
from holdfast.enqueue.options import JobOptions, Seconds
from holdfast.errors import BadArguments, BadFlow, BadOption
from holdfast.flow.graph import encode_graph, require_no_cycle
from holdfast.flow.growing import MAP, Join, MapPlan
from holdfast.flow.inputs import Input, encode_inputs
from holdfast.flow.model import (
    FlowId,
    FlowState,
    NewEdge,
    NewFlow,
    NewGate,
    NewNode,
    new_flow_id,
    new_node_id,
)
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy, Retention, encode_policy
from holdfast.job.record import NewJob
from holdfast.job.retry import Retry
from holdfast.job.text import describe
from holdfast.job.ties import Tie
from holdfast.store.contract.flows import Started
from holdfast.task import Task, TaskHost

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

UNMINTED = JobId("")
"""The id of a job in a flow that is not started."""

MAP_POLICY = encode_policy(Policy(retry=Retry(max_attempts=10, base=1, cap=60)))


class Ids(NamedTuple):
    """What a flow was started as."""

    flow: FlowId
    unique: str | None
    of: dict[Node[Any], JobId]


class Flow:
    """A builder. Nothing is written before `start()`, which writes all of it in one transaction.

    The whole flow may have a deadline, a priority and tags; nodes have those of their tasks unless
    the flow says otherwise. `retention` says how long the ended flow is kept, with all its jobs.
    """

    def __init__(
        self,
        app: TaskHost,
        name: str,
        *,
        tags: Sequence[str] = (),
        priority: int | None = None,
        deadline: datetime | Seconds | None = None,
        retention: Retention | None = None,
    ) -> None:
        checks.check_name("flow", name)
        self._app = app
        self.name = name
        self._ids: Ids | None = None
        self._tags = checks.texts("tags", tags, 128, "tag")
        self._priority = priority
        self._deadline = deadline
        self._retention = retention or Retention()
        self._nodes: list[Node[Any]] = []
        self._plans: dict[Node[Any], MapPlan] = {}
        self._returns: Node[Any] | None = None
        self._over: dict[Node[Any], Any] = {}

    def add(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Node[R]:
        """A node that runs this task. An argument may be the output of another node: the node then
        waits for that one, and gets its result."""
        arguments = _bound(task, args, kwargs)
        node: Node[R] = self._new(Node, task, self._job(task, _encoded(task, arguments)))
        node.take(outputs_in(arguments))
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
        over, arguments = _without_first(task, args, kwargs)
        if outputs_in(arguments):
            problem = "only the list of a map may be the output of another node"
            raise BadArguments(task.name, problem)
        job = self._job(task, _encoded(task, arguments, partly=True))
        node: MapNode[R] = self._new(MapNode, task, job)
        self._plans[node] = MapPlan(
            node.name, job.task, job.queue, job.policy, job.args, over, job.priority, job.tags
        )
        self._over[node] = items
        node.take(outputs_in({"items": items}))
        return node

    def returns(self, node: Node[Any]) -> None:
        """Let the result of this node be the result of the flow. Without this it is that of the
        only node that no other node waits for."""
        self._own(node)
        self._returns = node

    async def start(self, *, unique: str | None = None, connection: object = None) -> FlowHandle:
        """Write the whole flow. With a `unique` key a live flow that has it stands for this one.
        With a `connection` the flow is written in the caller's own open transaction."""
        flow = self._new_flow(unique)
        store = self._app.store
        if (joined := self._joins(connection)) is None:
            [started] = await store.flows.start([flow])
        else:
            [started] = await store.flows.start_within(joined, [flow])
        return self._handle(flow, started)

    def start_sync(self, *, unique: str | None = None, connection: object = None) -> FlowHandle:
        """`start` for programs without an event loop."""
        flow = self._new_flow(unique)
        if (joined := self._joins(connection)) is None:
            call = self._app.begin_call(lambda opened: opened.client.flows.write(flow))
            return self._handle(flow, call.wait())
        [started] = self._app.unopened_store.flows.start_within_sync(joined, [flow])
        return self._handle(flow, started)

    # ------------------------------------------------------------------------------------------

    def _joins(self, connection: object) -> object | None:
        if connection is not None:
            return connection
        joined = None if WITHIN.get() is None else self._app.ambient.joined()
        return None if joined is None else joined.connection

    def _handle(self, flow: NewFlow, started: Started) -> FlowHandle:
        if started.how == "taken":
            raise BadFlow(f"flow {flow.id} has been started with another name: build a new one")
        return FlowHandle(lambda: self._app.client, started.id, started.how == "created")

    def _new(self, kind: type[Any], task: Task[..., Any], job: NewJob) -> Any:
        name = task.name.rpartition(".")[2]
        names = {node.name for node in self._nodes}
        number = sum(one == name or one.startswith(f"{name}#") for one in names)
        delay = task.options.delay
        node = kind(
            f"{name}#{number + 1}" if number else name,
            job,
            None if delay is None else checks.wait("delay", delay),
        )
        self._nodes.append(node)
        return node

    def _job(self, task: Task[..., Any], args: str) -> NewJob:
        options = task.options
        for word, given in (("unique", options.unique), ("run_at", options.run_at)):
            if given is not None:
                raise BadOption(word, "left out for a node of a flow: a flow may have one", given)
        job = JobMaker(task.name, self._options(options)).make(args)
        return msgspec.structs.replace(job, id=UNMINTED, ties=int(Tie.NODE))

    def _options(self, options: JobOptions) -> JobOptions:
        changed: dict[str, Any] = {"connection": msgspec.UNSET, "id": None, "delay": None}
        if self._priority is not None:
            changed["priority"] = self._priority
        if self._deadline is not None and options.deadline is None and options.start_by is None:
            changed["deadline"] = self._deadline
        return options.using(changed)

    def _own(self, node: Node[Any]) -> None:
        if node not in self._nodes:
            raise BadFlow(f"{node!r} is no node of the flow {self.name!r}")

    def _new_flow(self, unique: str | None) -> NewFlow:
        """The whole graph, checked."""
        if not self._nodes:
            raise BadFlow(f"the flow {self.name!r} has no nodes: add some with flow.add(task, …)")
        self._check_names()
        ids = self._ids = self._minted(unique)
        needed = {one for node in self._nodes for one in _upstreams(node)}
        nodes = tuple(self._new_node(node, ids.of, node not in needed) for node in self._nodes)
        returns = self._returns or self._last(needed)
        return NewFlow(
            id=ids.flow,
            name=self.name,
            nodes=nodes,
            graph=encode_graph(nodes, returns=None if returns is None else returns.name),
            unique_key=None if unique is None else checks.text("unique", unique, 512),
            tags=self._tags,
            keep={
                FlowState.SUCCEEDED: self._retention.succeeded,
                FlowState.FAILED: self._retention.failed,
                FlowState.CANCELLED: self._retention.other,
            },
        )

    def _minted(self, unique: str | None) -> Ids:
        """The ids of the flow and its nodes. They stay the same when it is started again, so a
        start whose answer was lost can be repeated."""
        known = self._ids
        if known is None:
            flow = new_flow_id(unique)
            return Ids(flow, unique, {node: new_node_id(flow) for node in self._nodes})
        if known.unique != unique or len(known.of) != len(self._nodes):
            raise BadFlow(f"the flow {self.name!r} has been started: build another one")
        return known

    def _check_names(self) -> None:
        names: set[str] = set()
        for node in self._nodes:
            if node.name in names:
                raise BadFlow(f"two nodes are named {node.name!r}: give one another by .named(…)")
            names.add(node.name)
            for one in _upstreams(node):
                self._own(one)
        require_no_cycle(
            {node.name: [one.name for one in _upstreams(node)] for node in self._nodes}
        )

    def _last(self, needed: set[Node[Any]]) -> Node[Any] | None:
        sinks = [node for node in self._nodes if node not in needed]
        return sinks[0] if len(sinks) == 1 else None

    def _new_node(self, node: Node[Any], ids: Mapping[Node[Any], JobId], is_sink: bool) -> NewNode:
        gates = _gates(node, ids)
        job = self._map_job(node, ids) if node in self._plans else node.job
        delay = None if gates else node.delay
        job = msgspec.structs.replace(job, id=ids[node], blocked=bool(gates), delay=delay)
        inputs = [Input(path, output.source(ids)) for path, output in node.inputs]
        return NewNode(node.name, job, gates, encode_inputs(inputs), node.delay, is_sink)

    def _map_job(self, node: Node[Any], ids: Mapping[Node[Any], JobId]) -> NewJob:
        waiting = [one for one in self._nodes if node in one.needs]
        joins = tuple(Join(ids[one], _share(one, node)) for one in waiting)
        plan = msgspec.structs.replace(self._plans[node], name=node.name, joins=joins)
        text = _with_items(plan, self._over[node])
        return msgspec.structs.replace(node.job, task=MAP, args=text, policy=MAP_POLICY)


def _with_items(plan: MapPlan, items: Any) -> str:
    given = None if isinstance(items, Output) else list(items)
    try:
        text = ENCODER.encode({"plan": plan, "items": given}).decode()
    except Exception as error:
        # Any exception: serializers are the user's code.
        raise BadArguments(plan.task, f"an element of the map: {describe(error)}") from error
    return text


def _share(node: Node[Any], of: Node[Any]) -> float:
    return min((share.fraction for share in node.shares if share.of is of), default=1.0)


def _upstreams(node: Node[Any]) -> list[Node[Any]]:
    grouped = (one for group in node.groups for one in group.nodes)
    return list(dict.fromkeys([*node.needs, *grouped]))


def _gates(node: Node[Any], ids: Mapping[Node[Any], JobId]) -> tuple[NewGate, ...]:
    groups = [_gate(group, ids) for group in node.groups]
    if node.needs:
        groups.insert(0, _gate(NodeGroup(len(node.needs), list(node.needs)), ids))
    return tuple(groups)


def _gate(group: NodeGroup, ids: Mapping[Node[Any], JobId]) -> NewGate:
    edges = tuple(NewEdge(ids[node], group.wants) for node in group.nodes)
    return NewGate(group.need, edges, group.losers)


def _bound(task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(task.codec.some(args, kwargs))


def _encoded(task: Task[..., Any], arguments: dict[str, Any], *, partly: bool = False) -> str:
    """The arguments of a node as JSON. Where results are missing, the rest is checked alone."""
    missing = {str(path[0]) for path, _ in outputs_in(arguments)}
    if not missing and not partly:
        return task.codec.encode((), arguments)
    known = {name: value for name, value in arguments.items() if name not in missing}
    holed = {name: without_outputs(arguments[name]) for name in missing}
    return task.codec.encode_some(known, holed)


def _without_first(
    task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The name of the first parameter, and the arguments of the others."""
    codec = task.codec
    if not isinstance(codec, Signature) or not codec.parameters.parameters:
        raise BadFlow(f"flow.map needs a task of this program with a parameter: {task!r}")
    first = next(iter(codec.parameters.parameters))
    if first in kwargs:
        raise BadArguments(task.name, f"{first!r} is the element of the map: leave it out")
    arguments = codec.some((None, *args), kwargs)
    del arguments[first]
    return first, dict(arguments)
