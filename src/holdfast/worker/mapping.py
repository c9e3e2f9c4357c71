"""Two tasks that every worker has without declaring them. One makes the elements of a map. The
other is a node that stands for all elements, where a condition of another node needs the whole map.
"""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from holdfast.context import AttemptLost, Context
from holdfast.errors import BadFlow
from holdfast.flow.depth import depth_of, with_depth
from holdfast.flow.graph import Graph
from holdfast.flow.growing import COLLECT, MAP, MOST_ELEMENTS, MapPlan, growths
from holdfast.flow.inputs import MapResult, map_result
from holdfast.flow.model import FlowId, Grown, Growth
from holdfast.handlers.registry import Handler
from holdfast.job.ends import Fail
from holdfast.store.contract.store import Store

_encoder = msgspec.json.Encoder()


def map_handler(store: Store) -> Handler:
    async def make_elements(ctx: Context, plan: dict[str, Any], items: Any) -> MapResult:
        """Add a node for each element to the flow of this job; returns how many there are. A value
        that is not a list fails the job at once: no other worker could read it as a list."""
        if not isinstance(items, list):
            raise Fail(f"a map takes a list, got {type(items).__name__}")
        if len(items) > MOST_ELEMENTS:
            raise Fail(f"a map takes at most {MOST_ELEMENTS} elements, got {len(items)}")
        read = msgspec.convert(plan, MapPlan)
        deep = with_depth(read.headers, depth_of(ctx.job.headers))
        read = msgspec.structs.replace(read, headers=deep)
        if read.inherits_deadline:
            read = msgspec.structs.replace(read, deadline_at=ctx.job.deadline_at)
        told = (await store.flows.inputs([ctx.job.id])).get(ctx.job.id)
        if told is None:
            raise Fail(str(BadFlow(f"job {ctx.job.id} belongs to no flow")))
        texts = [_encoder.encode(item).decode() for item in items]
        anew = await _times_removed(store, told.flow, ctx)
        for growth in growths(read, texts, told.flow, ctx.job.id, ctx.fence, anew):
            _require(await _extended(store, growth), ctx)
        return map_result(len(items), anew)

    return Handler.of(MAP, make_elements)


async def _times_removed(store: Store, flow: FlowId, ctx: Context) -> int:
    """How often a retry of the flow has removed the elements of this map. The first claim of a job
    has made none, so the graph is not read then. Fences begin at 1 on the SQL stores only: a map on
    Valkey always reads the graph."""
    if ctx.fence == 1:
        return 0
    return Graph(await store.flows.graph(flow)).times_removed(ctx.job.id)


def collect_handler() -> Handler:
    async def collect() -> None:
        """Do nothing. The job's gates wait for the elements of a map. The job succeeds if the gates
        are met, and is skipped if they cannot be."""

    return Handler.of(COLLECT, collect)


async def _extended(store: Store, growth: Growth) -> Grown:
    """What the store refuses once, it refuses always."""
    try:
        [grown] = await store.flows.extend([growth])
    except BadFlow as error:
        raise Fail(str(error)) from error
    return grown


def _require(grown: Grown, ctx: Context) -> None:
    match grown:
        case Grown.GROWN:
            return
        case Grown.NOT_HELD:
            raise AttemptLost(ctx.job.id, ctx.fence)
        case Grown.OVER:
            raise Fail("its flow is over, or being cancelled")
        case Grown.CHANGED | Grown.TARGET_GONE:
            raise Fail("other nodes of the flow have the names of elements")
    assert_never(grown)
