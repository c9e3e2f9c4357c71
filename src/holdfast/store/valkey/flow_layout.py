"""The rows of flows: those that a store keeps, as `layout.py` has them of all else, and those by
which Python tells the scripts what to do, as in `requests.py`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.job.ids import JobId
from holdfast.store.valkey.layout import KeptRow, Maybe, Time
from holdfast.store.valkey.requests import JobRow

EDGE_ALONE = 64
"""Beside what an edge wants, in the row of its upstream: the node behind it has no other edge and
no delay, and cancels no losers. It is more than all `BITS` of states together."""


class FlowRow(KeptRow):
    """A flow. `open`: how many of its nodes are live. `failed`: how many of its sinks ended badly.
    The three `keep_…` are the seconds that it is kept when it has ended so, False for ever.
    Scripts set the times. The values that the end of a node asks for and changes come first
    (`lua/parts/flows.lua`)."""

    state: str
    open: int
    failed: int
    name: str
    total: int
    epoch: int
    cancel_asked: bool
    key: str | Maybe
    tags: tuple[str, ...]
    parent: str | Maybe
    keep_succeeded: float | Maybe
    keep_failed: float | Maybe
    keep_cancelled: float | Maybe
    reason: str | Maybe = False
    created_at: Time | Maybe = False
    finished_at: Time | Maybe = False
    expires_at: Time | Maybe = False


class GateRow(KeptRow, gc=False):
    """A gate of a blocked node. `serial` tells it from every other gate that the node has or had.
    `is_bad`: an edge of it was lost to a failure."""

    n: int
    serial: int
    need: int
    total: int
    won: int
    lost: int
    losers: str
    is_bad: bool


class NodeState(msgspec.Struct, array_like=True, gc=False):
    """What others change of a node that has gates, or had some. `is_bad`: it was skipped because
    another node failed or expired. `delay`: seconds that it waits after its release. `made`: how
    many gates it ever had. Behind these values the row has those of its gates, one gate after the
    other, and last a spread. Gates say something of a blocked node only: nobody writes what the
    last end did to them."""

    flow: str
    is_bad: bool
    delay: float | Maybe
    made: int


class NodeRow(msgspec.Struct, array_like=True, gc=False):
    """What a node begins and ends with. `inputs` are for its worker. Behind these values the row
    has the gates that wait for its end (node, serial number, wants, …), and last a spread. It may
    name gates that are gone."""

    flow: str
    name: str
    inputs: str | Maybe
    is_sink: bool


class NewGateRow(msgspec.Struct, array_like=True, gc=False):
    """One gate to add. `edges`: upstream, wants, upstream, wants, …"""

    need: int
    losers: str
    edges: list[object]


class NodeLineRow(msgspec.Struct, array_like=True, gc=False):
    """Nodes of one queue, task and priority that are plain but for their flow: the packed pieces
    that their records share (`inserting.fresh_record`), and then id and index of each."""

    queue: str
    task: str
    priority: int
    is_blocked: bool
    before_seq: msgspec.Raw
    before_ready_at: msgspec.Raw
    before_created_at: msgspec.Raw
    before_spread: msgspec.Raw
    jobs: list[object]


class NewNodesRow(msgspec.Struct, array_like=True):
    """Nodes to insert. `lines` and `jobs`: their jobs, most of them in lines. `texts`: whole keys,
    and what each is to hold. `names`: the name of each node, and its id. `edges` to nodes
    that are there: upstream, node, serial number of the gate, wants."""

    lines: list[NodeLineRow]
    jobs: list[JobRow]
    texts: list[object]
    names: list[str]
    edges: list[object]


class ElementsRow(msgspec.Struct, array_like=True):
    """Elements of a map to insert. `line`: what their records share, without jobs. The other pieces
    are what their bodies and the rows of their nodes share, packed: of a body what stands before
    and behind the arguments, of a row before and behind the name. The script puts edges behind
    that, and a spread behind each piece. `behind`: nodes that wait for all of them, each with which
    ends win there."""

    map: str
    first: int
    ids: list[JobId]
    args: tuple[str, ...]
    line: NodeLineRow
    before_args: msgspec.Raw
    behind_args: msgspec.Raw
    before_name: msgspec.Raw
    behind_name: msgspec.Raw
    behind: list[str | int]


class NewFlowRow(msgspec.Struct, array_like=True):
    """One flow to start. `fence`: that of its parent, if it has one."""

    id: str
    row: FlowRow
    graph: str
    nodes: NewNodesRow
    fence: int


class GrowthRow(msgspec.Struct, array_like=True):
    """What is added to a flow. `gates`: [node, gates] of nodes that are there. With `elements`
    there is nothing else. `epoch`: the only one of the flow at which it applies, False for any.
    `leaves_out_gone`: whether gates of nodes that wait no more are left out."""

    flow: str
    by: str
    fence: int
    nodes: NewNodesRow
    gates: list[tuple[str, list[NewGateRow]]]
    graph: str
    elements: ElementsRow | Maybe
    epoch: int | Maybe
    leaves_out_gone: bool


class ReopeningRow(msgspec.Struct, array_like=True):
    """Ended nodes that are to run again. `blocked`: [node, gates]. `anew`: the same for nodes that
    are blocked still, and wait for such a node. `removed`: ended nodes that are to go; `graph`: the
    text that says so, false if none goes."""

    flow: str
    epoch: int
    ready: list[str]
    blocked: list[tuple[str, list[NewGateRow]]]
    anew: list[tuple[str, list[NewGateRow]]]
    removed: list[str]
    graph: str | Maybe


class MendingRow(msgspec.Struct, array_like=True):
    """The gates that blocked nodes should have: [node, gates]."""

    flow: str
    epoch: int
    gates: list[tuple[str, list[NewGateRow]]]


OF_FLOWS: Mapping[str, type[msgspec.Struct]] = {
    "FLOW_": FlowRow,
    "NODE_": NodeState,
    "NODE_ROW_": NodeRow,
    "GATE_": GateRow,
    "NEW_FLOW_": NewFlowRow,
    "NODE_LINE_": NodeLineRow,
    "NEW_NODES_": NewNodesRow,
    "NEW_GATE_": NewGateRow,
    "GROWTH_": GrowthRow,
    "ELEMENTS_": ElementsRow,
    "REOPENING_": ReopeningRow,
    "MENDING_": MendingRow,
}
