"""What handlers ask about flows, answered for `worker/answering.py`."""

from __future__ import annotations

import msgspec

from holdfast.errors import BadFlow
from holdfast.flow.graph import Graph
from holdfast.flow.growing import require_no_cycle_with
from holdfast.flow.model import Growth, NodeInput
from holdfast.job.ids import JobId
from holdfast.job.requests import Answer, ExtendFlow, FindNodes, FlowGrown, NodesFound
from holdfast.store.contract.store import Store
from holdfast.worker.attempt import Attempt

FlowRequest = FindNodes | ExtendFlow
_growth = msgspec.json.Decoder(Growth)


class FlowAnswers:
    """Every answer may be asked for again: what was written the first time is not written twice."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def answer(self, attempt: Attempt, request: FlowRequest) -> Answer:
        match request:
            case FindNodes(names):
                return await self._found(attempt, names)
            case ExtendFlow(growth):
                return await self._grown(attempt, _growth.decode(growth))

    async def _found(self, attempt: Attempt, names: tuple[str, ...]) -> NodesFound:
        told = await self._of(attempt.job.id)
        nodes = Graph(await self._store.flows.graph(told.flow)).nodes
        ids = {name: str(nodes[name].job) for name in names if name in nodes}
        return NodesFound(told.flow, told.flow_name, ids)

    async def _grown(self, attempt: Attempt, given: Growth) -> FlowGrown:
        """Only nodes that are there already can be closed into a circle by a growth."""
        growth = msgspec.structs.replace(given, by=attempt.job.id, fence=attempt.job.fence)
        if growth.gates:
            graph = Graph(await self._store.flows.graph(growth.flow))
            require_no_cycle_with(graph, growth)
        [grown] = await self._store.flows.extend([growth])
        return FlowGrown(grown.value)

    async def _of(self, job: JobId) -> NodeInput:
        told = (await self._store.flows.inputs([job])).get(job)
        if told is None:
            raise BadFlow(f"job {job} belongs to no flow any more")
        return told
