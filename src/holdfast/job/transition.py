"""A move of a job, as data: what `decide` answers with and a store applies.

A transition says where the job must be and with which fence, where it goes, and all that is written
with the move. It knows no policy: `holdfast.job.outcome` makes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import msgspec

from holdfast.job.ids import JobId
from holdfast.job.record import ErrorEntry
from holdfast.job.state import ENDED, UNDONE, JobState, require_legal
from holdfast.job.step import StepRecord
from holdfast.job.ties import BEGUN, BINDING, NO_TIES, NODE, PERMITS
from holdfast.job.what import OF_ENDED, What

SIGNAL_IS_THERE = "what it waits for is there already"
_ONLY_RETURNED = (JobState.SUCCEEDED, JobState.RUNNING, 1, 0, 0, None, None, None, None, ())


class Settles(StrEnum):
    """What becomes of a reserved part of a budget that no report settles, when an attempt ends."""

    UNBEGUN = "unbegun"  # nothing was done: all is given back, also to rates
    ESTIMATE = "estimate"  # it returned: the reservation is spent
    CHARGE = "charge"  # it failed: the budget says whether the reservation is spent
    REFUND = "refund"  # it did not end by its own fault, or goes on later


class Transition(msgspec.Struct, frozen=True, gc=False):
    """One guarded move. It applies only while the job is in `source` with this `fence`.

    `spend` and `crash` add to the job's counters. `bump` makes the fence grow although no claim
    happens: the attempt was taken from its worker, and a late write by that worker must find a
    newer fence. A move to scheduled is due after `delay` by the store's clock, or at `run_at`. An
    ended job is kept for `keep_for` seconds, None for ever. `ties` are those of the job: a store
    takes a shorter way only where one of the predicates `is_plain_success…` allows it. `drains`
    names a limit: the bucket of it that the job passes is shut for `delay`; if there is no such
    limit, the queue cools down as long. `why` is the word for a move to a live state. `by` names
    the operator who asked for the move. `steps` are records of the attempt that are written with
    its end. `spent` is what the attempt has spent of budgets in all, by limit. An attempt that has
    not `begun` gives back what rates have counted.
    """

    id: JobId
    fence: int
    to: JobState
    source: JobState = JobState.RUNNING
    spend: int = 0
    crash: int = 0
    bump: int = 0
    delay: float | None = None
    run_at: datetime | None = None
    keep_for: float | None = 0.0
    result: str | None = None
    reason: str | None = None
    error: ErrorEntry | None = None
    cool: float | None = None
    drains: str | None = None
    ties: int = NO_TIES
    why: What | None = None
    by: str | None = None
    steps: tuple[StepRecord, ...] = ()
    spent: tuple[tuple[str, int], ...] = ()
    begun: bool = True

    @property
    def settles(self) -> Settles:
        """What becomes of what the attempt has reserved of budgets and not reported."""
        if not self.begun:
            return Settles.UNBEGUN
        if self.to is JobState.SUCCEEDED:
            return Settles.ESTIMATE
        failed = self.to in UNDONE or self.why in (What.RETRIED, What.TIMED_OUT)
        return Settles.CHARGE if failed and not self.crash else Settles.REFUND

    @property
    def gained(self) -> int:
        """The ties that the job gets by the move: its attempt has begun, and the job goes on."""
        goes_on = self.source is JobState.RUNNING and self.to not in ENDED
        return BEGUN if self.begun and goes_on else NO_TIES

    @property
    def what(self) -> What:
        """The word under which a store counts the move."""
        word = OF_ENDED.get(self.to, self.why)
        if word is None:
            raise TypeError(f"a move to {self.to} must say why")
        return word

    @property
    def message(self) -> str | None:
        """What the happening of this move says beside its word."""
        if self.error is not None:
            return self.error.message
        return None if self.reason == self.what.replace("_", " ") else self.reason

    @property
    def awaits(self) -> frozenset[str]:
        """The signals that the job is to be suspended for."""
        if self.to is not JobState.SUSPENDED:
            return frozenset()
        return frozenset(one.awaits for one in self.steps if one.awaits is not None)

    def without_wait(self) -> Transition:
        """The move of a job that is not suspended after all: what it waits for is there."""
        return msgspec.structs.replace(
            self, to=JobState.READY, delay=None, reason=SIGNAL_IS_THERE, why=What.RESUMED
        )

    @property
    def is_plain_success(self) -> bool:
        """Whether an untied job returned and nothing else has to be written. Nearly all ends are
        like this, and a store may have a shorter way for them."""
        return not self.ties & BINDING and self._only_returned

    @property
    def is_plain_success_of_node(self) -> bool:
        """The same of a job that is tied to nothing but its flow."""
        return self.ties & BINDING == NODE and self._only_returned

    @property
    def is_plain_success_with_permits(self) -> bool:
        """The same of a job that is tied to nothing but what limits have counted of it."""
        return self.ties & BINDING == PERMITS and self._only_returned

    @property
    def _only_returned(self) -> bool:
        """Asked of every end, so it is one comparison and not ten."""
        return (
            self.to,
            self.source,
            self.spend,
            self.crash,
            self.bump,
            self.reason,
            self.error,
            self.cool,
            self.drains,
            self.steps,
        ) == _ONLY_RETURNED


def require_legal_moves(transitions: Iterable[Transition]) -> None:
    """Every store calls this before it applies moves other than plain successes."""
    for move in transitions:
        require_legal(move.source, move.to)
