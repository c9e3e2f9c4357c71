"""Buckets as Python sees them, and the calendars that scripts count budgets by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.limits.admission import Bucket
from holdfast.limits.model import Budget, Settings, from_json
from holdfast.store.valkey.rows import known, nested, pack, to_bucket_row, to_rule_row

KNOWN_PERIODS = 800
"""How many periods a script knows ahead: more than two years of days, a month of hours. A recount
adds those that have come nearer."""


def to_bucket(name: str, rule: bytes | None, blob: bytes) -> Bucket:
    row = to_bucket_row(blob)
    defined = None if rule is None else to_rule_row(rule)
    override, slices = known(row.override), known(row.slices) or []
    return Bucket(
        name,
        None if defined is None else from_json(override or defined.settings),
        override is not None,
        defined is not None and defined.retired,
        row.in_use,
        known(row.shut_until),
        row.has_waiting,
        known(row.needs),
        row.spent,
        row.since,
        row.scale,
        dict(zip(slices[::2], slices[1::2], strict=True)),
        row.alarms,
    )


def calendars_of(settings: Iterable[Settings | None], now: int) -> list[object]:
    """The calendars of these budgets: a name, and packed when its periods begin, … Scripts know
    neither time zones nor months."""
    found = {
        f"{one.every} {one.timezone}"
        for one in settings
        if isinstance(one, Budget) and isinstance(one.every, str)
    }
    return [word for name in sorted(found) for word in (name, nested(calendar(name, now)))]


def calendar(name: str, now: int) -> bytes:
    """When the periods of a calendar begin."""
    every: Any
    every, _, timezone = name.partition(" ")
    return pack(_starts(Budget(0, every=every, timezone=timezone), now))


def _starts(budget: Budget, now: int) -> list[int]:
    """From the period before this one on: a server's clock may be set back."""
    this = budget.period(now)
    starts = [budget.period(this.start - 1).start]
    while len(starts) < KNOWN_PERIODS:
        assert this.end is not None, "a calendar goes on"
        starts.append(this.start)
        this = budget.period(this.end)
    return starts
