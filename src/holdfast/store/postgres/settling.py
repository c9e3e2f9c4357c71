"""What the end of a node does to its flow, in the transaction that ends it.

The server does it in a function of the schema (`settle` in migrations/0012_flows.sql): a cascade of
skips has many rounds, and none of them waits for this program. Before it, in a statement of its
own, the flows are locked. Without the lock two transactions that end two upstreams of one gate
would each count the gate without the other's end, and nobody would open it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.flow.model import CASCADE_LIMIT, FlowId
from holdfast.job.ids import JobId
from holdfast.job.state import JobState
from holdfast.store.postgres.batch import RunsScripts
from holdfast.store.postgres.connection import Connections, Session

FLOW_TRY_SECONDS = 0.25
"""How long an end waits for its flow. Workers lock a flow for milliseconds, but a caller's own
transaction may lock it for long. Then the ends of this flow's nodes are refused, and all others are
not held up."""


class Settling(msgspec.Struct, frozen=True):
    """What is to be settled. `are_new`: the ended nodes counted as live until now; if not, only
    their edges to gates of `gated` nodes from number `first` on are counted, and all edges of ends
    that nobody has counted. `idle`: those of them that were blocked. `judge`: flows that may have
    ended. `gated`: nodes of them whose gates are judged; None: all. `ungated`: blocked nodes that
    wait for nothing."""

    ended: Mapping[JobId, JobState]
    are_new: bool = False
    first: int = 0
    idle: Sequence[JobId] = ()
    judge: Sequence[FlowId] = ()
    gated: Sequence[JobId] | None = ()
    ungated: Sequence[JobId] = ()


async def lock(session: Session, flows: Sequence[FlowId]) -> None:
    """Lock flows in order of id. Every verb that changes flows begins with it."""
    await session.fetch("flows/lock", list(flows))


async def orphan(on: RunsScripts, now: object, channel: str, parents: Sequence[JobId]) -> None:
    """These jobs have ended: owe the cancel of flows that they started and that are live. It is a
    statement of its own, so it sees a flow that was started while the end waited for the job."""
    if parents:
        await on.fetch("flows/orphan", now, channel, list(parents))


async def settle(session: Session, connections: Connections, what: Settling) -> None:
    """Decide all edges of these nodes, with all that follows. Their flows are locked."""
    await session.timed(
        "flows/settle",
        connections.options.channel,
        list(what.ended),
        list(what.ended.values()),
        what.are_new,
        list(what.idle),
        list(what.judge),
        None if what.gated is None else list(what.gated),
        32 * what.first,
        list(what.ungated),
        CASCADE_LIMIT,
    )
