"""The vocabulary of schedules: the rule, the plan, and the ledger that accounts for each plan.

A *schedule* is a rule for plan times; a *plan* is one due instant of it, for one scope. For every
plan that was ever due the ledger holds exactly one row, which says what was decided and why. That
row is written in the same transaction as the job it starts, and being unique it is the lock.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from functools import lru_cache

import msgspec

from holdfast.errors import BadOption
from holdfast.job.ids import JobId
from holdfast.job.policy import DAY
from holdfast.job.record import NewJob
from holdfast.job.state import JobState

NO_SCOPE = ""


class CatchUp(StrEnum):
    """What becomes of plans that were due while nobody looked."""

    LATEST = "latest"  # the newest fires, those before it are coalesced into it
    ALL = "all"  # each fires, oldest first, within the window and the cap
    NONE = "none"  # only a plan that is not late fires


class Overlap(StrEnum):
    """What becomes of a plan whose predecessor in the same scope has not ended."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"  # at most one waits behind the one that runs
    REPLACE = "replace"  # the predecessor is cancelled


class OnCrash(StrEnum):
    """Whether a plan may be entered again after its worker was lost."""

    RETRY = "retry"
    FAIL = "fail"


class Decision(StrEnum):
    """What was decided about one plan."""

    FIRED = "fired"
    COALESCED = "coalesced"
    SKIPPED = "skipped"
    MISSED = "missed"
    FAILED = "failed"  # it could not be started; tried again until it can or is too late
    WAITING = "waiting"  # it starts when its predecessor has ended (overlap: queue one)


DECLARED_FOR = 1_500.0
"""Seconds that a declaration counts: a program declares when it starts and every ten minutes."""
OPEN = frozenset({Decision.FAILED, Decision.WAITING})
"""Decisions that are not final: a later one may overwrite them."""


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """When: a cron expression in a time zone, or every so many seconds from an anchor."""

    cron: str | None = None
    timezone: str = "UTC"
    every: float | None = None
    anchor: datetime | None = None
    delay: float = 0.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.every is None):
            got = "neither" if self.cron is None else "both"
            raise BadOption("schedule", "either a cron expression or every=…", got)
        if self.every is not None and self.timezone != "UTC":
            raise BadOption("timezone", "left out with every=…, which knows no wall clock", "both")
        if self.every is not None and not 1 <= self.every < 36_500 * DAY:
            raise BadOption("every", "at least 1 second", self.every)


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a schedule says, as it is stored (JSON). `options` are the enqueue options of
    its jobs, frozen as a policy and the plain columns of a NewJob."""

    rule: Rule
    task: str
    queue: str
    args: str = "{}"
    policy: str = "{}"
    priority: int = 0
    tags: tuple[str, ...] = ()
    headers: str | None = None
    catch_up: CatchUp = CatchUp.LATEST
    window: float = DAY
    cap: int = 100
    lateness: float | None = None
    overlap: Overlap = Overlap.ALLOW
    on_crash: OnCrash = OnCrash.RETRY
    scope_as: str | None = None  # the argument that takes the scope
    plan_as: str | None = None  # the argument that takes the plan time
    deadline: float | None = None  # seconds after its start by which a job must have ended
    scopes: str | None = None  # the name of a provider registered in code
    planner: str | None = None  # the name of a planner hook registered in code
    keep: float = 30 * DAY  # retention of its ledger rows


_definition_encoder = msgspec.json.Encoder()
_definition_decoder = msgspec.json.Decoder(Definition)


def encode_definition(definition: Definition | Rule) -> str:
    """Equal definitions (and rules) give equal texts, so stores compare texts."""
    return _definition_encoder.encode(definition).decode()


@lru_cache(maxsize=16_384)
def decode_definition(text: str) -> Definition:
    """Definitions seldom change and are listed at every evaluation.

    One that this program cannot read, because a newer one wrote it, must not hide the others:
    it becomes a definition of no task whose rule is the complaint, so that whoever evaluates it
    finds a bad expression and shows it on this schedule alone.
    """
    try:
        return _definition_decoder.decode(text)
    except (msgspec.DecodeError, BadOption) as error:
        return Definition(Rule(cron=f"unreadable by this program: {error}"), task="", queue="")


class Schedule(msgspec.Struct, frozen=True):
    """One schedule as the store holds it.

    `edited` says that an operator changed it: code no longer overwrites it. `declared_at` is when
    a deployment last declared it; None means that it was made at run time. `revision` grows with
    every change of its definition or of whether it is paused. `error` is what keeps it from being
    evaluated now, if anything does, and `error_at` since when. Plans after `paused_at` up to
    `resumed_at` (None: it still is paused, or never was) fell into its last pause. `changed_at`
    is when its *rule* last became another (a change of anything else leaves it): plans of the new
    rule begin there; None if it never did. `rival` is what an older program that still ran at
    `rival_at` declares instead. `pruned_from` and `pruned_until` are the oldest and the newest plan
    that fired and whose row was pruned since: between them nobody knows what fired.
    """

    name: str
    definition: Definition
    paused: bool
    edited: bool
    revision: int
    created_at: datetime
    declared_at: datetime | None
    error: str | None = None
    error_at: datetime | None = None
    paused_at: datetime | None = None
    resumed_at: datetime | None = None
    changed_at: datetime | None = None
    rival: Definition | None = None
    rival_at: datetime | None = None
    pruned_from: datetime | None = None
    pruned_until: datetime | None = None

    @property
    def counts_from(self) -> datetime:
        """Plans of the rule begin after this time: its creation, or the last change of its rule."""
        return max(filter(None, (self.created_at, self.changed_at)))

    @property
    def version(self) -> tuple[datetime, int]:
        """Differs from that of any other state of it, and of one that was made under its name
        after it was deleted: that one's revision begins at 1 again."""
        return self.created_at, self.revision


class Plan(msgspec.Struct, frozen=True):
    """One plan with its decision, to be recorded; `job` starts with it when it fires.

    `cancel` are predecessors to cancel with it (overlap: replace). `moves_cursor` is False for
    what an operator started out of turn: what was due before it must not be passed over, and
    it may overwrite a row that started no job (a plan that was missed is made up for). `beside` are
    the unfinished jobs of its scope that the decision rests on: if they are others by the time it
    is recorded it is refused, and must be decided anew. None: it rests on none.
    """

    schedule: str
    scope: str
    at: datetime
    decision: Decision
    reason: str = ""
    job: NewJob | None = None
    cancel: tuple[JobId, ...] = ()
    moves_cursor: bool = True
    beside: tuple[JobId, ...] | None = None


class LedgerEntry(msgspec.Struct, frozen=True):
    """One row of the ledger, with what became of its job as far as the store still knows."""

    schedule: str
    scope: str
    at: datetime
    decision: Decision
    reason: str
    recorded_at: datetime
    job_id: JobId | None = None
    state: JobState | None = None
    attempts: int | None = None
    claimed_at: datetime | None = None
    finished_at: datetime | None = None
    result: str | None = None
    error: str | None = None
