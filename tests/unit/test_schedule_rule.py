"""The two days a year on which wall clocks lie, each case by name; and what expressions may say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.errors import BadOption
from holdfast.schedule.model import Rule
from holdfast.schedule.preview import preview
from holdfast.schedule.rule import between, times_of


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def plans(cron: str, zone: str, after: str, until: str) -> list[str]:
    found = between(times_of(Rule(cron=cron, timezone=zone)), at(after), at(until))
    return [f"{moment:%dT%H:%M}" for moment in found]


def test_a_time_in_the_gap_fires_when_the_gap_ends() -> None:
    found = plans("30 2 * * *", "Europe/Berlin", "2027-03-27T12:00", "2027-03-29T12:00")
    assert found == ["28T01:00", "29T00:30"]


def test_several_times_in_one_gap_fire_once() -> None:
    found = plans("0,20,40 2 * * *", "Europe/Berlin", "2027-03-27T12:00", "2027-03-28T12:00")
    assert found == ["28T01:00"]


def test_a_star_for_the_minutes_means_elapsed_time_as_in_vixie_cron() -> None:
    gap = plans("*/20 2 * * *", "Europe/Berlin", "2027-03-27T12:00", "2027-03-29T12:00")
    assert gap == ["29T00:00", "29T00:20", "29T00:40"]
    fold = plans("*/30 2 * * *", "Europe/Berlin", "2027-10-30T12:00", "2027-10-31T12:00")
    assert fold == ["31T00:00", "31T00:30", "31T01:00", "31T01:30"]
    stepped = plans("0 */2 * * *", "Europe/Berlin", "2027-03-28T00:00", "2027-03-28T03:00")
    assert stepped == ["28T01:00", "28T02:00"], "a step in the hours names hours"


def test_a_time_in_the_fold_fires_the_first_time_only() -> None:
    found = plans("30 2 * * *", "Europe/Berlin", "2027-10-30T12:00", "2027-11-01T12:00")
    assert found == ["31T00:30", "01T01:30"]


def test_an_hourly_plan_goes_on_every_hour_through_the_gap() -> None:
    found = plans("30 * * * *", "Europe/Berlin", "2027-03-27T23:00", "2027-03-28T02:00")
    assert found == ["27T23:30", "28T00:30", "28T01:30"]


def test_an_hourly_plan_goes_on_every_hour_through_the_fold() -> None:
    found = plans("30 * * * *", "Europe/Berlin", "2027-10-30T23:00", "2027-10-31T02:00")
    assert found == ["30T23:30", "31T00:30", "31T01:30"]


def test_a_gap_at_midnight_moves_midnight() -> None:
    found = plans("0 0 * * *", "America/Santiago", "2027-09-04T12:00", "2027-09-06T12:00")
    assert found == ["05T04:00", "06T03:00"]


def test_half_an_hour_of_summer_time_is_half_an_hour() -> None:
    gap = plans("15 2 * * *", "Australia/Lord_Howe", "2027-10-02T06:00", "2027-10-03T18:00")
    assert gap == ["02T15:30", "03T15:15"]
    fold = plans("45 1 * * *", "Australia/Lord_Howe", "2027-04-03T06:00", "2027-04-04T18:00")
    assert fold == ["03T14:45", "04T15:15"]


def test_a_search_back_from_the_second_pass_finds_what_the_first_pass_showed() -> None:
    times = times_of(Rule(cron="45 2 * * *", timezone="Europe/Berlin"))
    assert times.before(at("2027-10-31T01:15")) == at("2027-10-31T00:45")


@pytest.mark.parametrize(
    ("zone", "left_out", "noon_before", "noon_after"),
    [
        ("Pacific/Apia", "30 12", "2011-12-29T22:00", "2011-12-30T22:00"),
        ("Pacific/Kwajalein", "21 8", "1993-08-21T00:00", "1993-08-22T00:00"),
        ("Pacific/Kiritimati", "31 12", "1994-12-30T22:00", "1994-12-31T22:00"),
    ],
)
def test_a_day_that_a_zone_left_out_does_not_fire(
    zone: str, left_out: str, noon_before: str, noon_after: str
) -> None:
    """More than three hours are no daylight saving, and no day is made up for."""
    daily = times_of(Rule(cron="0 12 * * *", timezone=zone))
    assert daily.after(at(noon_before)) == at(noon_after)
    assert daily.before(at(noon_after)) == at(noon_before)
    yearly = times_of(Rule(cron=f"0 12 {left_out} *", timezone=zone))
    before = at(noon_before)
    found = yearly.after(before)
    assert found is not None
    assert found.year == before.year + 1
    notes = preview(Rule(cron="0 0 * * *", timezone=zone), "n", before, at(noon_after), 9)
    assert [plan.note for plan in notes] == [""], "the day after begins as any other"


def test_a_clock_that_is_set_back_by_hours_shows_its_times_again() -> None:
    found = plans("0 18 * * *", "Antarctica/Vostok", "1994-01-31T00:00", "1994-02-01T12:00")
    assert found == ["31T11:00", "31T18:00"], "18:00 of the old clock, 18:00 of the new one"


def test_a_zone_that_moves_by_up_to_three_hours_makes_up_for_its_gap() -> None:
    found = plans("30 12 * * *", "Antarctica/Casey", "2018-10-31T00:00", "2020-10-06T00:00")
    assert len(found) == 706


def test_a_preview_marks_the_gap_and_both_passes_of_the_fold() -> None:
    named = Rule(cron="30 2 * * *", timezone="Europe/Berlin")
    elapsed = Rule(cron="30 * * * *", timezone="Europe/Berlin")
    [_, moved, _] = preview(named, "n", at("2027-03-27T00:00"), at("2027-03-29T12:00"), 10)
    assert (moved.note, f"{moved.local:%H:%M %z}") == ("gap", "03:00 +0200")
    fold = preview(elapsed, "n", at("2027-10-31T00:00"), at("2027-10-31T02:00"), 10)
    assert [plan.note for plan in fold] == ["fold 1", "fold 2"]


def test_a_preview_tells_the_delay_apart_from_the_plan_time() -> None:
    rule = Rule(every=300, delay=30)
    [plan] = preview(rule, "n", at("2027-01-01T00:01"), None, 1)
    assert (plan.at, plan.due) == (at("2027-01-01T00:05"), at("2027-01-01T00:05:30"))


@pytest.mark.parametrize(
    ("cron", "first"),
    [
        ("@daily", "2027-01-02T00:00"),
        ("@Hourly", "2027-01-01T13:00"),
        ("0 9 * * MON-FRI", "2027-01-04T09:00"),
        ("0 0 L * *", "2027-01-31T00:00"),
        ("0 0 LW * *", "2027-01-29T00:00"),
        ("0 0 * * fri#2", "2027-01-08T00:00"),
        ("*/20 30 12 * * *", "2027-01-01T12:30"),
        ("0 0 29 feb *", "2028-02-29T00:00"),
        ("0 9 * * sat-sun", "2027-01-02T09:00"),
        ("0 9 * * Fri-Mon", "2027-01-02T09:00"),
        ("0 22-2 * * *", "2027-01-01T22:00"),
        ("0 0 * * 7-2", "2027-01-03T00:00"),
        ("0 0 5 nov-feb *", "2027-01-05T00:00"),
        ("0 0 12 ? * MON", "2027-01-04T12:00"),
        ("0 0 12 15 * ?", "2027-01-15T12:00"),
        ("0 0 L-3 * *", "2027-01-28T00:00"),
        ("0 0 2W * *", "2027-02-02T00:00"),
        ("0 0 10w,L-1W * *", "2027-01-11T00:00"),
        ("0 0 * * friL", "2027-01-29T00:00"),
    ],
)
def test_expressions_of_every_kind_are_read(cron: str, first: str) -> None:
    assert times_of(Rule(cron=cron)).after(at("2027-01-01T12:29:59")) == at(first)


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "61 * * * *", "0 0 31 2 *", "@reboot", "a b c d e"]
)
def test_a_bad_expression_is_told_with_what_was_expected(cron: str) -> None:
    with pytest.raises(BadOption, match="cron must be"):
        times_of(Rule(cron=cron))


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("61 * * * *", "'61' is no minute: it takes 0 to 59"),
        ("0 h * * *", "'h' is no hour: .* use jitter="),
        ("0~30 * * * *", "'0~30' is no minute: .* use jitter="),
        ("0 0 32 * *", "'32' is no day of month"),
        ("0 0 L-31 * *", "it takes L-1 to L-30"),
        ("0 0 1 januar *", "'januar' is no month: it takes 1 to 12 or jan, feb"),
        ("0 0 * * L", "'l' is no weekday"),
        ("0 0 * * mon#6", "'mon#6' is no weekday"),
        ("? * * * *", r"'\?' is no minute"),
        ("*/0 * * * *", "a step is at least 1"),
        ("0 0 12 ? * 2", r"beside '\?' a weekday must be a name"),
        ("0 0 12 * * ? 2027", r"it has 7 fields: .*end="),
        ("@every 5m", "every=timedelta"),
    ],
)
def test_the_error_names_the_field_and_what_it_takes(cron: str, problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        times_of(Rule(cron=cron))


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "Europe"])
def test_a_bad_zone_is_told_with_what_was_expected(zone: str) -> None:
    with pytest.raises(BadOption, match="timezone must be an IANA name"):
        times_of(Rule(cron="@daily", timezone=zone))


def test_plan_times_of_an_interval_do_not_depend_on_when_it_was_declared() -> None:
    found = between(times_of(Rule(every=300)), at("2027-01-01T00:01:17"), at("2027-01-01T00:11"))
    assert [f"{moment:%H:%M}" for moment in found] == ["00:05", "00:10"]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("6-6/12 * * * *", ["01T00:06", "01T01:06"]),
        ("5,6-6/12 * * * *", ["01T00:05", "01T00:06", "01T01:05", "01T01:06"]),
        ("0 1-1/2 * * *", ["01T01:00"]),
        ("6/27 * * * *", ["01T00:06", "01T00:33", "01T01:06", "01T01:33"]),
        ("6-40/17 0 * * *", ["01T00:06", "01T00:23", "01T00:40"]),
        ("0 0 1 jan-jan/3 *", ["01T00:00"]),
    ],
)
def test_a_step_within_a_range_of_one_fires_once(cron: str, expected: list[str]) -> None:
    """As in Vixie cron: the step does not reach beyond the range it is given with."""
    assert plans(cron, "UTC", "2026-12-31T23:59", "2027-01-01T01:59") == expected
