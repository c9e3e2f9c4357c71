"""Schedules as code declares them, from the decorator to the job that runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from importlib import resources
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from holdfast import App, BadArguments, BadOption, Context, Retry
from holdfast.schedule.model import CatchUp, Decision, OnCrash, Overlap
from holdfast.schedule.plan_job import SCHEDULE
from holdfast.testing import Harness

MONDAY = datetime(2027, 3, 1, 7, 59, tzinfo=UTC)


async def test_a_declared_schedule_runs_its_task_with_its_arguments() -> None:
    app, ran = App("sqlite://"), []

    @app.schedule("0 9 * * mon-fri", timezone="Europe/Berlin", args=("Ann",), plan_as="plan")
    @app.task(name="greet", queue="mail")
    async def greet(name: str, plan: datetime, ctx: Context) -> dict[str, int]:
        ran.append((name, plan, ctx.job.headers[SCHEDULE]))
        return {"rows_affected": 3}

    async with Harness(app, start=MONDAY) as harness:
        await harness.advance(minutes=1)
        await harness.drain()
        [row] = await app.client.schedules.history("greet")
    assert ran == [("Ann", MONDAY + timedelta(minutes=1), "greet")]
    assert (row.decision, row.state, row.result) == (
        Decision.FIRED,
        "succeeded",
        {"rows_affected": 3},
    )


def test_the_decorators_may_stand_in_either_order_and_more_than_once() -> None:
    app = App("sqlite://")

    @app.schedule(every=timedelta(minutes=5), name="often")
    @app.task(name="report")
    @app.schedule("@daily")
    def report() -> None: ...

    assert set(app.schedules) == {"report", "often"}
    assert app.schedules["often"].rule.every == 300


def test_a_schedule_takes_the_options_of_its_task_and_its_own() -> None:
    app = App("sqlite://")

    @app.schedule(
        "@daily",
        priority=5,
        timeout=30,
        deadline=timedelta(hours=1),
        catch_up="all",
        overlap="skip",
        on_crash="fail",
    )
    @app.task(name="report", queue="mail", retry=Retry(max_attempts=2), tags=["nightly"])
    def report() -> None: ...

    made = app.schedules["report"]
    assert (made.queue, made.priority, made.tags, made.deadline) == ("mail", 5, ("nightly",), 3600)
    assert (made.catch_up, made.overlap, made.on_crash) == (
        CatchUp.ALL,
        Overlap.SKIP,
        OnCrash.FAIL,
    )
    assert '"max_attempts":2' in made.policy
    assert '"max_crashes":1' in made.policy


AHEAD = timezone(timedelta(hours=1))
BEHIND = timezone(timedelta(hours=-1))
EARLIEST, LATEST = datetime.min.replace(tzinfo=AHEAD), datetime.max.replace(tzinfo=BEHIND)
BAD: list[tuple[Any, dict[str, Any], str]] = [
    (None, {}, "either a cron expression or every"),
    ("@daily", {"every": 60}, "either a cron expression or every"),
    ("nonsense", {}, "cron must be"),
    ("@daily", {"timezone": "Nowhere"}, "timezone must be"),
    (None, {"every": 0.5}, "at least 1 second"),
    (None, {"every": 60, "timezone": "UTC"}, "knows no wall clock"),
    (None, {"every": 60, "anchor": datetime(2027, 1, 1)}, "with a time zone"),  # noqa: DTZ001
    ("@daily", {"catch_up": "maybe"}, "latest, all, none"),
    ("@daily", {"overlap": "maybe"}, "allow, skip, queue_one, replace"),
    ("@daily", {"cap": 0}, "cap must be"),
    ("@daily", {"window": -1}, "window must be"),
    ("@daily", {"scope_as": "n"}, "together with scopes"),
    ("@daily", {"unique": "key"}, "left to the schedule"),
    ("@daily", {"colour": "red"}, "option must be one of"),
    ("@daily", {"cap": "5"}, "cap must be"),
    ("@daily", {"cap": 2.5}, "cap must be"),
    ("@daily", {"cap": True}, "cap must be"),
    ("@daily", {"retention": 3600}, "retention must be"),
    ("@daily", {"window": "1h"}, "window must be"),
    ("@daily", {"lateness": True}, "lateness must be"),
    ("@daily", {"jitter": float("nan")}, "jitter must be"),
    ("@daily", {"keep": "for ever"}, "keep must be"),
    ("@daily", {"delay": "soon"}, "delay must be"),
    ("@daily", {"timezone": 1}, "timezone must be"),
    ("@daily", {"scopes": 5}, "scopes must be"),
    ("@daily", {"plan_as": 5}, "plan_as must be"),
    (5, {}, "cron must be"),
    (timedelta(minutes=5), {"every": 60}, "either a cron expression or every"),
    (None, {"every": "5m"}, "every must be"),
    (None, {"every": float("nan")}, "every must be"),
    (None, {"every": 60, "anchor": "today"}, "anchor must be"),
    (None, {"every": 60, "anchor": EARLIEST}, "anchor must be"),
    (None, {"every": 60, "anchor": LATEST}, "anchor must be"),
]


@pytest.mark.parametrize(("cron", "options", "told"), BAD)
def test_a_bad_declaration_is_told_where_it_stands(
    cron: Any, options: dict[str, Any], told: str
) -> None:
    app = App("sqlite://")

    @app.task(name="report")
    def report(n: str = "") -> None: ...

    with pytest.raises(BadOption, match=told):
        app.schedule(cron, **options)(report)
    assert app.schedules == {}


def test_an_interval_may_be_given_in_the_place_of_the_expression() -> None:
    app = App("sqlite://")

    @app.schedule(timedelta(minutes=5))
    @app.task(name="report")
    def report() -> None: ...

    assert app.schedules["report"].rule == report.scheduled(every=300).rule
    assert report.scheduled(timedelta(minutes=5)).rule.every == 300


async def test_a_time_zone_may_be_given_as_a_zone_info() -> None:
    app = App("sqlite://")

    @app.schedule("@daily", timezone=ZoneInfo("Europe/Berlin"))
    @app.task(name="report")
    def report() -> None: ...

    assert app.schedules["report"].rule.timezone == "Europe/Berlin"
    async with Harness(app, start=MONDAY):
        edited = await app.client.schedules.edit("report", timezone=ZoneInfo("Asia/Tokyo"))
        assert edited.definition.rule.timezone == "Asia/Tokyo"
        with pytest.raises(BadOption, match="cap"):
            await app.client.schedules.edit("report", cap=2.5)


def test_a_zone_info_without_a_name_is_told() -> None:
    app = App("sqlite://")

    @app.task(name="report")
    def report() -> None: ...

    with resources.files("tzdata.zoneinfo").joinpath("UTC").open("rb") as data:
        nameless = ZoneInfo.from_file(data)
    with pytest.raises(BadOption, match="timezone must be"):
        report.scheduled("@daily", timezone=nameless)


def test_arguments_that_do_not_fit_the_task_are_told_at_once() -> None:
    app = App("sqlite://")

    @app.task(name="report")
    def report(n: int) -> None: ...

    with pytest.raises(BadArguments, match="'n'"):
        app.schedule("@daily")(report)
    with pytest.raises(BadArguments, match="'n'"):
        app.schedule("@daily", args='{"n": "seven"}')(report)
    with pytest.raises(BadArguments, match="'n'"):
        app.schedule("@daily", scopes="all", scope_as="n")(report)


def test_a_name_is_given_to_one_schedule_and_one_provider() -> None:
    app = App("sqlite://")

    @app.schedule("@daily")
    @app.task(name="report")
    def report() -> None: ...

    app.scopes("tenants")(list)
    with pytest.raises(BadOption, match="give it name="):
        app.schedule("@hourly")(report)
    with pytest.raises(BadOption, match="registered once"):
        app.scopes("tenants")(list)


async def test_scopes_and_planners_of_the_app_are_used() -> None:
    app, billed = App("sqlite://"), []

    @app.scopes("tenants")
    def tenants() -> list[str]:
        return ["a", "b"]

    @app.planner("on-demand")
    async def on_demand(scope: str, after: datetime, now: datetime) -> list[datetime]:
        return [now] if scope == "b" else []

    @app.schedule("@hourly", scopes="tenants", planner="on-demand", scope_as="tenant")
    @app.task(name="bill")
    async def bill(tenant: str) -> None:
        billed.append(tenant)

    async with Harness(app, start=MONDAY) as harness:
        await harness.advance(minutes=1)
        await harness.drain()
    assert billed == ["b"]


async def test_a_provider_is_asked_for_a_backfill_too() -> None:
    app = App("sqlite://")
    app.scopes("tenants")(lambda: ["a", "b"])

    @app.schedule("@hourly", scopes="tenants", scope_as="tenant")
    @app.task(name="bill")
    async def bill(tenant: str) -> None: ...

    async with Harness(app, start=MONDAY) as harness:
        since = MONDAY - timedelta(hours=3)
        report = await app.client.schedules.backfill("bill", since, MONDAY)
        assert report.fired == 6
        assert len(await harness.enqueued(bill)) == 6


@pytest.mark.parametrize("args", [5, None, {1, 2}])
def test_arguments_of_a_wrong_kind_are_refused(args: Any) -> None:
    app = App("sqlite://")

    @app.task()
    def work(n: int = 1) -> None: ...

    with pytest.raises((BadOption, BadArguments), match="a tuple, a mapping, or a JSON object"):
        work.scheduled("@daily", args=args)


def test_a_schedule_below_its_task_stands_on_a_function_that_can_carry_it() -> None:
    with pytest.raises(BadOption, match=r"@app\.schedule must be put above"):
        App("sqlite://").schedule("@daily")(print)


@pytest.mark.parametrize(
    ("options", "error"),
    [({"args": "\ud800"}, BadArguments), ({"cap": "\ud800"}, BadOption)],
    ids=["args", "cap"],
)
def test_text_without_a_form_in_utf_8_is_refused(
    options: dict[str, Any], error: type[Exception]
) -> None:
    app = App("sqlite://")
    task = app.task(name="report")(lambda: None)
    with pytest.raises(error, match="surrogates"):
        app.schedule("@daily", **options)(task)
