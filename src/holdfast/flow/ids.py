"""The ids of flows and of their nodes.

Ids of what belongs together end in the same three digits, and so lie in the same partition. The id
of a flow that follows from a job or from another flow is made from that one's, with the digit of
another version: whoever makes it again makes the same.
"""

from __future__ import annotations

from typing import cast

import uuid_utils

from holdfast.flow.model import FlowId
from holdfast.job.ids import JobId, placed_id


def new_flow_id(beside: str | None = None, *, limited: bool = False) -> FlowId:
    """A UUIDv7, minted by the client. Its last three digits say in which partition the flow lies:
    flows minted `beside` the same unique key lie in the same one, and flows of which a node passes
    limits (`limited`) where all buckets are."""
    return FlowId(placed_id(str(uuid_utils.uuid7()), beside, limited))


def new_node_id(flow: FlowId) -> JobId:
    """The id of a job that lies in the partition of its flow."""
    [job] = new_node_ids(flow, 1)
    return job


def new_node_ids(flow: FlowId, count: int) -> list[JobId]:
    partition, uuid7 = flow[-3:], uuid_utils.uuid7
    return cast("list[JobId]", [str(uuid7())[:-3] + partition for _ in range(count)])


def child_flow_id(parent: JobId) -> FlowId:
    """The id of the flow that a job starts as its child: that of the job, with the digit of another
    version. So every attempt of the job means the same flow, which lies in the job's partition.
    `lua/parts/children.lua` knows it by that digit."""
    return FlowId(f"{parent[:14]}8{parent[15:]}")


def undo_flow_id(job: JobId) -> FlowId:
    """The id of the flow that undoes the steps of a job, made as that of a child. The scripts of
    all stores make the same id."""
    return FlowId(f"{job[:14]}9{job[15:]}")


def flow_undo_id(flow: FlowId) -> FlowId:
    """The same for the nodes of a flow."""
    return FlowId(f"{flow[:14]}a{flow[15:]}")


def watcher_id(flow: FlowId) -> JobId:
    """What stands as the parent of a flow that has none and whose nodes may have to be undone: then
    its end writes the errand of a parent. `lua/flows/start.lua` makes the same id."""
    return JobId(f"{flow[:14]}b{flow[15:]}")
