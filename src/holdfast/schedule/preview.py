"""Future plans for people to read: in UTC and in local time, with what a change of clocks does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import msgspec

from holdfast.job.zones import zone_of
from holdfast.schedule.model import Rule
from holdfast.schedule.rule import (
    ElapsedCron,
    WallCron,
    between,
    endless_times,
    shift_of,
    times_of,
)
from holdfast.schedule.zone import MICRO, is_jump, last_change, offset_at, wall_at

PREVIEW_SPAN = timedelta(days=366 * 60)
"""How far ahead plans are searched if a preview has no end."""


class Previewed(msgspec.Struct, frozen=True):
    """One plan: its instant, its local time, when it is due, and a note on a change of clocks.

    `note` is `gap` if the wall clock skips the time, so that the plan was moved to the end of the
    gap. It is `fold 1` or `fold 2` for the first or second pass of a time that comes twice.
    """

    at: datetime
    local: datetime
    due: datetime
    note: str = ""


def preview(
    rule: Rule, name: str, since: datetime, until: datetime | None, limit: int
) -> list[Previewed]:
    """At most `limit` plans from `since` up to `until`."""
    times, zone, shift = times_of(rule), zone_of(rule.timezone), shift_of(rule, name)
    start = since.astimezone(UTC) - MICRO
    moments = between(times, start, until.astimezone(UTC) if until else start + PREVIEW_SPAN)
    return [
        Previewed(at, at.astimezone(zone), at + shift, note_on(rule, at))
        for at in islice(moments, limit)
    ]


def note_on(rule: Rule, at: datetime) -> str:
    """What a change of clocks does to this plan, as in `Previewed.note`."""
    times = endless_times(rule)
    if isinstance(times, WallCron) and _moved_from_gap(times, at):
        return "gap"
    if isinstance(times, WallCron | ElapsedCron):
        return _pass_of_fold(times.zone, at)
    return ""


def _moved_from_gap(times: WallCron, at: datetime) -> bool:
    if last_change(times.zone, at - MICRO, at) is None or is_jump(times.zone, at):
        return False
    before = offset_at(times.zone, at - MICRO)
    gap_start, gap_end = (at + before).replace(tzinfo=None), wall_at(times.zone, at)
    skipped = times.cron.after(gap_start - MICRO)
    return skipped is not None and skipped < gap_end


def _pass_of_fold(zone: ZoneInfo, at: datetime) -> str:
    local = at.astimezone(zone)
    first, second = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    if first is None or second is None or first <= second:
        return ""  # no fold: the two offsets are equal, or (in a gap) the second is larger
    return "fold 2" if local.fold else "fold 1"
