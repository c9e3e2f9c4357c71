"""The rows by which Python tells the scripts what to do, as `layout.py` has those that are kept.

Here a value that is absent may be None. What is told of flows stands in `flow_layout.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.store.valkey.layout import Maybe, Time


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
    move. `spent`: limit, units, … `gained` are ties that the job gets if it goes on."""

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
    gained: int


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


REQUESTED: Mapping[str, type[msgspec.Struct]] = {
    "JOB_": JobRow,
    "LINE_": LineRow,
    "NEW_STEP_": NewStepRow,
    "NEW_SIGNAL_": NewSignalRow,
    "NEW_FRAMES_": NewFramesRow,
    "MOVE_": MoveRow,
    "REPORT_": ReportRow,
    "PLAN_": PlanRow,
    "PUT_": PutRow,
}
