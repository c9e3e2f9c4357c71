"""`ctx.flow`: what a running node adds to its own flow.

The handler writes nodes down with the words of `app.flow`. `extend()` then asks the worker, in the
conversation that every handler has with it, which of the names the flow has already, and sends what
is new. So a handler on the loop, in a thread and in a child process grow a flow alike.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.context import AttemptLost, Context
from holdfast.declaring.building import FlowBuilder, upstreams
from holdfast.declaring.nodes import KnownNode, Node
from holdfast.errors import BadFlow
from holdfast.flow.defaults import NodeDefaults
from holdfast.flow.depth import depth_of, nodes_at_depth
from holdfast.flow.graph import encode_graph
from holdfast.flow.inputs import added_id
from holdfast.flow.model import FlowId, Grown, Growth, NewEdge, NewGate, NewNode
from holdfast.job.ids import JobId
from holdfast.job.record import NewJob
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    ExtendFlow,
    FindNodes,
    FlowGrown,
    NodesFound,
    Request,
    RequestRefused,
)

A = TypeVar("A", NodesFound, FlowGrown)
Asking = Generator[Request, Answer, None]

NO_JOB = NewJob(JobId(""), "", "", "", "")
_LATER_WAITER = (
    "the flow has the map {0!r} already, and {1!r} did not wait for it when it was added: let the "
    "same nodes wait for a map in each attempt, or give the map another name"
)
_encoder = msgspec.json.Encoder()
_defaults = msgspec.json.Decoder(NodeDefaults)


class GrowingFlow(FlowBuilder):
    """Nodes that a running node adds to its flow. Nothing is written before `extend()`. A name that
    the flow has already is kept as it is, so a second attempt adds nothing twice."""

    def __init__(self, ctx: Context) -> None:
        super().__init__()
        self._ctx = ctx
        self._known: dict[str, KnownNode] = {}

    def node(self, name: str) -> KnownNode:
        """A node that the flow has already: pass its `output` on, wait `after` it, or be `before`
        it."""
        return self._known.setdefault(name, KnownNode(name, NO_JOB))

    async def extend(self) -> None:
        """Add what was written down since the last call, all of it or nothing. Raises `AttemptLost`
        if the attempt is no longer this worker's own, and `BadFlow` if the flow is over, or a node
        that should wait for a new one does not wait any more."""
        await self._ctx.converse(self._asking())

    def extend_sync(self) -> None:
        """`extend` for plain functions, in a thread or a process."""
        self._ctx.converse_sync(self._asking())

    # ------------------------------------------------------------------------------------------

    def _asking(self) -> Asking:
        if not self._nodes:
            return
        self._add_collectors()
        self._require_own_names()
        others = self._apply_befores()
        wanted = {node.name for node in self._nodes} | others.keys() | self._referred()
        found = self._granted((yield FindNodes(tuple(sorted(wanted)))), NodesFound)
        self._require_known(found, others)
        growth = self._growth(found, others)
        if growth.nodes:
            request = ExtendFlow(_encoder.encode(growth).decode())
            self._require_grown(self._granted((yield request), FlowGrown), others)
        self._nodes.clear()
        self._numbered.clear()

    def _referred(self) -> set[str]:
        """The names of nodes that the new ones wait for, and that the flow has to have."""
        named = (one for node in self._nodes for one in upstreams(node))
        return {one.name for one in named if one not in self._nodes}

    def _require_known(self, found: NodesFound, others: Mapping[str, list[Node[Any]]]) -> None:
        for node in self._nodes:
            for one in upstreams(node):
                if one not in self._nodes and not isinstance(one, KnownNode):
                    raise BadFlow(f"{one!r} is no node of this flow: name it by ctx.flow.node(…)")
        for name in sorted(self._referred() | others.keys()):
            if name not in found.nodes:
                raise BadFlow(f"the flow {found.flow_name!r} has no node {name!r}")
        for name in sorted(self._referred() & {*found.maps}):
            raise BadFlow(
                f"{name!r} is a map, and its elements do not know of new nodes that wait for them: "
                "let a node wait for the map where the map is written down, and wait for that one"
            )
        self._require_no_later_waiters(found, others)

    def _require_no_later_waiters(
        self, found: NodesFound, others: Mapping[str, list[Node[Any]]]
    ) -> None:
        """A map that an earlier attempt has added knows of the nodes that waited for it then, and
        of no others."""
        for node in self._nodes:
            later = () if node.name in found.nodes else upstreams(node)
            waits_for = {one.name for one in later if one in self._nodes and one.name in found.maps}
            for name in sorted(waits_for):
                raise BadFlow(_LATER_WAITER.format(name, node.name))
        for name, nodes in sorted(others.items()):
            for one in nodes:
                if name not in found.maps.get(one.name, (name,)):
                    raise BadFlow(_LATER_WAITER.format(one.name, name))

    def _growth(self, found: NodesFound, others: Mapping[str, list[Node[Any]]]) -> Growth:
        """What is new to the flow. What a kept node comes before waits for it already."""
        by = self._ctx.job
        ids: dict[Node[Any], JobId] = {
            node: JobId(found.nodes.get(node.name) or added_id(by.id, node.name, found.anew))
            for node in (*self._nodes, *self._known.values())
        }
        new = [node for node in self._nodes if node.name not in found.nodes]
        needed = {one for node in self._nodes for one in upstreams(node)}
        targets = {
            node: [JobId(found.nodes[name]) for name, some in others.items() if node in some]
            for node in new
        }
        if found.defaults is not None:
            self._defaults = _defaults.decode(found.defaults)
        nodes = tuple(
            self._new_node(node, ids, targets[node], is_sink=node not in needed | others_of(others))
            for node in new
        )
        gates: dict[JobId, tuple[NewGate, ...]] = {}
        for node in new:
            for target in targets[node]:
                gates[target] = (*gates.get(target, ()), NewGate(1, (NewEdge(ids[node]),)))
        nodes = nodes_at_depth(nodes, depth_of(by.headers))
        return self._made(FlowId(found.flow), nodes, gates)

    def _made(
        self, flow: FlowId, nodes: tuple[NewNode, ...], gates: dict[JobId, tuple[NewGate, ...]]
    ) -> Growth:
        by, fence = self._ctx.job.id, self._ctx.fence
        graph = encode_graph(nodes, gates, by=by)
        return Growth(flow=flow, by=by, fence=fence, nodes=nodes, gates=gates, graph=graph)

    def _granted(self, answer: Answer, kind: type[A]) -> A:
        match answer:
            case AttemptGone():
                raise AttemptLost(self._ctx.job.id, self._ctx.fence)
            case RequestRefused(message):
                raise BadFlow(message)
            case _ if isinstance(answer, kind):
                return answer
        raise TypeError(f"{answer!r} answers another request")

    def _require_grown(self, answer: FlowGrown, others: Mapping[str, list[Node[Any]]]) -> None:
        match Grown(answer.how):
            case Grown.GROWN:
                return
            case Grown.NOT_HELD:
                raise AttemptLost(self._ctx.job.id, self._ctx.fence)
            case Grown.OVER:
                raise BadFlow("nothing can be added: the flow is over, or is being cancelled")
            case Grown.CHANGED:
                raise BadFlow("nothing was added: the graph of the flow changed at the same time")
            case Grown.TARGET_GONE:
                names = ", ".join(map(repr, sorted(others)))
                raise BadFlow(
                    f"nothing was added: {names} does not wait any more, so nothing can come "
                    "before it; add nodes while it is blocked, or leave before(…) out"
                )


def others_of(others: Mapping[str, list[Node[Any]]]) -> set[Node[Any]]:
    return {node for some in others.values() for node in some}
