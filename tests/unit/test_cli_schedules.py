"""`holdfast schedules …` and what `doctor` says about schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from holdfast.clock import utcnow
from holdfast.schedule.model import Decision, Definition, Plan, Rule
from holdfast.store.contract.store import Store
from tests.unit.cli import Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = desk_in(tmp_path, monkeypatch)
    desk.seed(lambda scene: _declared(scene.store))
    return desk


async def _declared(store: Store) -> None:
    rule = Rule(cron="30 2 * * *", timezone="Europe/Berlin")
    await store.schedules.declare({"nightly": Definition(rule, task="send", queue="mail")})


def test_schedules_are_listed_with_their_next_plan(desk: Desk) -> None:
    [listed] = desk.json("schedules", "list")["schedules"]
    assert (listed["name"], listed["rule"]) == ("nightly", "30 2 * * * (Europe/Berlin)")
    assert listed["next_due"] is not None
    assert "nightly" in desk.on_store("schedules", "list").out


def test_a_preview_shows_both_clocks_and_marks_gap_and_fold(desk: Desk) -> None:
    gap = desk.on_store(
        "schedules", "preview", "nightly", "--from", "2027-03-27T12:00Z", "--to", "2027-03-29"
    ).out
    assert "Sun 2027-03-28 03:00:00 +0200" in gap
    assert "2027-03-28 01:00:00Z" in gap
    assert "gap" in gap
    fold = desk.json(
        "schedules", "preview", "nightly", "--from", "2027-10-30T12:00Z", "--limit", "1"
    )
    assert [plan["note"] for plan in fold["plans"]] == ["fold 1"]


def test_a_schedule_is_made_edited_paused_resumed_triggered_and_deleted(desk: Desk) -> None:
    assert desk.on_store("schedules", "create", "extra", "-t", "send", "--every", "5m").code == 0
    desk.json("schedules", "edit", "extra", "--cron", "@hourly", "--timezone", "Asia/Kathmandu")
    desk.json("schedules", "pause", "extra")
    shown = desk.json("schedules", "show", "extra")
    assert (shown["rule"], shown["paused"]) == ("@hourly (Asia/Kathmandu)", True)
    desk.json("schedules", "resume", "extra")
    job = desk.json("schedules", "trigger", "extra")["job"]
    [row] = desk.json("schedules", "history", "extra")["history"]
    assert (row["job_id"], row["decision"], row["state"]) == (job, "fired", "ready")
    assert "triggered by hand" in desk.on_store("schedules", "history", "extra").out
    desk.json("schedules", "delete", "extra", "--yes")
    assert desk.on_store("schedules", "show", "extra").code == 1


def test_a_backfill_counts_first_and_wants_a_yes(desk: Desk) -> None:
    words = ("schedules", "backfill", "nightly", "--from", "3d")
    counted = desk.json(*words, "--dry-run")
    assert (counted["planned"], counted["fired"], counted["dry_run"]) == (3, 0, True)
    assert desk.on_store(*words, "--json").code == 2
    assert "2 of 2 plans fired; the cap leaves more" in (
        desk.on_store(*words, "--yes", "--cap", "2").out
    )
    assert desk.json(*words, "--yes")["fired"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("create", "x", "-t", "send", "--cron", "nonsense"),
        ("create", "x", "-t", "send"),
        ("create", "x", "-t", "send", "--every", "5m", "--overlap", "maybe"),
        ("create", "x", "-t", "send", "--every", "5m", "--args", "[1]"),
        ("edit", "nightly"),
        ("edit", "nightly", "--timezone", "Nowhere"),
        ("delete", "nightly"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(desk: Desk, words: tuple[str, ...]) -> None:
    answer = desk.on_store("schedules", *words)
    assert (answer.code, answer.err.count("\n")) == (2, 1)


def test_with_an_app_the_arguments_are_checked(desk: Desk) -> None:
    shop = desk.shop()
    words = ("schedules", "create", "x", "--task", "send", "--cron", "@daily", "--app", shop)
    assert desk.run(*words, "--args", '{"to": 5}').code == 2
    assert desk.run(*words, "--args", '{"to": "ann"}').code == 0
    made = desk.json("schedules", "show", "x", "--app", shop)["definition"]
    assert (made["queue"], made["priority"], made["args"]) == ("mail", 3, {"to": "ann"})


def test_doctor_tells_of_trouble_and_of_plans_that_nobody_decided(desk: Desk) -> None:
    told = desk.on_store("doctor", width=300).out
    assert "schedule 'nightly': no live worker knows its task 'send'" in told
    desk.json("schedules", "pause", "nightly")
    assert "1 schedules, none in trouble or overdue" in desk.on_store("doctor").out

    async def trouble(store: Store) -> None:
        await store.schedules.complain("nightly", "ValueError: no tenants")

    desk.look(trouble)
    told = desk.on_store("doctor", width=300).out
    assert "schedule 'nightly' cannot be evaluated since" in told
    assert "ValueError: no tenants" in told


def test_a_conflict_of_two_deployments_is_shown_on_its_schedule(desk: Desk) -> None:
    async def contest(store: Store) -> None:
        [found] = await store.schedules.find(["nightly"])
        other = msgspec.structs.replace(found.definition, priority=7)
        await store.schedules.declare({"nightly": found.definition})
        await store.schedules.declare({"nightly": other}, found.created_at - timedelta(days=1))

    desk.look(contest)
    told = "older code that still runs declares priority 7 instead of"
    assert told in desk.on_store("schedules", "list", width=300).out
    assert told in desk.json("schedules", "show", "nightly")["contested"]
    assert told in desk.on_store("doctor", width=300).out


def test_the_history_shows_reasons_of_plans_that_did_not_fire(desk: Desk) -> None:
    at = datetime(2027, 1, 1, 1, 30, tzinfo=UTC)

    async def missed(store: Store) -> None:
        row = Plan("nightly", "", at, Decision.MISSED, "late by more than 60 s")
        await store.schedules.record([row])

    desk.look(missed)
    before = (utcnow() + timedelta(days=400)).isoformat()
    shown = desk.on_store("schedules", "history", "nightly", "--before", before).out
    assert "2027-01-01 01:30:00Z" in shown
    assert "late by more than 60 s" in shown


def test_a_schedule_past_its_end_is_shown_as_ended(desk: Desk) -> None:
    made = ("schedules", "create", "sale", "-t", "send", "--cron", "@daily")
    assert (
        desk.on_store(*made, "--start", "2020-01-01T00:00Z", "--end", "2020-02-01T00:00Z").code == 0
    )
    [shown] = desk.json("schedules", "list", "sale")["schedules"]
    assert (shown["ended"], shown["next_due"]) == (True, None)
    assert shown["rule"] == "@daily (UTC) from 2020-01-01T00:00Z until 2020-02-01T00:00Z"
    assert "ended" in desk.on_store("schedules", "list", "sale").out
    plans = desk.json("schedules", "preview", "sale", "--from", "2020-01-31", "--to", "2021-01-01")
    assert len(plans["plans"]) == 2
    desk.json("schedules", "edit", "sale", "--end", "+7d")
    [shown] = desk.json("schedules", "list", "sale")["schedules"]
    assert not shown["ended"]


def test_a_policy_of_a_newer_program_is_shown_as_it_is_stored(desk: Desk) -> None:
    async def of_tomorrow(store: Store) -> None:
        policy = '{"retry":{"max_attempts":"many"}}'
        rule = Rule(cron="@daily")
        await store.schedules.declare({"new": Definition(rule, "send", "mail", policy=policy)})

    desk.seed(lambda scene: of_tomorrow(scene.store))
    shown = desk.json("schedules", "show", "new")
    assert shown["definition"]["policy"] == {"retry": {"max_attempts": "many"}}
    assert "cannot read its policy" in shown["error"]
    drawn = desk.on_store("schedules", "show", "new").out
    assert "cannot read its policy" in " ".join(drawn.split())
    assert {each["name"] for each in desk.json("schedules", "list")["schedules"]} >= {"new"}
