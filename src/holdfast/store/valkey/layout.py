"""The rows that Python and the scripts share: the names of their values, in order, said once.

Each row is a MessagePack list. Python reads and writes it as one of these structs; a script gets
the position of each value as a constant of the same name behind the prefix of the row
(`constants.py`). A list in Lua must have no holes, so `false` stands for a value that is absent.

A value is added here and nowhere else. A row in the store that has too few or too many values
cannot be decoded, so it is never read as something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.job.ids import JobId
from holdfast.store.body import BODY

SEQ_LENGTH = 17
"""Characters of an arrival number: 13 of the time, 4 of the place within the call."""

ID_LENGTH = 36
"""Characters of the id of a job, which stands behind its arrival number in a line."""

TURN_LENGTH = 30
"""Digits of the turn of a line, which stand before its name: 18 of the turn itself, and 12 that
order equal turns."""

EDGE_ALONE = 64
"""Beside what an edge wants, in the row of its upstream: the node behind it has no other edge and
no delay, and cancels no losers. It is more than all `BITS` of states together."""

NUMBER_LENGTH = 15
"""Digits before the times of a measure: its number, so that older and newer can be compared."""

Time = int  # microseconds since 1970 UTC
Maybe = bool  # always False: the value is absent


class Record(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """A job but for its body.

    The values that most moves change come first, and then those that a move asks for, so that
    `lua/parts/moved_texts.lua` leaves the rest as it is.

    `at`: when the job is due, when its attempt times out, or when it ended, by its state.
    `spread` must be the last value of a plain record (`spread.py` says why). A record has a
    `plan` only if a plan started the job: schedule, scope and plan time. It has `buckets` and what
    stands behind them only if the job passes limits, or has once run in a queue with a total;
    `last_spread` is then its last value. `total`: the bucket of its queue, while that counts it.
    `spent` is what a running attempt has reported: limit, units, …
    """

    state: str
    seq: str
    attempts: int
    ready_at: Time | Maybe
    at: Time | Maybe
    reason: str | Maybe
    result: str | Maybe
    fence: int
    worker: str | Maybe
    ties: int
    deadline_at: Time | Maybe
    queue: str
    task: str
    priority: int
    claimed_at: Time | Maybe
    ahead: bool
    crashes: int
    timeout: float | Maybe
    cancel_at: Time | Maybe
    created_at: Time
    expires_at: Time | Maybe
    key: str | Maybe
    key_states: str | Maybe
    fingerprint: str | Maybe
    has_progress: bool
    spread: int
    plan: tuple[str, str, str] | Maybe = False
    buckets: str | Maybe = False
    costs: str | Maybe = False
    weight: int | Maybe = False
    total: str | Maybe = False
    spent: list[str | int] | Maybe = False
    last_spread: int = 0


class Body(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a job was enqueued with (`holdfast.store.body`). It is written once."""

    args: str
    policy: str
    tags: tuple[str, ...]
    headers: str | None
    spread: int


if Body.__struct_fields__ != (*BODY, "spread"):
    raise TypeError(f"layout.Body must have the fields {', '.join(BODY)}, and then spread")


class ProgressRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    fraction: float | Maybe
    message: str | Maybe
    checkpoint: str | Maybe
    at: Time


class StepRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One step of a job, in a hash by its name."""

    n: int
    fence: int
    tries: int
    result: str | Maybe
    kind: str | Maybe
    message: str | Maybe
    version: str | Maybe
    until: Time | Maybe
    at: Time
    awaits: str | Maybe = False
    undo: str | Maybe = False


class SignalRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One signal of a job, in a hash by its number."""

    name: str
    value: str | Maybe
    key: str
    taken_by: str | Maybe
    at: Time


class FramesRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Frames of a stream that were written together, in a stream of the server. The id of the entry
    is the position of the last one: its fence and its number."""

    number: int
    data: str
    section: str
    since: int
    again: bool
    whole: bool
    closes: bool
    keep: str
    at: Time


class HappeningRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One thing that happened to a job. `n` orders those of a job. Behind that of an error stands
    an ErrorRow."""

    n: int
    at: Time
    what: str
    attempt: int
    fence: int
    worker: str | Maybe
    claimed_at: Time | Maybe
    due_at: Time | Maybe
    by: str | Maybe
    message: str | Maybe


class ErrorRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What a happening has more if it tells of an error; its own message is then absent."""

    attempt: int
    kind: str
    message: str
    traceback: str | None
    fingerprint: str | None


class FailureRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Errors of one cause in one partition. `sampled_at`: when its sample was written."""

    task: str
    kind: str
    times: int
    first_at: Time
    last_at: Time
    sampled_at: Time
    muted_until: Time | Maybe = False
    note: str | Maybe = False


class RuleRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The definition of a limit. `settings` are JSON."""

    settings: str
    edited: bool
    retired: bool
    revision: int


class BucketRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One bucket (`holdfast.limits.admission.Bucket`). `override`: settings of its own, as JSON.
    `has_waiting`: lines are parked there. `slices`: number, units, …"""

    in_use: int = 0
    override: str | Maybe = False
    shut_until: Time | Maybe = False
    throttles: int = 0
    has_waiting: bool = False
    touched_at: Time = 0
    needs: int | Maybe = False
    spent: int = 0
    since: Time = 0
    scale: int = 0
    alarms: int = 0
    slices: list[int] | Maybe = False


class QueueRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A queue. `settings` are the fields of `QueueSettings` by name, without the fields that are
    None: a new setting has its default in the rows that were written before it."""

    paused: bool
    cool_until: Time | Maybe
    throttles: int
    settings: dict[str, Any]


class WorkerRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A worker. Scripts set the times and `lease` (microseconds), which a new row comes without."""

    name: str
    host: str
    pid: int
    queues: str
    tasks: str
    version: str
    started_at: Time | Maybe
    beaten_at: Time | Maybe
    lease: int | Maybe
    alive_since: Time | Maybe
    written_until: Time | Maybe
    facts: str
    drain_requested_at: Time | Maybe = False


class ScheduleRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A schedule.

    `code_since`: since when the program runs whose definition stands. `code_seen_at`: when such a
    program last declared it. `rival`: what an older program that still runs declares instead.
    `pruned_from` and `pruned_until`: the oldest and newest FIRED plan whose ledger row was pruned.
    """

    definition: str
    rule: str
    keep: float
    edited: bool
    revision: int
    created_at: Time
    changed_at: Time | Maybe
    declared_at: Time | Maybe
    paused: bool
    paused_at: Time | Maybe
    resumed_at: Time | Maybe
    complaint: str | Maybe
    complaint_at: Time | Maybe
    code_since: Time | Maybe
    code_seen_at: Time | Maybe
    rival: str | Maybe
    rival_at: Time | Maybe
    pruned_from: str | Maybe
    pruned_until: str | Maybe


class LedgerRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What was decided about one plan, and the job that it started."""

    decision: str
    reason: str
    recorded_at: Time
    keep_until: Time
    job: str | Maybe


class AuditRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """An act of an operator. Scripts set the times and how it ended."""

    by: str
    verb: str
    target: str
    which: str | Maybe
    arguments: str | Maybe
    begun_at: Time | Maybe = False
    seen_at: Time | Maybe = False
    closed_at: Time | Maybe = False
    outcome: str | Maybe = False
    changed: int = 0
    error: str | Maybe = False


class OperationRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """An act on many jobs. `request` and `progress` are JSON, which no script reads."""

    request: str
    state: str
    revision: int
    progress: str
    hand: str | Maybe
    begun_at: Time
    advanced_at: Time


class ShelfRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A document of the shelf."""

    value: str
    revision: int
    expires_at: Time | Maybe


class FlowRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
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


class GateRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
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


# What Python tells the scripts to do. Here a value that is absent may be None.


class JobRow(msgspec.Struct, array_like=True, gc=False):
    """One job to insert. `index`: its place in the call, which orders its arrival."""

    id: str
    task: str
    queue: str
    body: msgspec.Raw
    priority: int
    run_at: Time | None
    delay: float | None
    deadline_at: Time | None
    deadline_in: float | None
    timeout: float | None
    key: str | None
    key_states: str | None
    on_conflict: str | None
    max_wait: float | None
    period: float | None
    ties: int
    blocked: bool
    index: int
    buckets: str | None
    costs: str | None
    weight: int


class LineRow(msgspec.Struct, array_like=True):
    """Plain jobs of one queue, task and priority, and of the same buckets and costs if they have
    limits: the packed pieces that their records share (`inserting.fresh_record`). Behind it stand
    id, body and index of each job: so many `values`."""

    queue: str
    task: str
    priority: int
    before_seq: msgspec.Raw
    before_ready_at: msgspec.Raw
    before_created_at: msgspec.Raw
    before_spread: msgspec.Raw
    values: int
    buckets: str | Maybe
    costs: str | Maybe
    weight: int
    before_last_spread: msgspec.Raw | Maybe


class NewStepRow(msgspec.Struct, array_like=True, gc=False):
    """One step to write. `seconds`: how long it waits from now."""

    id: str
    fence: int
    name: str
    n: int
    tries: int
    result: str | Maybe
    kind: str | Maybe
    message: str | Maybe
    version: str | Maybe
    seconds: float | Maybe | None
    awaits: str | Maybe
    takes: int | Maybe
    undo: str | Maybe


class NewSignalRow(msgspec.Struct, array_like=True, gc=False):
    """One signal to send. `index`: its place in the call, which orders the arrival of jobs that it
    wakes. `before`: the step that must not have ended."""

    id: str
    name: str
    value: str
    key: str
    index: int
    before: str | Maybe


class NewFramesRow(msgspec.Struct, array_like=True, gc=False):
    """Frames to write. `place`: the id of their entry. `replaces`: the id before which entries of
    the section go. `keeps_from`: the id before which all entries of the stream go."""

    id: str
    fence: int
    stream: str
    place: str
    number: int
    data: str
    section: str
    since: int
    again: bool
    whole: bool
    closes: bool
    keep: str
    replaces: str | Maybe
    keeps_from: str | Maybe


class MoveRow(msgspec.Struct, array_like=True, gc=False):
    """One guarded move. `keep_for`: seconds, None for ever. `error` is a packed ErrorRow. `index`:
    its place in the call, which orders the arrival of released jobs. `steps` are written with the
    move. `spent`: limit, units, …"""

    id: str
    fence: int
    to: str
    source: str
    spend: int
    crash: int
    bump: int
    delay: float | None
    run_at: Time | None
    keep_for: float | None
    result: str | None
    reason: str | None
    message: str | None
    by: str | None
    error: msgspec.Raw | None
    fingerprint: str | None
    cool: float | None
    what: str
    index: int
    steps: list[NewStepRow]
    drains: str | None
    settles: str
    spent: list[object]


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
    that, and a spread behind each piece. `behind`: nodes that wait for all of them, each with what
    becomes of losers there."""

    map: str
    first: int
    ids: list[JobId]
    args: tuple[str, ...]
    line: NodeLineRow
    before_args: msgspec.Raw
    behind_args: msgspec.Raw
    before_name: msgspec.Raw
    behind_name: msgspec.Raw
    behind: list[str]


class NewFlowRow(msgspec.Struct, array_like=True):
    """One flow to start. `fence`: that of its parent, if it has one."""

    id: str
    row: FlowRow
    graph: str
    nodes: NewNodesRow
    fence: int


class GrowthRow(msgspec.Struct, array_like=True):
    """What is added to a flow. `gates`: [node, gates] of nodes that are there. With `elements`
    there is nothing else."""

    flow: str
    by: str
    fence: int
    nodes: NewNodesRow
    gates: list[tuple[str, list[NewGateRow]]]
    graph: str
    elements: ElementsRow | Maybe


class ReopeningRow(msgspec.Struct, array_like=True):
    """Ended nodes that are to run again. `blocked`: [node, gates]. `anew`: the same for nodes that
    are blocked still, and wait for such a node."""

    flow: str
    epoch: int
    ready: list[str]
    blocked: list[tuple[str, list[NewGateRow]]]
    anew: list[tuple[str, list[NewGateRow]]]


class MendingRow(msgspec.Struct, array_like=True):
    """The gates that blocked nodes should have: [node, gates]."""

    flow: str
    epoch: int
    gates: list[tuple[str, list[NewGateRow]]]


class ReportRow(msgspec.Struct, array_like=True, gc=False):
    """Progress of one running attempt."""

    id: str
    fence: int
    fraction: float | None
    message: str | None
    checkpoint: str | None


class PutRow(msgspec.Struct, array_like=True):
    """One document to write. `revision`: the one that must be there, False for any. `expires_in`:
    seconds, False for ever."""

    key: str
    value: str
    revision: int | Maybe
    expires_in: float | Maybe


class PlanRow(msgspec.Struct, array_like=True):
    """One decided plan. `replaced` is the reason that cancelled jobs get. `beside`: the live jobs
    of the scope that the decision rests on."""

    schedule: str
    scope: str
    at: str
    decision: str
    reason: str
    out_of_turn: bool
    job: JobRow | Maybe
    cancel: tuple[str, ...]
    replaced: str
    beside: list[str] | Maybe


ROWS: Mapping[str, type[msgspec.Struct]] = {
    "": Record,
    "BODY_": Body,
    "PROGRESS_": ProgressRow,
    "STEP_": StepRow,
    "SIGNAL_": SignalRow,
    "FRAMES_": FramesRow,
    "HAPPENING_": HappeningRow,
    "ERROR_": ErrorRow,
    "FAILURE_": FailureRow,
    "QUEUE_": QueueRow,
    "RULE_": RuleRow,
    "BUCKET_": BucketRow,
    "WORKER_": WorkerRow,
    "SCHEDULE_": ScheduleRow,
    "LEDGER_": LedgerRow,
    "AUDIT_": AuditRow,
    "OPERATION_": OperationRow,
    "SHELF_": ShelfRow,
    "FLOW_": FlowRow,
    "NODE_": NodeState,
    "NODE_ROW_": NodeRow,
    "GATE_": GateRow,
    "JOB_": JobRow,
    "LINE_": LineRow,
    "NEW_STEP_": NewStepRow,
    "NEW_SIGNAL_": NewSignalRow,
    "NEW_FRAMES_": NewFramesRow,
    "MOVE_": MoveRow,
    "REPORT_": ReportRow,
    "PLAN_": PlanRow,
    "PUT_": PutRow,
    "NEW_FLOW_": NewFlowRow,
    "NODE_LINE_": NodeLineRow,
    "NEW_NODES_": NewNodesRow,
    "NEW_GATE_": NewGateRow,
    "GROWTH_": GrowthRow,
    "ELEMENTS_": ElementsRow,
    "REOPENING_": ReopeningRow,
    "MENDING_": MendingRow,
}


def width(row: type[msgspec.Struct]) -> int:
    """How many values every such row has."""
    return len(row.__struct_fields__) - len(row.__struct_defaults__)
