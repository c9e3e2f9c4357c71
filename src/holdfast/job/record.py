"""The records of a job: as it is inserted, claimed, judged, and shown.

Records that cross the hot path are msgspec Structs: they cost a third of a
dataclass to make, and thousands are made every second.

A record that carries arguments or a result does not say them in its `repr`, which stands in logs
and tracebacks. Who holds the record reads its fields.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Literal

import msgspec

from holdfast.errors import Unreadable
from holdfast.job.ids import JobId, WorkerId
from holdfast.job.json_text import shown_value
from holdfast.job.policy import decode_policy
from holdfast.job.signal import Recalled
from holdfast.job.state import ENDED, JobState
from holdfast.job.ties import NO_TIES, Tie
from holdfast.job.unique import Unique

ERRORS_KEPT = 32


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """One job to insert. `delay` and `deadline_in` are measured by the store's clock. A `blocked`
    job waits, whatever its `delay` or `run_at`, until it is released or skipped. A job that passes
    `buckets` (`holdfast.job.passing`), which it does at these `costs`, has the tie PERMITS. Its
    line has its `weight` among others until another job comes."""

    id: JobId
    task: str
    queue: str
    args: str
    policy: str
    priority: int = 0
    run_at: datetime | None = None
    delay: float | None = None
    deadline_at: datetime | None = None
    deadline_in: float | None = None
    unique: Unique | None = None
    tags: tuple[str, ...] = ()
    headers: str | None = None
    ties: int = NO_TIES
    blocked: bool = False
    buckets: str | None = None
    costs: str | None = None
    weight: int = 1

    @property
    def is_plain(self) -> bool:
        """Without ties, ready at once, without a deadline or a key: a store may have a shorter way
        for it."""
        return (
            not self.ties
            and not self.blocked
            and self.unique is None
            and self.run_at is None
            and not self.delay
            and self.deadline_at is None
            and self.deadline_in is None
        )

    @property
    def is_plain_with_permits(self) -> bool:
        """The same of a job that is tied to nothing but its limits."""
        if self.ties != Tie.PERMITS or self.buckets is None:
            return False
        return msgspec.structs.replace(self, ties=NO_TIES).is_plain

    def __repr__(self) -> str:
        return f"<new job {self.id} of {self.task} for {self.queue}>"

    def repeats(self, task: str, args: str) -> Inserted:
        """What to answer where the id is there already, with this task and these arguments: the
        same call again is acknowledged again, another call has no right to the id."""
        same = (task, args) == (self.task, self.args)
        return Inserted(self.id, "created" if same else "taken")


How = Literal["created", "existing", "replaced", "debounced", "taken"]


class Inserted(msgspec.Struct, frozen=True, gc=False):
    """What became of one NewJob.

    `id` is the job that now stands for the call: the new one, or with
    `existing`/`debounced` the holder of the unique key. An insert repeated
    with the same id answers `created` again. `taken`: the id belongs to a job of
    another task or with other arguments, and nothing was written.
    """

    id: JobId
    how: How


def times_taken(fence: int) -> int:
    """How often a job was claimed, or taken from its worker, when it got this fence. The last six
    bits of a fence count that: a hint, which a job of many claims outgrows."""
    return fence % 64


class NodeFacts(msgspec.Struct, frozen=True, gc=False):
    """What a claim may bring of a node of a flow, so that its worker need not ask for it
    (`Flows.inputs`). `closing`: its flow is being cancelled. `results` are the upstreams that its
    `inputs` name, each with its result; None if the claim has not read them."""

    inputs: str | None
    closing: bool
    results: dict[JobId, str | None] | None = None


MAY_BEGIN = NodeFacts(None, closing=False)
"""Of a node that takes no results in a flow that goes on, and of a job of no flow."""


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """One attempt that a worker now owns, with all it needs to run and to end it.

    `attempts` counts the attempts spent before this one, so this is number
    `attempts + 1`. `ready_at` and `claimed_at` are the store's clock: when the job took its
    position in the line, which a job that is handed back keeps, and when it was claimed. `ahead`
    says that no slot was free for it: should the worker die, the job counts as one that had not
    begun. `node` and `recalled` are there if the store has read them with the claim.
    """

    state: ClassVar[JobState] = JobState.RUNNING

    id: JobId
    task: str
    queue: str
    priority: int
    args: str
    policy: str
    attempts: int
    crashes: int
    fence: int
    created_at: datetime
    ready_at: datetime
    claimed_at: datetime
    deadline_at: datetime | None
    tags: tuple[str, ...]
    headers: str | None
    checkpoint: str | None
    ahead: bool = False
    ties: int = NO_TIES
    node: NodeFacts | None = None
    recalled: Recalled | None = None

    def __repr__(self) -> str:
        return f"<job {self.id} of {self.task}, attempt {self.attempt}>"

    @property
    def attempt(self) -> int:
        return self.attempts + 1


class Live(msgspec.Struct, frozen=True):
    """A live job as a reconciler or an operator's verb sees it: enough to decide its end."""

    id: JobId
    state: JobState
    queue: str
    task: str
    policy: str
    attempts: int
    crashes: int
    fence: int
    worker_id: WorkerId | None = None
    cancel_requested: bool = False
    ahead: bool = False
    claimed_at: datetime | None = None
    ties: int = NO_TIES

    @property
    def attempt(self) -> int:
        return self.attempts + 1


class ErrorEntry(msgspec.Struct, frozen=True):
    """One line of a job's error history. The store stamps `at`. Errors of one cause share a
    `fingerprint`."""

    attempt: int
    kind: str
    message: str
    traceback: str | None = None
    at: datetime | None = None
    fingerprint: str | None = None


class Progress(msgspec.Struct, frozen=True):
    """How far a job says it is; the checkpoint survives retries."""

    fraction: float | None = None
    message: str | None = None
    checkpoint_json: str | None = None
    at: datetime | None = None

    @property
    def checkpoint(self) -> Any:
        """What the next attempt should know, as a JSON value."""
        return shown_value(self.checkpoint_json)


class Job(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything the store knows about one job.

    `args`, `headers` and `result` are JSON values, decoded when they are first read. The text as
    the store keeps it is in `args_json`, `headers_json` and `result_json`. A text that is no JSON
    is its own value: reading a job never raises.
    """

    id: JobId
    task: str
    queue: str
    state: JobState
    priority: int
    args_json: str
    policy: str
    created_at: datetime
    attempts: int
    crashes: int
    fence: int
    tags: tuple[str, ...] = ()
    headers_json: str | None = None
    ties: int = NO_TIES
    unique_key: str | None = None
    deadline_at: datetime | None = None
    due_at: datetime | None = None
    worker_id: WorkerId | None = None
    claimed_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    result_json: str | None = None
    reason: str | None = None
    progress: Progress | None = None
    errors: tuple[ErrorEntry, ...] = ()

    def __repr__(self) -> str:
        return f"<job {self.id} of {self.task} in {self.queue}, {self.state}>"

    @cached_property
    def args(self) -> Any:
        """The arguments by name."""
        return shown_value(self.args_json)

    @cached_property
    def headers(self) -> Any:
        """What the enqueuer sent along: texts by name, often none."""
        return {} if self.headers_json is None else shown_value(self.headers_json)

    @cached_property
    def result(self) -> Any:
        """What the function returned, as a JSON value; None also while there is no result. The
        handle of a task, `await handle.result()`, answers with the type of the function."""
        return shown_value(self.result_json)

    @property
    def max_attempts(self) -> int | None:
        """How many attempts the job may have. None where it is tried for ever, and where this
        version cannot read the job's policy (`unreadable`)."""
        return None if self.unreadable else decode_policy(self.policy).retry.max_attempts

    @property
    def unreadable(self) -> Unreadable | None:
        """What keeps this version from reading the job's policy, if anything does."""
        try:
            decode_policy(self.policy)
        except Unreadable as problem:
            return problem
        return None

    @property
    def ended(self) -> bool:
        return self.state in ENDED
