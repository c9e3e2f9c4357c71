"""Periods of budgets: the server computes them, with time zones of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from holdfast.errors import BadOption, RowRefused
from holdfast.limits import model
from holdfast.limits.model import Budget
from holdfast.limits.periods import Period, period_at
from holdfast.schedule.zone import changes
from holdfast.store.contract.limits import Limits
from tests.stores.postgres.shared import connected, opened

UNKNOWN = "Mars/Phobos"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PERIODS = (
    "select zone, (holdfast.period_of(jsonb_build_object('every', 'day', 'timezone', zone), $2)).*"
    " from unnest($1::text[]) as zone"
)
HOURS = (
    "select at, (holdfast.period_of(settings, at)).*"
    " from jsonb_build_object('every', 'hour', 'timezone', $1::text) as settings,"
    " unnest($2::timestamptz[]) as at"
)


async def declare(limits: Limits, budget: Budget) -> None:
    await limits.declare({"tokens": budget})


async def put(limits: Limits, budget: Budget) -> None:
    await limits.put("tokens", budget)


async def override(limits: Limits, budget: Budget) -> None:
    await limits.override("known", "acme", budget)


@pytest.mark.parametrize("verb", [declare, put, override])
async def test_a_zone_that_the_server_does_not_know_is_refused_before_a_claim_meets_it(
    url: str, monkeypatch: pytest.MonkeyPatch, verb: Callable[[Limits, Budget], Awaitable[None]]
) -> None:
    """A server may be older than a zone that Python knows."""
    monkeypatch.setattr(model, "zone_named", lambda name: ZoneInfo("UTC"))
    budget = Budget(5, every="day", timezone=UNKNOWN)
    async with opened(url) as store:
        await store.limits.declare({"known": Budget(5, every="day", timezone="Europe/Berlin")})
        with pytest.raises(RowRefused, match=f'time zone "{UNKNOWN}" not recognized'):
            await verb(store.limits, budget)


@pytest.mark.parametrize("month", [1, 7])
async def test_days_of_every_zone_that_a_budget_takes_begin_as_in_other_stores(
    url: str, month: int
) -> None:
    """Some names of zones are abbreviations for the server, which have no summer time."""
    now = datetime(2026, month, 15, 12, 30, tzinfo=UTC)
    ours = dict[str, Period]()
    for zone in available_timezones():
        try:
            budget = Budget(1, every="day", timezone=zone)
        except BadOption:
            continue
        ours[zone] = budget.period(round(now.timestamp()) * 1_000_000)
    async with opened(url), connected(url) as server:
        known = await server.fetch("select name from pg_timezone_names")
        asked = sorted(ours.keys() & {name for (name,) in known})
        theirs = await server.fetch(PERIODS, asked, now)
    assert {zone: (start, stop) for zone, start, stop in theirs} == {z: ours[z] for z in asked}
    assert len(asked) > 300


@pytest.mark.parametrize(
    "zone", ["Australia/Lord_Howe", "Europe/Berlin", "Antarctica/Troll", "Asia/Kathmandu"]
)
async def test_hours_around_every_change_of_a_clock_are_those_of_other_stores(
    url: str, zone: str
) -> None:
    around = [
        change + timedelta(minutes=minutes, microseconds=micros)
        for change in changes(ZoneInfo(zone), 2026) or [datetime(2026, 7, 1, tzinfo=UTC)]
        for minutes in range(-180, 180, 15)
        for micros in (-1, 0, 1)
    ]
    async with opened(url), connected(url) as server:
        theirs = await server.fetch(HOURS, zone, around)
    micros = [(at - EPOCH) // timedelta(microseconds=1) for at in around]
    ours = [period_at("hour", zone, at) for at in micros]
    assert [(start, stop) for _, start, stop in theirs] == ours
