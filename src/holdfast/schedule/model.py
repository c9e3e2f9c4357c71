"""The vocabulary of schedules: the rule, the plan, and the ledger that accounts for each plan.

A *schedule* is a rule for plan times. A *plan* is one due instant of a schedule, for one scope. The
ledger accounts for every plan that was ever due, with a row that says what was decided and why. The
row is written in the same transaction as the job that the plan starts. It is unique by schedule,
scope and plan time, and that makes it the lock: a plan fires once.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.errors import BadOption
from holdfast.job.ids import JobId
from holdfast.job.json_text import shown_value
from holdfast.job.line_rule import LineRule
from holdfast.job.policy import DAY
from holdfast.job.record import NewJob
from holdfast.job.state import JobState

NO_SCOPE = ""


class CatchUp(StrEnum):
    """What becomes of plans that were due while no replica evaluated the schedule."""

    LATEST = "latest"  # the newest fires, the plans before it are coalesced into it
    ALL = "all"  # each fires, oldest first, within the window and the cap
    NONE = "none"  # only plans that are not late fire


class Overlap(StrEnum):
    """What becomes of a plan whose predecessor in the same scope has not ended."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"  # at most one plan waits for the predecessor to end
    REPLACE = "replace"  # the predecessor is cancelled


class OnCrash(StrEnum):
    """Whether the job of a plan may run again after its worker died."""

    RETRY = "retry"
    FAIL = "fail"


class Decision(StrEnum):
    """What was decided about one plan."""

    FIRED = "fired"
    COALESCED = "coalesced"
    SKIPPED = "skipped"
    MISSED = "missed"
    FAILED = "failed"  # it could not be started; tried again until it starts or is too late
    WAITING = "waiting"  # it starts when its predecessor has ended (overlap: queue one)


DECLARATION_SECONDS = 1_500.0
"""How long a declaration counts. A program declares when it starts and every ten minutes."""
OPEN = frozenset({Decision.FAILED, Decision.WAITING})
"""Decisions that are not final: a later decision may overwrite them."""


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """When plans are: at the times of a cron expression in a time zone, or every so many seconds
    from an anchor; none before `start` or after `end`. A plan is due `delay` seconds after its
    time, and up to `jitter` seconds later, always the same for one schedule."""

    cron: str | None = None
    timezone: str = "UTC"
    every: float | None = None
    anchor: datetime | None = None
    delay: float = 0.0
    jitter: float = 0.0
    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.every is None):
            got = "neither" if self.cron is None else "both"
            raise BadOption("schedule", "either a cron expression or every=…", got)
        if self.every is not None and self.timezone != "UTC":
            raise BadOption("timezone", "left out with every=…, which knows no wall clock", "both")
        if self.every is not None and not 1 <= self.every < 36_500 * DAY:
            raise BadOption("every", "at least 1 second", self.every)
        if self.start is not None and self.end is not None and self.start > self.end:
            raise BadOption("start", f"not later than end ({self.end.isoformat()})", self.start)


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a schedule says, as it is stored (JSON). `queue`, `args`, `policy`, `priority`,
    `tags` and `headers` are those of every job that it starts."""

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
    deadline: float | None = None  # seconds within which a job must end, or start: see its policy
    scopes: str | None = None  # the name of a provider registered in code
    planner: str | None = None  # the name of a planner hook registered in code
    keep: float = 30 * DAY  # seconds for which its ledger rows are kept
    line: LineRule | None = None  # the limits that its jobs pass


_definition_encoder = msgspec.json.Encoder()
_definition_decoder = msgspec.json.Decoder(Definition)


def encode_definition(definition: Definition | Rule) -> str:
    """Equal definitions give equal texts, and so do equal rules: stores compare the texts."""
    return _definition_encoder.encode(definition).decode()


@lru_cache(maxsize=16_384)
def decode_definition(text: str) -> Definition:
    """Decode a stored definition. Cached: definitions seldom change and are read at every
    evaluation.

    A definition that this program cannot read, because a newer program wrote it, must not hide the
    others. It becomes a definition without a task, and the error is its cron expression. Its
    evaluation fails on that expression and shows the error on this schedule alone.
    """
    try:
        return _definition_decoder.decode(text)
    except (msgspec.DecodeError, BadOption) as error:
        return Definition(Rule(cron=f"unreadable by this program: {error}"), task="", queue="")


class Schedule(msgspec.Struct, frozen=True):
    """One schedule as the store holds it.

    - `edited`: an operator changed it, and code no longer overwrites it.
    - `declared_at`: when a program last declared it. None: it was made at run time.
    - `revision` grows with every change of the definition, with every pause and every resume.
    - `error`: what keeps the schedule from being evaluated now, if anything does; `error_at`: since
      when.
    - `paused_at`, `resumed_at`: plans after the first, up to the second, fell into the last pause.
      None in the second: it is still paused, or never was.
    - `changed_at`: when its *rule* last changed (changes of other fields do not count). Plans of
      the new rule begin there. None: the rule never changed.
    - `rival`: how an older program that still ran at `rival_at` declares the schedule differently.
    - `pruned_from`, `pruned_until`: the oldest and the newest plan that fired and whose row was
      pruned. Between them the ledger no longer knows which plans fired.
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
        """Different for every state of the schedule. The revision alone is not: a schedule that is
        deleted and made again under the same name begins at revision 1."""
        return self.created_at, self.revision


class Plan(msgspec.Struct, frozen=True):
    """One plan with its decision, to be recorded. `job` is inserted with it when it fires.

    - `cancel`: predecessors that are cancelled with it (overlap: replace).
    - `moves_cursor`: False for a plan that an operator fires out of turn (trigger, backfill). Plans
      that were due before it stay due, and it may overwrite a row that started no job: a missed
      plan is made up for.
    - `beside`: the unfinished jobs of its scope that the decision depends on. If other jobs are
      unfinished when the plan is recorded, the store refuses it, and it must be decided again.
      None: the decision depends on no jobs.
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
    """One row of the ledger. `state` and the fields after it are about its job: None if there was
    no job, or if the store no longer has it."""

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
    result_json: str | None = None
    error: str | None = None

    @property
    def result(self) -> Any:
        """What its job returned, as a JSON value."""
        return shown_value(self.result_json)
