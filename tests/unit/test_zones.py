"""The time zones that budgets and schedules take: the same on every machine."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from holdfast import App, BadOption, Budget
from holdfast.schedule.model import Rule
from holdfast.schedule.rule import times_of

OF_THE_MACHINE = ["localtime", "posixrules", "LocalTime", "posix/Europe/Berlin", "right/UTC"]


@pytest.fixture
def all_there(tmp_path: Path) -> Iterator[None]:
    """A machine that has a file for each of these names."""
    utc = files("tzdata").joinpath("zoneinfo/UTC").read_bytes()
    for name in OF_THE_MACHINE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(utc)
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([tmp_path])
    yield
    zoneinfo.reset_tzpath(before)
    ZoneInfo.clear_cache(only_keys=OF_THE_MACHINE)


def budget(zone: str) -> object:
    return Budget(1, every="day", timezone=zone)


def rule(zone: str) -> object:
    return times_of(Rule(cron="@daily", timezone=zone))


def schedule(zone: str) -> object:
    app = App("sqlite://")

    @app.schedule("@daily", timezone=ZoneInfo(zone))
    @app.task
    async def report() -> None: ...

    return app


@pytest.mark.usefixtures("all_there")
@pytest.mark.parametrize("zone", OF_THE_MACHINE)
@pytest.mark.parametrize("declare", [budget, rule, schedule])
def test_a_zone_that_each_machine_sets_as_it_likes_is_refused(
    declare: Callable[[str], object], zone: str
) -> None:
    expected = f"timezone must be an IANA name .*the same zone on every machine, got '{zone}'"
    with pytest.raises(BadOption, match=expected):
        declare(zone)


@pytest.mark.parametrize("declare", [budget, rule, schedule])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Etc/GMT+5"])
def test_a_zone_of_the_database_is_taken(declare: Callable[[str], object], zone: str) -> None:
    declare(zone)
