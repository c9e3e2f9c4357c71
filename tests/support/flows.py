"""Flows for tests, written as they are drawn: `{"a": [], "b": ["a"], "c": any_of("a", "b")}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.flow.graph import encode_graph
from holdfast.flow.ids import new_flow_id, new_node_id
from holdfast.flow.model import (
    ANY_END,
    FAILURE,
    SUCCESS,
    CloseWhat,
    FlowId,
    FlowInfo,
    FlowState,
    Losers,
    NewEdge,
    NewFlow,
    NewGate,
    NewNode,
    NodeInfo,
)
from holdfast.job.ends import End
from holdfast.job.ids import JobId
from holdfast.job.outcome import decide
from holdfast.job.state import JobState
from holdfast.job.ties import Tie
from tests.conformance.builders import RETURNED, Scene, new_job

KEEP: dict[FlowState, float | None] = {
    FlowState.SUCCEEDED: 100.0,
    FlowState.FAILED: 200.0,
    FlowState.CANCELLED: None,
}


@dataclass(frozen=True)
class Wanted:
    """A gate by the names of its upstreams."""

    need: int
    names: tuple[str, ...]
    wants: int = SUCCESS
    losers: Losers = Losers.LET_RUN


def quorum(need: int, *names: str, wants: int = SUCCESS, cancel: bool = False) -> Wanted:
    return Wanted(need, names, wants, Losers.CANCEL if cancel else Losers.LET_RUN)


def every(*names: str) -> Wanted:
    return Wanted(len(names), names)


def any_of(*names: str, cancel: bool = False) -> Wanted:
    return quorum(1, *names, cancel=cancel)


def failed(*names: str) -> Wanted:
    return Wanted(1, names, FAILURE)


def ended(*names: str) -> Wanted:
    return Wanted(len(names), names, ANY_END)


Waits = Wanted | Sequence["Wanted | str"]


def gates_of(waits: Waits, ids: Mapping[str, JobId]) -> tuple[NewGate, ...]:
    """Plain names stand for one gate that needs all of them."""
    some = [waits] if isinstance(waits, Wanted) else list(waits)
    plain = [one for one in some if isinstance(one, str)]
    wanted = [one for one in some if isinstance(one, Wanted)]
    if plain:
        wanted.insert(0, every(*plain))
    return tuple(
        NewGate(one.need, tuple(NewEdge(ids[name], one.wants) for name in one.names), one.losers)
        for one in wanted
    )


def new_flow(
    graph: Mapping[str, Waits],
    *,
    name: str = "trip",
    node_options: Mapping[str, Mapping[str, Any]] | None = None,
    delays: Mapping[str, float] | None = None,
    **options: Any,
) -> NewFlow:
    limited = any("buckets" in one for one in (node_options or {}).values())
    minted = new_flow_id(options.get("unique_key"), limited=limited)
    flow_id = options.pop("id", None) or minted
    ids = {node: new_node_id(flow_id) for node in graph}
    gates = {node: gates_of(waits, ids) for node, waits in graph.items()}
    needed = {edge.upstream for some in gates.values() for gate in some for edge in gate.edges}
    nodes = tuple(
        NewNode(
            node,
            new_job(
                id=ids[node],
                blocked=bool(gates[node]),
                **{"args": "{}", "ties": int(Tie.NODE), **(node_options or {}).get(node, {})},
            ),
            gates[node],
            inputs=None,
            delay=(delays or {}).get(node),
            is_sink=ids[node] not in needed,
        )
        for node in graph
    )
    options.setdefault("keep", KEEP)
    return NewFlow(id=flow_id, name=name, nodes=nodes, graph=encode_graph(nodes), **options)


@dataclass
class Trip:
    """A started flow, and its nodes by name."""

    scene: Scene
    flow: NewFlow
    ids: dict[str, JobId] = field(default_factory=dict)

    @classmethod
    async def begin(cls, scene: Scene, graph: Mapping[str, Waits], **options: Any) -> Trip:
        flow = new_flow(graph, **options)
        [started] = await scene.store.flows.start([flow])
        assert (started.id, started.how) == (flow.id, "created")
        return cls(scene, flow, {node.name: node.job.id for node in flow.nodes})

    @property
    def id(self) -> FlowId:
        return self.flow.id

    async def info(self) -> FlowInfo:
        [info] = await self.scene.store.flows.get([self.id])
        return info

    async def nodes(self) -> dict[str, NodeInfo]:
        found = await self.scene.store.flows.nodes(self.id, 100_000)
        return {node.name: node for node in found}

    async def states(self) -> dict[str, str]:
        return {name: node.state.value for name, node in (await self.nodes()).items()}

    async def end(self, *names: str, end: End = RETURNED) -> None:
        """Claim all that is ready, and end these nodes in one batch."""
        await self.claim()
        jobs = await self.scene.store.jobs.live([self.ids[name] for name in names])
        verdicts = await self.scene.store.jobs.finish([decide(job, end) for job in jobs])
        assert [verdict.accepted for verdict in verdicts] == [True] * len(names)

    async def claim(self) -> None:
        """Claim all that is ready. A store may give fewer jobs at once than were asked for."""
        while await self.scene.claim(limit=100_000):
            pass

    async def close(self, what: CloseWhat = CloseWhat.ALL) -> list[FlowId]:
        return await self.scene.store.flows.close([self.id], what)

    async def state(self, name: str) -> JobState:
        return (await self.nodes())[name].state
