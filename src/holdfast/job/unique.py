"""Unique keys: which jobs count as the same."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Literal, get_args

import msgspec

from holdfast.errors import BadOption
from holdfast.job import checks
from holdfast.job.state import LIVE, JobState

OnConflict = Literal["keep", "replace", "debounce"]
Scope = Literal["task", "queue"]


class Unique(msgspec.Struct, frozen=True):
    """At most one job may hold `key` while it is in one of `states`, and for `period` seconds from
    its insertion in any state, as long as the job is kept.

    `key` carries its scope already (task or queue), so stores compare plain text. A holder of which
    no attempt has begun can be debounced: it gets the newest arguments, and is due at most
    `max_wait` seconds after its insertion.
    """

    key: str
    states: frozenset[JobState] = LIVE
    on_conflict: OnConflict = "keep"
    max_wait: float | None = None
    period: float | None = None


class UniqueBy(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two enqueues the same job.

    Either an explicit `key`, or chosen arguments: `args=("user_id",)`, or
    `args=()` for all of them; one that a call leaves out counts with its
    default. With `scope="task"` (default) keys of different
    tasks never meet; with `scope="queue"` they meet within one queue.

    With a `period` there is at most one job a period: the key is held for so long
    after the insertion of its job, also if the job has ended by then. A job that
    still waits and is replaced does not count: the period begins with its successor.

    With `on_conflict="debounce"` each further call gives the waiting job its own
    arguments and pushes its time out, at most `max_wait` after the first call. Once an
    attempt of the job has begun, a call changes nothing and is answered with that job.
    """

    key: str | None = None
    args: tuple[str, ...] | None = None
    scope: Scope = "task"
    states: frozenset[JobState] = LIVE
    on_conflict: OnConflict = "keep"
    max_wait: float | timedelta | None = None
    period: float | timedelta | None = None

    def __post_init__(self) -> None:
        if (self.key is None) == (self.args is None):
            got = "neither" if self.key is None else "both"
            raise BadOption("unique", "either a key or a choice of args", got)
        if self.key is not None:
            checks.text("unique key", self.key, 512)
        if self.args is not None:
            msgspec.structs.force_setattr(
                self, "args", checks.texts("unique args", self.args, 512, "unique args")
            )
        if self.scope not in get_args(Scope):
            raise BadOption("unique scope", "task or queue", self.scope)
        if self.on_conflict not in get_args(OnConflict):
            raise BadOption("on_conflict", "keep, replace or debounce", self.on_conflict)
        msgspec.structs.force_setattr(self, "states", _states(self.states))
        if self.max_wait is not None:
            self._check_max_wait()
        if self.period is not None:
            period = checks.wait("unique period", self.period, zero=False, otherwise="None, or ")
            msgspec.structs.force_setattr(self, "period", period)

    def _check_max_wait(self) -> None:
        if self.on_conflict != "debounce":
            raise BadOption("max_wait", "left out unless on_conflict is 'debounce'", self.max_wait)
        wait = checks.wait("max_wait", self.max_wait, otherwise="None, or ")
        msgspec.structs.force_setattr(self, "max_wait", wait)


def _states(given: object) -> frozenset[JobState]:
    expected = f"a set of states, such as {{'ready', 'running'}}, out of {', '.join(JobState)}"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadOption("unique states", expected, given)
    named = list(given)
    if not named or not all(isinstance(state, str) and state in _STATES for state in named):
        raise BadOption("unique states", expected, given)
    return frozenset(map(JobState, named))


_STATES = frozenset(JobState)
