"""What handlers ask about flows, answered for `worker/answering.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from weakref import WeakValueDictionary

import msgspec

from holdfast.errors import BadFlow
from holdfast.flow.defaults import NO_DEFAULTS
from holdfast.flow.graph import Graph
from holdfast.flow.growing import MAP, may_close_a_cycle, require_no_cycle_with
from holdfast.flow.ids import child_flow_id
from holdfast.flow.kept import without_known
from holdfast.flow.model import FLOW_ENDED, FlowId, Grown, Growth, NewFlow, NodeInput
from holdfast.flow.parents import end_of
from holdfast.job.ids import JobId
from holdfast.job.requests import (
    Answer,
    AttemptGone,
    ChildFound,
    ExtendFlow,
    FindChild,
    FindNodes,
    FlowGrown,
    NodesFound,
    StartChild,
)
from holdfast.job.ties import Tie
from holdfast.job.what import What
from holdfast.store.contract.store import Store
from holdfast.worker.attempt import Attempt

FlowRequest = FindNodes | ExtendFlow | FindChild | StartChild
_flow = msgspec.json.Decoder(NewFlow)
_growth = msgspec.json.Decoder(Growth)
NO_GRAPH = Graph(())


class FlowAnswers:
    """Every answer may be asked for again: what was written the first time is not written twice."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looking: WeakValueDictionary[FlowId, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, attempt: Attempt, request: FlowRequest) -> Answer:
        match request:
            case FindNodes(names):
                return await self._found(attempt, names)
            case ExtendFlow(growth):
                return await self._grown(attempt, _growth.decode(growth))
            case FindChild():
                return await self._child_of(attempt)
            case StartChild(flow):
                return await self._start_child(attempt, _flow.decode(flow))

    async def _found(self, attempt: Attempt, names: tuple[str, ...]) -> NodesFound:
        told = await self._of(attempt.job.id)
        graph = Graph(await self._store.flows.graph(told.flow))
        ids = {name: str(graph.nodes[name].job) for name in names if name in graph.nodes}
        anew = graph.times_removed(attempt.job.id)
        maps = {name: _waiting(graph, name, ids) for name in ids if graph.nodes[name].task == MAP}
        defaults = await self._defaults(attempt, told.flow, graph)
        return NodesFound(told.flow, told.flow_name, ids, anew, maps, defaults)

    async def _defaults(self, attempt: Attempt, flow: FlowId, graph: Graph) -> str | None:
        """What the flow says of the nodes that the attempt adds. Seconds from its start become an
        instant. A retry takes the deadlines of nodes away, and that of what they add."""
        if graph.defaults == NO_DEFAULTS:
            return None
        found = graph.defaults
        if found.has_deadline and await self._comes_from_a_retry(attempt, graph):
            found = found.without_deadline()
        if found.deadline_in is not None:
            for info in await self._store.flows.get([flow]):
                found = found.since(info.created_at)
        return msgspec.json.encode(found).decode()

    async def _comes_from_a_retry(self, attempt: Attempt, graph: Graph) -> bool:
        """Whether the node, or one that led to its being added, was retried. A node that has a
        deadline was not."""
        if attempt.job.deadline_at is not None:
            return False
        told = await self._store.jobs.life(graph.added_through(attempt.job.id))
        return any(one.what is What.REQUEUED for one in told)

    async def _grown(self, attempt: Attempt, given: Growth) -> FlowGrown:
        growth = msgspec.structs.replace(given, by=attempt.job.id, fence=attempt.job.fence)
        require_no_cycle_with(NO_GRAPH, growth)
        grown = Grown.CHANGED
        if not may_close_a_cycle(growth):
            [grown] = await self._store.flows.extend([growth])
        if grown is Grown.CHANGED:
            grown = await self._grown_checked(growth)
        return FlowGrown(grown.value)

    async def _grown_checked(self, growth: Growth) -> Grown:
        """Look for cycles in the graph as it is, and add the growth if nobody has changed the graph
        meanwhile. Attempts of this worker do so one after the other: each would only undo the look
        of the others."""
        async with self._looking.setdefault(growth.flow, asyncio.Lock()):
            grown = Grown.CHANGED
            while grown is Grown.CHANGED:
                # The epoch is read first: a change between the two makes it the older one.
                epochs = [flow.epoch for flow in await self._store.flows.get([growth.flow])]
                graph = Graph(await self._store.flows.graph(growth.flow))
                known = {name: node.job for name, node in graph.nodes.items()}
                require_no_cycle_with(graph, without_known(growth, _among(growth, known)))
                seen = msgspec.structs.replace(growth, epoch=epochs[0] if epochs else None)
                [grown] = await self._store.flows.extend([seen])
            return grown

    async def _child_of(self, attempt: Attempt) -> ChildFound:
        for flow in await self._store.flows.get([child_flow_id(attempt.job.id)]):
            ended = flow.state in FLOW_ENDED
            return ChildFound(flow.id, await end_of(self._store, flow) if ended else None)
        return ChildFound(None)

    async def _start_child(self, attempt: Attempt, given: NewFlow) -> Answer:
        """From here on the end of the job cancels the flow, so the attempt has the tie too."""
        job = attempt.job
        flow = msgspec.structs.replace(
            given, id=child_flow_id(job.id), parent=job.id, fence=job.fence
        )
        [started] = await self._store.flows.start([flow])
        match started.how:
            case "created":
                attempt.job = msgspec.structs.replace(job, ties=job.ties | Tie.PARENT)
                return ChildFound(flow.id)
            case "not held":
                return AttemptGone()
            case "taken" | "existing":
                raise BadFlow(f"job {job.id} has started another flow before: {started.id}")

    async def _of(self, job: JobId) -> NodeInput:
        told = (await self._store.flows.inputs([job])).get(job)
        if told is None:
            raise BadFlow(f"job {job} belongs to no flow any more")
        return told


def _waiting(graph: Graph, name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of these nodes that wait for the node of this name."""
    job = graph.nodes[name].job
    return tuple(other for other in names if job in graph.upstreams(graph.nodes[other].job))


def _among(growth: Growth, known: Mapping[str, JobId]) -> dict[str, JobId]:
    """The nodes of a growth that the flow has."""
    return {node.name: known[node.name] for node in growth.nodes if node.name in known}
