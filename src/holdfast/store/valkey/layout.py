"""The rows that Python and the scripts share: the names of their values, in order, said once.

Each row is a MessagePack list. Python reads and writes it as one of these structs; a script gets
the position of each value as a constant of the same name behind the prefix of the row
(`constants.py`). A list in Lua must have no holes, so `false` stands for a value that is absent.
What Python tells the scripts to do has rows too (`requests.py`).

A value is added here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.store.body import BODY

SEQ_LENGTH = 17
"""Characters of an arrival number: 13 of the time, 4 of the place within the call."""

ID_LENGTH = 36
"""Characters of the id of a job, which stands behind its arrival number in a line."""

TURN_LENGTH = 30
"""Digits of the turn of a line, which stand before its name: 18 of the turn itself, and 12 that
order equal turns."""

NUMBER_LENGTH = 15
"""Digits before the times of a measure: its number, so that older and newer can be compared."""

Time = int  # microseconds since 1970 UTC
Maybe = bool  # always False: the value is absent


class KeptRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A row that the store keeps. With too few or too many values it cannot be decoded, so it is
    never read as something else."""


class Record(KeptRow, gc=False):
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


class Body(KeptRow, gc=False):
    """What a job was enqueued with (`holdfast.store.body`). It is written once."""

    args: str
    policy: str
    tags: tuple[str, ...]
    headers: str | None
    spread: int


if Body.__struct_fields__ != (*BODY, "spread"):
    raise TypeError(f"layout.Body must have the fields {', '.join(BODY)}, and then spread")


class ProgressRow(KeptRow):
    fraction: float | Maybe
    message: str | Maybe
    checkpoint: str | Maybe
    at: Time


class StepRow(KeptRow):
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


class SignalRow(KeptRow):
    """One signal of a job, in a hash by its number."""

    name: str
    value: str | Maybe
    key: str
    taken_by: str | Maybe
    at: Time


class FramesRow(KeptRow):
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


class HappeningRow(KeptRow):
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


class ErrorRow(KeptRow):
    """What a happening has more if it tells of an error; its own message is then absent."""

    attempt: int
    kind: str
    message: str
    traceback: str | None
    fingerprint: str | None


class FailureRow(KeptRow):
    """Errors of one cause in one partition. `sampled_at`: when its sample was written."""

    task: str
    kind: str
    times: int
    first_at: Time
    last_at: Time
    sampled_at: Time
    muted_until: Time | Maybe = False
    note: str | Maybe = False


class RuleRow(KeptRow):
    """The definition of a limit. `settings` are JSON."""

    settings: str
    edited: bool
    retired: bool
    revision: int


class BucketRow(KeptRow):
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


class QueueRow(KeptRow):
    """A queue. `settings` are the fields of `QueueSettings` by name, without the fields that are
    None: a new setting has its default in the rows that were written before it."""

    paused: bool
    cool_until: Time | Maybe
    throttles: int
    settings: dict[str, Any]


class WorkerRow(KeptRow):
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


class ScheduleRow(KeptRow):
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


class LedgerRow(KeptRow):
    """What was decided about one plan, and the job that it started."""

    decision: str
    reason: str
    recorded_at: Time
    keep_until: Time
    job: str | Maybe


class AuditRow(KeptRow):
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


class OperationRow(KeptRow):
    """An act on many jobs. `request` and `progress` are JSON, which no script reads."""

    request: str
    state: str
    revision: int
    progress: str
    hand: str | Maybe
    begun_at: Time
    advanced_at: Time


class ShelfRow(KeptRow):
    """A document of the shelf."""

    value: str
    revision: int
    expires_at: Time | Maybe


STORED: Mapping[str, type[msgspec.Struct]] = {
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
}
"""The rows that a store keeps, by the prefix of their constants; those of flows stand in
`flow_layout.py`."""


def width(row: type[msgspec.Struct]) -> int:
    """How many values every such row has."""
    return len(row.__struct_fields__) - len(row.__struct_defaults__)
