"""`app.flow(name)`: a graph of jobs, written down and then started whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple, TypedDict, Unpack

from holdfast.client.flow_handle import FlowHandle
from holdfast.client.joining import WITHIN
from holdfast.declaring.building import FlowBuilder, upstreams
from holdfast.declaring.nodes import Node
from holdfast.enqueue.options import JobOptions, Seconds
from holdfast.errors import BadFlow
from holdfast.flow.defaults import NO_DEFAULTS, NodeDefaults
from holdfast.flow.graph import encode_graph, is_in_order, require_no_cycle
from holdfast.flow.ids import new_flow_id, new_node_ids, watcher_id
from holdfast.flow.model import UNHELD, FlowId, FlowState, NewFlow
from holdfast.job import checks
from holdfast.job.ids import JobId
from holdfast.job.policy import Retention
from holdfast.store.contract.flows import Started
from holdfast.task import TaskHost


class Ids(NamedTuple):
    """What a flow was started as."""

    flow: FlowId
    unique: str | None
    of: dict[Node[Any], JobId]


class FlowOptions(TypedDict, total=False):
    """What `app.flow(name, …)` takes beside the name."""

    tags: Sequence[str]
    priority: int | None
    deadline: datetime | Seconds | None
    retention: Retention | None


class FlowGraph(FlowBuilder):
    """A whole flow as it is written down.

    The whole flow may have a deadline, a priority and tags, which all its nodes inherit, also those
    that are added while it runs. A node keeps the deadline of its task, and whatever `using` names
    for it. `retention` says how long the ended flow is kept, with all its jobs.
    """

    def __init__(
        self,
        name: str,
        *,
        tags: Sequence[str] = (),
        priority: int | None = None,
        deadline: datetime | Seconds | None = None,
        retention: Retention | None = None,
    ) -> None:
        super().__init__()
        checks.check_name("flow", name)
        self.name = name
        self._ids: Ids | None = None
        self._tags = checks.texts("tags", tags, 128, "tag")
        self._defaults = _defaults(self._tags, priority, deadline)
        if retention is not None:
            checks.kind("retention", retention, Retention, "a Retention(succeeded=…, failed=…)")
        self._retention = retention or Retention()
        self._returns: Node[Any] | None = None

    def returns(self, node: Node[Any]) -> None:
        """Let the result of this node be the result of the flow. Without this it is that of the
        only node that no other node waits for."""
        self._own(node)
        self._returns = node

    def as_child(self, flow: FlowId) -> NewFlow:
        """The whole graph under this id, for a job that starts it as its child."""
        if self._ids is not None:
            raise BadFlow(f"the flow {self.name!r} has been started: build another one")
        self._add_collectors()
        self._ids = self._new_ids(flow, None)
        return self._new_flow(None)

    # ------------------------------------------------------------------------------------------

    def _own(self, node: Node[Any]) -> None:
        if node not in self._nodes:
            raise BadFlow(f"{node!r} is no node of the flow {self.name!r}")

    def _new_flow(self, unique: str | None) -> NewFlow:
        """The whole graph, checked."""
        if not self._nodes:
            raise BadFlow(f"the flow {self.name!r} has no nodes: add some with flow.add(task, …)")
        key = None if unique is None else checks.text("unique", unique, 512)
        self._add_collectors()
        waits_for = self._checked_edges()
        ids = self._ids = self._minted(key)
        needed = set(chain.from_iterable(waits_for.values()))
        nodes = tuple(
            self._new_node(node, ids.of, is_sink=node not in needed) for node in self._nodes
        )
        returns = self._returns or self._last(needed)
        return NewFlow(
            id=ids.flow,
            name=self.name,
            nodes=nodes,
            graph=encode_graph(
                nodes, returns=None if returns is None else returns.name, defaults=self._defaults
            ),
            unique_key=key,
            tags=self._tags,
            parent=watcher_id(ids.flow) if any(node.undo for node in nodes) else None,
            fence=UNHELD,
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
            flow = new_flow_id(unique, limited=any(node.job.buckets for node in self._nodes))
            return self._new_ids(flow, unique)
        if known.unique != unique or len(known.of) != len(self._nodes):
            raise BadFlow(f"the flow {self.name!r} has been started: build another one")
        return known

    def _new_ids(self, flow: FlowId, unique: str | None) -> Ids:
        ids = new_node_ids(flow, len(self._nodes))
        return Ids(flow, unique, dict(zip(self._nodes, ids, strict=True)))

    def _checked_edges(self) -> dict[Node[Any], list[Node[Any]]]:
        """What each node waits for."""
        self._require_own_names()
        for name, nodes in self._apply_befores().items():
            raise BadFlow(f"{nodes[0]!r} is before {name!r}: the flow has no node of that name")
        waits_for = {node: upstreams(node) for node in self._nodes}
        if not is_in_order(waits_for):
            for some in waits_for.values():
                for one in some:
                    self._own(one)
            require_no_cycle(
                {node.name: [one.name for one in some] for node, some in waits_for.items()}
            )
        return waits_for

    def _last(self, needed: set[Node[Any]]) -> Node[Any] | None:
        sinks = [node for node in self._nodes if node not in needed]
        return sinks[0] if len(sinks) == 1 else None


def _defaults(
    tags: tuple[str, ...], priority: int | None, deadline: datetime | Seconds | None
) -> NodeDefaults:
    """What the flow says of all its nodes, checked as the options of a task are."""
    given: dict[str, Any] = {"deadline": deadline}
    if priority is not None:
        given["priority"] = priority
    at, seconds = JobOptions().using(given).split_deadline()
    found = NodeDefaults(priority, tags, at, seconds)
    return NO_DEFAULTS if found == NO_DEFAULTS else found


class Flow(FlowGraph):
    """A builder. Nothing is written before `start()`, which writes all of it in one transaction."""

    def __init__(self, app: TaskHost, name: str, **options: Unpack[FlowOptions]) -> None:
        super().__init__(name, **options)
        self._app = app

    async def start(self, *, unique: str | None = None, connection: object = None) -> FlowHandle:
        """Write the whole flow. With a `unique` key a live flow that has it stands for this one.
        With a `connection` the flow is written in the caller's own open transaction."""
        flow = self._new_flow(unique)
        if (joined := self._joins(connection)) is None:
            return self._handle(flow, await self._app.client.flows.write(flow))
        [started] = await self._app.store.flows.start_within(joined, [flow])
        return self._handle(flow, started)

    def start_sync(self, *, unique: str | None = None, connection: object = None) -> FlowHandle:
        """`start` for programs without an event loop."""
        flow = self._new_flow(unique)
        if (joined := self._joins(connection)) is None:
            call = self._app.begin_call(lambda opened: opened.client.flows.write(flow))
            return self._handle(flow, call.wait())
        [started] = self._app.unopened_store.flows.start_within_sync(joined, [flow])
        return self._handle(flow, started)

    def _joins(self, connection: object) -> object | None:
        if connection is not None:
            return connection
        joined = None if WITHIN.get() is None else self._app.ambient.joined()
        return None if joined is None else joined.connection

    def _handle(self, flow: NewFlow, started: Started) -> FlowHandle:
        if started.how == "taken":
            raise BadFlow(f"flow {flow.id} has been started with another name: build a new one")
        return FlowHandle(lambda: self._app.client, started.id, started.how == "created")
