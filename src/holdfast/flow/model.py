"""The words of flows: what the contract of a store and everybody above it speak.

A *flow* is a graph of jobs, its *nodes*. A node that waits for others has one or more *gates*. A
gate counts: it has `total` edges and needs `need` of them to be won. It is *met* when `won >=
need`, and *impossible* when `lost > total - need`. A node is released when all its gates are met,
and skipped as soon as one of them is impossible. An *edge* is what a gate still waits for: the end
of one other node, the *upstream*. The edge says which ends win (`wants`); any other end loses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NewType

import msgspec

from holdfast.errors import BadFlow
from holdfast.job.ids import JobId
from holdfast.job.record import NewJob
from holdfast.job.state import JobState
from holdfast.job.undo import Undo

FlowId = NewType("FlowId", str)


class FlowState(StrEnum):
    """`PAUSED`: what is ready goes on, and nothing more is released. `CANCELLING`: somebody asked
    to cancel it, nothing is released any more, and some of its nodes are still live."""

    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


FLOW_LIVE = frozenset({FlowState.RUNNING, FlowState.PAUSED, FlowState.CANCELLING})
FLOW_ENDED = frozenset(FlowState) - FLOW_LIVE

BITS: Mapping[JobState, int] = {
    JobState.SUCCEEDED: 1,
    JobState.FAILED: 2,
    JobState.CANCELLED: 4,
    JobState.EXPIRED: 8,
    JobState.SKIPPED: 16,
}
"""How an edge names the ends that win it: the sum of their bits."""


def wants(states: Iterable[JobState]) -> int:
    return sum(BITS[state] for state in set(states))


SUCCESS = wants([JobState.SUCCEEDED])
FAILURE = wants([JobState.FAILED, JobState.EXPIRED])
ANY_END = wants(BITS)


class Losers(StrEnum):
    """What becomes of the nodes that a gate no longer needs once it is met."""

    LET_RUN = "let_run"
    CANCEL = "cancel"


class CloseWhat(StrEnum):
    """Which nodes of a flow a cancel means: those that are blocked; all that wait, too; or all that
    are live."""

    BLOCKED = "blocked"
    WAITING = "waiting"
    ALL = "all"


class NewEdge(msgspec.Struct, frozen=True, gc=False):
    """The end of `upstream` wins if its bit is in `wants`, and loses otherwise."""

    upstream: JobId
    wants: int = SUCCESS


class NewGate(msgspec.Struct, frozen=True, gc=False):
    """A gate with one edge for each upstream; the same upstream is in one gate once. It needs at
    least one of them and at most all: no gate is decided before an upstream ends, so nobody has to
    judge a gate that is only written."""

    need: int
    edges: tuple[NewEdge, ...]
    losers: Losers = Losers.LET_RUN

    def __post_init__(self) -> None:
        if not 1 <= self.need <= len(self.edges):
            most = len(self.edges)
            raise BadFlow(f"a gate needs between 1 and {most} of its {most} edges, got {self.need}")

    @property
    def total(self) -> int:
        return len(self.edges)


GATES_A_GROWTH = 1 << 20
"""More than a node has, or is given by one growth."""


def first_gate(epoch: int) -> int:
    """The number of the first gate that a node gets when its flow comes to this epoch, on stores
    that leave edges where they are: an edge of an earlier gate may still name a number that looks
    free."""
    return epoch * GATES_A_GROWTH


class NewNode(msgspec.Struct, frozen=True, gc=False):
    """A node to insert. Its job has the tie `NODE`, and is `blocked` if and only if it has gates.

    `inputs` says, as JSON (`flow/inputs.py`), which results its arguments take. `delay`: seconds
    that it waits after its release. `is_sink`: its end counts for the end of the flow. `undo`: who
    undoes it; no store reads it.
    """

    name: str
    job: NewJob
    gates: tuple[NewGate, ...] = ()
    inputs: str | None = None
    delay: float | None = None
    is_sink: bool = False
    undo: Undo | None = None


UNHELD = -1
"""The fence of a flow whose parent does not run when it is started."""


class NewFlow(msgspec.Struct, frozen=True, kw_only=True):
    """A whole graph. `graph` is JSON for those who show it; no store reads it. `keep` has the
    seconds that the ended flow is kept, by its state; None for ever. A flow with a parent and an
    empty `keep` is kept as long as its parent. `parent` is a job that waits
    for the flow, and `fence` that of its running attempt, which starts the flow. A flow that undoes
    what its parent has done has the fence `UNHELD`: the parent has ended."""

    id: FlowId
    name: str
    nodes: tuple[NewNode, ...]
    graph: str
    unique_key: str | None = None
    tags: tuple[str, ...] = ()
    keep: dict[FlowState, float | None] = {}
    parent: JobId | None = None
    fence: int = 0


class FlowInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A flow as it stands. `open` is how many of its nodes are live, `failed` how many of its sinks
    ended badly. `epoch` grows with every change of the graph."""

    id: FlowId
    name: str
    state: FlowState
    total: int
    open: int
    failed: int
    epoch: int
    created_at: datetime
    unique_key: str | None = None
    tags: tuple[str, ...] = ()
    parent: JobId | None = None
    reason: str | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None

    @property
    def ended(self) -> bool:
        return self.state in FLOW_ENDED


class GateInfo(msgspec.Struct, frozen=True):
    """An open gate of a blocked node, and the edges that are not decided yet."""

    n: int
    need: int
    total: int
    won: int
    lost: int
    losers: Losers
    edges: tuple[NewEdge, ...]


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it stands. `gates` are those still open."""

    name: str
    job_id: JobId
    state: JobState
    is_sink: bool
    task: str
    queue: str
    attempts: int = 0
    reason: str | None = None
    gates: tuple[GateInfo, ...] = ()
    finished_at: datetime | None = None


class NodeInput(msgspec.Struct, frozen=True):
    """What a worker needs to know of a node before it begins."""

    flow: FlowId
    flow_name: str
    flow_state: FlowState
    name: str
    inputs: str | None


class NewElements(msgspec.Struct, frozen=True):
    """Some elements of a map: nodes that differ in their arguments alone. Their names and ids
    follow from the name and the id of the map (`holdfast.flow.elements`). `like` is the job of each
    of them, but for its id and arguments. Each node of `behind` gets a gate that needs all of
    them, to end as these wants say. `anew`: how often elements of the map have been removed
    before."""

    map: str
    first: int
    like: NewJob
    args: tuple[str, ...]
    is_sink: bool = False
    behind: dict[JobId, int] = {}
    anew: int = 0

    @property
    def indexes(self) -> range:
        return range(self.first, self.first + len(self.args))

    @property
    def are_plain(self) -> bool:
        """Whether stores may write them by what they share: no limit counts them, and no list of
        deadlines has them."""
        like = self.like
        return not like.buckets and like.deadline_at is None and like.deadline_in is None


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What is added to a running flow. `by` and `fence`: the running node that adds it. `gates` are
    further gates of nodes that are still blocked. `graph` says the same as JSON. A map adds
    `elements`, and nothing else with them: `holdfast.flow.kept.written_out` says them as nodes
    and gates. `epoch`: somebody has looked for cycles in the graph of the flow at that epoch, and
    the growth applies only while the flow is there. None: the growth can close no cycle unless the
    flow has some of its nodes already. `leaves_out_gone`: a node that was to get a gate and waits
    no more refuses nothing. The graph tells of the gate: the node has it if it runs again."""

    flow: FlowId
    by: JobId
    fence: int
    graph: str
    nodes: tuple[NewNode, ...] = ()
    gates: dict[JobId, tuple[NewGate, ...]] = {}
    elements: NewElements | None = None
    epoch: int | None = None
    leaves_out_gone: bool = False


class Grown(StrEnum):
    """What became of a growth. A repeated one answers `GROWN` again."""

    GROWN = "grown"
    NOT_HELD = "not held"  # `by` does not run with that fence
    OVER = "over"  # the flow has ended, or is being cancelled, or is not there
    TARGET_GONE = "target gone"  # a node that was to get a gate waits no more
    CHANGED = "changed"  # nobody has looked for cycles in the graph as it is now


class Reopening(msgspec.Struct, frozen=True, kw_only=True):
    """Ended nodes that are to run again: those in `ready` at once, those in `blocked` when their
    gates are met. `counted_anew` are nodes that are blocked still and wait for such a node: its
    end no longer counts at their gates. `removed` are ended nodes that one of these has added to
    the flow and will add anew; `graph` says so as JSON. It applies only while the flow's epoch is
    `epoch`."""

    flow: FlowId
    epoch: int
    ready: tuple[JobId, ...]
    blocked: dict[JobId, tuple[NewGate, ...]] = {}
    counted_anew: dict[JobId, tuple[NewGate, ...]] = {}
    removed: tuple[JobId, ...] = ()
    graph: str = ""


class Mending(msgspec.Struct, frozen=True, kw_only=True):
    """The gates that blocked nodes of a flow should have, made from its graph. It applies only
    while the flow's epoch is `epoch`."""

    flow: FlowId
    epoch: int
    gates: dict[JobId, tuple[NewGate, ...]] = {}


CASCADE_LIMIT = 500
"""Nodes that one transaction or script skips at most. Beyond it owes the rest as an errand."""


class ErrandKind(StrEnum):
    LOSERS = "losers"  # a gate of `job` was met: cancel what only it needed
    CLOSE = "close"  # the flow is being cancelled: cancel the nodes that are meant
    SETTLE = "settle"  # too many nodes were skipped at once: `Flows.settle` goes on
    PARENT = "parent"  # the flow is over: end `job`, its parent, or tell it
    ORPHAN = "orphan"  # its parent `job` has ended: cancel the flow
    UNDO = "undo"  # `job` has ended badly: start the flow that undoes its steps


class Errand(msgspec.Struct, frozen=True):
    """What a write owes and could not do at once."""

    id: str
    flow: FlowId
    kind: ErrandKind
    job: JobId | None = None
    what: CloseWhat | None = None
    at: datetime | None = None


def is_bad_end(state: JobState, *, is_bad: bool) -> bool:
    """Whether a sink that ended like this keeps its flow from succeeding, and whether the skip of
    those who need the node does. `is_bad` says it of a node that was skipped. A node that was
    cancelled because another came first is no sink, and nobody needs it any more."""
    bad = (JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED)
    return state in bad or (state is JobState.SKIPPED and is_bad)


def state_at_end(failed: int, *, cancel_asked: bool, has_failure: bool = True) -> FlowState:
    """How a flow has ended that has no live node left. `has_failure`: a node failed or passed its
    deadline. If none did, sinks that ended badly were cancelled, or skipped because of a cancel."""
    if cancel_asked:
        return FlowState.CANCELLED
    if not failed:
        return FlowState.SUCCEEDED
    return FlowState.FAILED if has_failure else FlowState.CANCELLED
