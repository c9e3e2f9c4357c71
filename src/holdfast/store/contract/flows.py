"""Flows: graphs of jobs that wait for jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from holdfast.flow.model import (
    CloseWhat,
    Errand,
    FlowId,
    FlowInfo,
    FlowState,
    Grown,
    Growth,
    Mending,
    NewFlow,
    NodeInfo,
    NodeInput,
    Reopening,
)
from holdfast.job.ids import JobId

StartWord = Literal["created", "existing", "taken", "not held"]


class Started(msgspec.Struct, frozen=True):
    """What became of a NewFlow. `existing`: a live flow has its unique key, and `id` is that
    flow's. `taken`: the id belongs to another flow, and nothing was written. `not held`: nothing
    was written, because its parent does not run with that fence."""

    id: FlowId
    how: StartWord


class FlowFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which flows are meant. Every field narrows; an empty field means any."""

    ids: tuple[FlowId, ...] = ()
    states: frozenset[FlowState] = frozenset()
    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None


class FlowPage(msgspec.Struct, frozen=True):
    """Some flows, newest first, and where the next page starts."""

    flows: tuple[FlowInfo, ...]
    next_cursor: str | None


class Flows(Protocol):
    """Flows, their gates and edges.

    The verb that ends a node also decides the edges that wait for it, in the same transaction or
    script: `Jobs.finish`, `Jobs.reclaim`, and whatever else ends a job. For each edge it counts
    the gate as won or lost and removes the edge. A node whose last gate is met becomes ready, or
    scheduled by its `delay`, counted as `released`. A node with an impossible gate ends as
    skipped, with a reason that names the upstream, and decides its own edges in turn. When no node
    of the flow is live the flow ends: cancelled if that was asked for, succeeded if `failed` is 0,
    failed if a node failed or expired, else cancelled. `failed` counts sinks that failed, expired,
    were cancelled, or were skipped because of such an end. (An edge that is lost to an upstream
    that failed, expired or was cancelled, or to one that was skipped for that reason, makes its
    gate's skip count as bad; a lost edge whose upstream succeeded or skipped itself does not.)
    The reason of a skip names an upstream whose edge was lost in the same step, of several one that
    ended badly if there is one, and of these the first by name.

    The order of ends must not decide how a flow ends. A node may have been skipped before another
    node that it waited for ends badly. So the end of the flow looks at all nodes that were skipped
    and did not count as bad: one that has a gate which was never met, and an edge of that gate
    which was lost to a bad end, counts as bad after all. That may make others bad in turn. The
    reason then names the first such upstream by name. The ends of nodes that were `let_go` are left
    out here.

    A flow with a `parent` is started by that job, which gets the tie `PARENT`. The end of the flow
    writes the errand `PARENT`, and a flow is not pruned before that is done. The end of the job,
    whatever it is, writes the errand `ORPHAN` for each of its flows that is live. A flow with a
    parent and an empty `keep` is kept as long as its parent: the removal of the parent, or its
    requeue, lets the flow be pruned as soon as it has ended.

    The end of a job with the tie `UNDO` as failed, cancelled or expired writes the errand `UNDO`.
    From then on a job that has a step with a result and `undo` is neither requeued nor reopened,
    and until the flow `undo_flow_id` is there it is neither pruned nor deleted. A later attempt may
    have recorded all such steps anew without `undo`: then there is nothing to undo, and the job is
    like any other.

    In a flow that is paused or cancelling nothing is released and nothing is skipped: gates go on
    to count. A node is kept as long as its flow: retention of jobs, `delete` and `requeue` leave
    it alone.
    """

    async def start(self, flows: Sequence[NewFlow]) -> list[Started]:
        """Insert whole graphs, each with its jobs, gates and edges in one transaction or script. A
        flow that is there already, by its id and name or by its unique key among live flows,
        changes nothing. Nodes without gates are ready at once, or scheduled. A flow with a parent
        is written only while the parent runs with its fence."""
        ...

    async def start_within(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        """The same in the caller's open transaction, as `Jobs.within` does it."""
        ...

    def start_within_sync(self, connection: object, flows: Sequence[NewFlow]) -> list[Started]:
        """The same for connections whose driver does not use a loop."""
        ...

    async def extend(self, growths: Sequence[Growth]) -> list[Grown]:
        """Add nodes and gates to running flows. A name that the flow has already is kept as it is,
        with the gates that name it: `holdfast.flow.kept.without_known` says what is left. Gates
        alone are added once, by their graph. An upstream that has ended is counted at once. If a
        growth is refused, nothing of it is written. The flow's epoch grows.

        A growth that `leaves_out_gone` is written whole although a node that was to get a gate is
        no longer blocked, or no node of the flow. Such a node gets no gate; the graph alone tells
        of it. If the node was skipped and does not count as bad, the gate counts when the flow
        ends, as those that the node had.

        No store looks for cycles. It answers `CHANGED` if the flow has left the epoch at which
        somebody did, or if nobody did and kept nodes may close one: then whoever asks looks again,
        in the graph as it is now, and asks anew."""
        ...

    async def inputs(self, ids: Sequence[JobId]) -> dict[JobId, NodeInput]:
        """What workers need to know of these nodes; jobs of no flow are left out."""
        ...

    async def pause(self, ids: Sequence[FlowId], reason: str | None = None) -> list[FlowId]:
        """Release nothing more of running flows; returns those that were running. The reason is
        kept with the flow until it goes on."""
        ...

    async def resume(self, ids: Sequence[FlowId]) -> list[FlowId]:
        """Let paused flows go on, and release or skip what was decided meanwhile."""
        ...

    async def close(
        self, ids: Sequence[FlowId], what: CloseWhat, reason: str | None = None
    ) -> list[FlowId]:
        """Ask for the cancel of live flows; returns those that are live. With `ALL` and `WAITING`
        the flow is cancelling from then on, and keeps the reason. With `BLOCKED` it goes on with
        what is ready or runs. Writes an errand for the nodes that are to be cancelled, and wakes
        those who do errands."""
        ...

    async def reopen(self, plans: Sequence[Reopening], by: str | None = None) -> list[FlowId]:
        """Let ended nodes of flows run again: attempts and crashes back to none, outcome and
        deadline removed, fence and history kept. The life of each node tells that it was requeued,
        by whom, and in which state it had ended. Gates are counted from what stands: an upstream
        that has ended and is not reopened is counted at once. The nodes of `removed` are gone with
        all that belongs to them, as if their flow had never had them, and the graph of the plan is
        written behind the others. The flow runs again. Refused, and nothing changed, if the epoch
        differs, the flow is cancelling, another live flow has its unique key, a node to reopen or
        remove has not ended, or a node whose gates are counted anew is not blocked. Refused too
        while the flow is live and owes cancels (of losers, or by `close`): they were owed by nodes
        as they were, and would reach those that run again. A flow that has ended owes no cancel:
        what it owed is forgotten."""
        ...

    async def errands(self, limit: int, after: str | None = None) -> list[Errand]:
        """What is owed, oldest first: those behind `after`, the id of an errand."""
        ...

    async def settle(self, ids: Sequence[FlowId]) -> None:
        """Decide the edges whose upstream has ended and that nobody has decided yet, with all that
        follows: only a cascade that was cut off at `CASCADE_LIMIT` leaves any."""
        ...

    async def let_go(self, flow: FlowId, jobs: Sequence[JobId]) -> None:
        """These nodes are about to be cancelled because nobody needs them any more. Their ends make
        no node bad that has been skipped. A reopening takes that back."""
        ...

    async def done(self, errands: Sequence[str]) -> None:
        """Forget errands, by id, that are done."""
        ...

    async def mend(self, plans: Sequence[Mending]) -> list[FlowId]:
        """Replace the gates of blocked nodes by those that the graph says, counted from what
        stands; count the live nodes anew; and release, skip or end what follows. A flow that has
        ended and has live nodes runs again. Returns the flows that were at that epoch; one whose
        unique key another live flow has by now stays ended."""
        ...

    async def get(self, ids: Sequence[FlowId]) -> list[FlowInfo]:
        """Those of these flows that are there, in the order asked."""
        ...

    async def children(self, ids: Sequence[JobId]) -> dict[JobId, list[FlowId]]:
        """The flows that these jobs have started as their children, oldest first. Jobs without any
        are left out."""
        ...

    async def page(self, which: FlowFilter, limit: int, cursor: str | None = None) -> FlowPage:
        """Flows, newest first."""
        ...

    async def count(self) -> dict[FlowState, int]:
        """How many flows there are by state, where there are any."""
        ...

    async def nodes(self, flow: FlowId, limit: int, after: str | None = None) -> list[NodeInfo]:
        """Nodes of a flow by name, those behind `after`."""
        ...

    async def graph(self, flow: FlowId) -> list[str]:
        """The graphs that were written for this flow: the first, and one for each growth."""
        ...

    async def prune(self, limit: int) -> int:
        """Remove up to `limit` ended flows whose time to be kept is over, each with its jobs."""
        ...
