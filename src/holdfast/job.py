"""The vocabulary of jobs: their states, the legal moves between them, their records.

A leaf that everything imports and that imports nothing but errors and retry.
Records that cross the hot path are msgspec Structs: they cost a third of a
dataclass to make, and thousands are made every second.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Literal, NewType

import msgspec
import uuid_utils

from holdfast import checks
from holdfast.errors import BadOption, Unreadable
from holdfast.retry import Retry

JobId = NewType("JobId", str)
WorkerId = NewType("WorkerId", str)

ERRORS_KEPT = 32
DAY = 86_400.0


class JobState(StrEnum):
    """Where a job is. Each state is a place in the store."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


S = JobState
LIVE = frozenset({S.BLOCKED, S.SCHEDULED, S.READY, S.RUNNING, S.SUSPENDED})
WAITING = LIVE - {S.RUNNING}
ENDED = frozenset(S) - LIVE

TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    S.BLOCKED: frozenset({S.READY, S.SCHEDULED, S.CANCELLED, S.EXPIRED, S.SKIPPED}),
    S.SCHEDULED: frozenset({S.READY, S.CANCELLED, S.EXPIRED}),
    S.READY: frozenset({S.RUNNING, S.SCHEDULED, S.CANCELLED, S.EXPIRED}),
    S.RUNNING: frozenset(
        {S.SUCCEEDED, S.FAILED, S.SCHEDULED, S.READY, S.SUSPENDED, S.CANCELLED, S.EXPIRED}
    ),
    S.SUSPENDED: frozenset({S.READY, S.CANCELLED, S.EXPIRED}),
    # An ended job never changes, except by an operator's requeue.
    **{ended: frozenset({S.READY}) for ended in ENDED},
}


def new_job_id(beside: str | None = None) -> JobId:
    """A UUIDv7: minted by the client, so an insert can be repeated; sorts by creation.

    Its last three digits say in which partition the job lies, where a store has several. Jobs
    minted `beside` the same text, such as a unique key, lie in the same one.
    """
    if beside is None:
        return JobId(str(uuid_utils.uuid7()))
    return JobId(f"{str(uuid_utils.uuid7())[:-3]}{partition_bits(beside):03x}")


def partition_bits(text: str) -> int:
    """Twelve bits that say where what belongs to this text lies; the same in every program."""
    return zlib.crc32(text.encode()) & 0xFFF


def new_worker_id() -> WorkerId:
    """Fresh at every start, so that a zombie never shares its name with a replacement."""
    return WorkerId(str(uuid_utils.uuid7()))


class Retention(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Seconds an ended job is kept, by how it ended."""

    succeeded: float = 7 * DAY
    failed: float = 30 * DAY
    other: float = 7 * DAY

    def __post_init__(self) -> None:
        for name in ("succeeded", "failed", "other"):
            seconds = checks.seconds(f"retention.{name}", getattr(self, name))
            msgspec.structs.force_setattr(self, name, seconds)

    def keep_for(self, state: JobState) -> float:
        match state:
            case JobState.SUCCEEDED:
                return self.succeeded
            case JobState.FAILED:
                return self.failed
            case _:
                return self.other


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is decided at enqueue and frozen on the job.

    Whoever ends an attempt, in whatever program, decides by this record alone. A field that this
    version does not know is therefore not dropped: it makes the policy unreadable, and the job is
    left for a program that knows what the field means.
    """

    retry: Retry = Retry()
    timeout: float | None = None
    max_crashes: int = 3
    retention: Retention = Retention()
    keep_result: bool = True

    def __post_init__(self) -> None:
        checks.kind("retry", self.retry, Retry, "a Retry")
        checks.kind("retention", self.retention, Retention, "a Retention(succeeded=…, failed=…)")
        if self.timeout is not None:
            timeout = checks.seconds("timeout", self.timeout, zero=False)
            msgspec.structs.force_setattr(self, "timeout", timeout)
        crashes = checks.count("max_crashes", self.max_crashes)
        msgspec.structs.force_setattr(self, "max_crashes", crashes)
        checks.flag("keep_result", self.keep_result)


_policy_encoder = msgspec.json.Encoder()
_policy_decoder = msgspec.json.Decoder(Policy)


def encode_policy(policy: Policy) -> str:
    return _policy_encoder.encode(policy).decode()


@lru_cache(maxsize=4096)
def decode_policy(text: str) -> Policy:
    """Most jobs of a task share one policy text, so it is decoded once, not per job."""
    try:
        return _policy_decoder.decode(text)
    except (msgspec.DecodeError, BadOption, UnicodeError) as error:
        raise Unreadable("policy", str(error)) from error


@lru_cache(maxsize=4096)
def readable_part(text: str) -> Policy:
    """As much of a policy as a store needs to know, with defaults where it cannot be read: a job
    of another release is stored, claimed and cancelled all the same."""
    try:
        return decode_policy(text)
    except Unreadable:
        return _known_part(text)


def _known_part(text: str) -> Policy:
    try:
        known = _part_decoder.decode(text)
        return Policy(timeout=known.timeout, retention=known.retention)
    except (msgspec.DecodeError, BadOption, UnicodeError):
        return Policy()


class _Part(msgspec.Struct):
    timeout: float | None = None
    retention: Retention = Retention()


_part_decoder = msgspec.json.Decoder(_Part)


OnConflict = Literal["keep", "replace", "debounce"]


class Unique(msgspec.Struct, frozen=True):
    """At most one job may hold `key` while it is in one of `states`.

    `key` carries its scope already (task or queue), so stores compare plain text.
    """

    key: str
    states: frozenset[JobState] = LIVE
    on_conflict: OnConflict = "keep"


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """One job to insert. `delay` and `deadline_in` are measured by the store's clock."""

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

    @property
    def is_plain(self) -> bool:
        """Ready at once, without a deadline or a key: a store may have a shorter way for it."""
        return (
            self.unique is None
            and self.run_at is None
            and not self.delay
            and self.deadline_at is None
            and self.deadline_in is None
        )

    def repeats(self, task: str, args: str) -> Inserted:
        """What to answer where the id is there already, with this task and these arguments: the
        same call again is acknowledged again, another call has no right to the id."""
        same = (task, args) == (self.task, self.args)
        return Inserted(self.id, "created" if same else "taken")


class Inserted(msgspec.Struct, frozen=True, gc=False):
    """What became of one NewJob.

    `id` is the job that now stands for the call: the new one, or with
    `existing`/`debounced` the holder of the unique key. An insert repeated
    with the same id answers `created` again. `taken`: the id belongs to a job of
    another task or with other arguments, and nothing was written.
    """

    id: JobId
    how: Literal["created", "existing", "replaced", "debounced", "taken"]


def times_taken(fence: int) -> int:
    """How often a job was claimed, or taken from its worker, when it got this fence. The last six
    bits of a fence count that: a hint, which a job of many claims outgrows."""
    return fence % 64


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """One attempt that a worker now owns, with all it needs to run and to end it.

    `attempts` counts the attempts spent before this one, so this is number
    `attempts + 1`. `claimed_at` is the store's clock at the claim. `ahead` says that no slot
    was free for it: should the worker die, the job counts as one that had not begun.
    """

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
    claimed_at: datetime
    deadline_at: datetime | None
    tags: tuple[str, ...]
    headers: str | None
    checkpoint: str | None
    ahead: bool = False

    @property
    def attempt(self) -> int:
        return self.attempts + 1

    @property
    def times_taken(self) -> int:
        return times_taken(self.fence)


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

    @property
    def attempt(self) -> int:
        return self.attempts + 1

    @property
    def times_taken(self) -> int:
        return times_taken(self.fence)


class ErrorEntry(msgspec.Struct, frozen=True):
    """One line of a job's error history. The store stamps `at`."""

    attempt: int
    kind: str
    message: str
    traceback: str | None = None
    at: datetime | None = None


class Progress(msgspec.Struct, frozen=True):
    """How far a job says it is; `checkpoint` (JSON) survives retries."""

    fraction: float | None = None
    message: str | None = None
    checkpoint: str | None = None
    at: datetime | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the store knows about one job."""

    id: JobId
    task: str
    queue: str
    state: JobState
    priority: int
    args: str
    policy: str
    created_at: datetime
    attempts: int
    crashes: int
    fence: int
    tags: tuple[str, ...] = ()
    headers: str | None = None
    unique_key: str | None = None
    deadline_at: datetime | None = None
    due_at: datetime | None = None
    worker_id: WorkerId | None = None
    claimed_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    result: str | None = None
    reason: str | None = None
    progress: Progress | None = None
    errors: tuple[ErrorEntry, ...] = ()

    @property
    def max_attempts(self) -> int | None:
        """None where this version cannot read the job's policy."""
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
