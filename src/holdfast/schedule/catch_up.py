"""Catch-up: which plans are due, and which of them fire. Pure.

| catch-up | due and not late | due and late |
|---|---|---|
| latest | the newest fires, those before it are coalesced into it | if the newest is late: missed |
| all | each fires, oldest first, at most `cap` per evaluation | missed (late: window or lateness) |
| none | each fires that is on time (`lateness`, or a minute) | missed |

Every due plan is accounted for. Of the plans that do not fire, the newest `cap` get a row each. If
there are more, one row at the newest of the older plans stands for all of these and says so: a
schedule of every minute that nobody evaluated for years leaves a hundred rows, not millions. Plans
that would fire but exceed the cap stay due, and the next evaluation continues with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import assert_never

import msgspec

from holdfast.schedule.model import CatchUp, Decision, Definition
from holdfast.schedule.rule import Times, between, bounded, shift_of, times_of
from holdfast.schedule.zone import MICRO

ON_TIME_SECONDS = 60.0
"""How late a plan may be with catch-up `none` when no lateness was chosen."""


class DecidedPlan(msgspec.Struct, frozen=True):
    """One plan time and what catch-up decided about it."""

    at: datetime
    decision: Decision
    reason: str = ""


class Due(msgspec.Struct, frozen=True):
    """The due plans of one scope in order of time. `more`: the cap left some for the next
    evaluation."""

    plans: tuple[DecidedPlan, ...] = ()
    more: bool = False

    @property
    def newest_fired(self) -> datetime | None:
        """The last plan that is to fire, if any is."""
        backwards = reversed(self.plans)
        return next((plan.at for plan in backwards if plan.decision is Decision.FIRED), None)


class Pause(msgspec.Struct, frozen=True):
    """Plans due after `since`, up to `until` (None: the pause goes on), are skipped. A plan that
    was due before the pause is not skipped: an evaluation at its time would have fired it."""

    since: datetime
    until: datetime | None = None


class Outside:
    """The times of a rule without those later than `since`, up to and including `until`."""

    def __init__(self, times: Times, since: datetime, until: datetime) -> None:
        self._times = times
        self._since, self._until = since, until

    def after(self, moment: datetime) -> datetime | None:
        found = self._times.after(moment)
        return self._times.after(self._until) if self._inside(found) else found

    def before(self, moment: datetime) -> datetime | None:
        found = self._times.before(moment)
        return self._times.before(self._since + MICRO) if self._inside(found) else found

    def _inside(self, moment: datetime | None) -> bool:
        return moment is not None and self._since < moment <= self._until


def due_plans(
    definition: Definition,
    name: str,
    last: datetime | None,
    since: datetime,
    now: datetime,
    *,
    pause: Pause | None = None,
    times: Times | None = None,
) -> Due:
    """Every plan of one scope that is due by `now` and not recorded yet.

    `last` is the newest recorded plan of the scope, `since` the time from which the rule counts.
    Plans later than both are found. `times` replaces the times of the rule by those that a planner
    computed.
    """
    shift = shift_of(definition.rule, name)
    times = bounded(times, definition.rule) if times else times_of(definition.rule)
    horizon = now - shift
    after = since - shift if last is None else max(last, since - shift)
    if pause is None:
        return _caught_up(definition, times, after, horizon)
    since = pause.since - shift
    until = horizon if pause.until is None else min(horizon, pause.until - shift)
    due = _caught_up(definition, Outside(times, since, until), after, horizon)
    skipped = _accounted(
        times, max(after, since), until, definition.cap, Decision.SKIPPED, "paused"
    )
    return _merged(due, skipped)


def _merged(due: Due, skipped: list[DecidedPlan]) -> Due:
    """Both in order of time. If the cap left plans behind, skipped plans after them are left too:
    recording one would move the cursor past the plans that are still due."""
    if due.more:
        skipped = [plan for plan in skipped if plan.at < due.plans[-1].at]
    return Due(tuple(sorted((*due.plans, *skipped), key=lambda plan: plan.at)), due.more)


def too_late(definition: Definition, name: str, at: datetime, now: datetime) -> str | None:
    """Why a plan that could not be started before may not be started any more, or None."""
    limit = definition.lateness
    if limit is None and definition.catch_up is CatchUp.NONE:
        limit = ON_TIME_SECONDS
    if limit is None or now - shift_of(definition.rule, name) - at <= timedelta(seconds=limit):
        return None
    return _late(limit)


def _caught_up(definition: Definition, times: Times, after: datetime, horizon: datetime) -> Due:
    match definition.catch_up:
        case CatchUp.LATEST:
            return Due(tuple(_latest(definition, times, after, horizon)))
        case CatchUp.ALL:
            window, lateness = definition.window, definition.lateness
            if lateness is None or window < lateness:
                reason = f"older than the window of {window:g} s"
                return _within(definition, times, after, horizon, window, reason)
            return _within(definition, times, after, horizon, lateness, _late(lateness))
        case CatchUp.NONE:
            limit = ON_TIME_SECONDS if definition.lateness is None else definition.lateness
            return _within(definition, times, after, horizon, limit, _late(limit))
    assert_never(definition.catch_up)


def _latest(
    definition: Definition, times: Times, after: datetime, horizon: datetime
) -> Iterator[DecidedPlan]:
    newest = times.before(horizon + MICRO)
    if newest is None or newest <= after:
        return
    limit, cap = definition.lateness, definition.cap
    if limit is not None and horizon - newest > timedelta(seconds=limit):
        yield from _accounted(times, after, newest, cap, Decision.MISSED, _late(limit))
        return
    into = f"coalesced into {_shown(newest)}"
    yield from _accounted(times, after, newest - MICRO, cap, Decision.COALESCED, into)
    yield DecidedPlan(newest, Decision.FIRED)


def _within(
    definition: Definition,
    times: Times,
    after: datetime,
    horizon: datetime,
    limit: float,
    reason: str,
) -> Due:
    """Plans not older than the limit fire, oldest first, up to the cap. Older plans are missed."""
    edge = max(after, horizon - timedelta(seconds=limit) - MICRO)
    missed = _accounted(times, after, edge, definition.cap, Decision.MISSED, reason)
    young = list(islice(between(times, edge, horizon), definition.cap + 1))
    fired = [DecidedPlan(at, Decision.FIRED) for at in young[: definition.cap]]
    return Due((*missed, *fired), len(young) > definition.cap)


def _accounted(
    times: Times, after: datetime, until: datetime, cap: int, decision: Decision, reason: str
) -> list[DecidedPlan]:
    """Rows for plans that do not fire: the newest `cap`, and one row for all plans before them."""
    rows: list[DecidedPlan] = []
    moment = times.before(until + MICRO)
    while moment is not None and moment > after and len(rows) < cap:
        rows.append(DecidedPlan(moment, decision, reason))
        moment = times.before(moment)
    if moment is not None and moment > after:
        first = times.after(after)
        if first is None or first == moment:
            rows.append(DecidedPlan(moment, decision, reason))
        else:
            span = f"stands for every plan from {_shown(first)} to {_shown(moment)}: {reason}"
            rows.append(DecidedPlan(moment, Decision.MISSED, span))
    return rows[::-1]


def _late(limit: float) -> str:
    return f"late by more than {limit:g} s"


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
