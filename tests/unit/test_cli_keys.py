"""`holdfast keys`: a new key, and which keys are still needed. And what the other commands show."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import Keyring
from holdfast.encryption.keyring import generate_key
from tests.support.canaries import CANARY, busy_day, one, shop
from tests.unit.cli import Desk, desk_in

KEY = generate_key("2026-05")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


async def filled(desk: Desk) -> str:
    """A store after a busy day; gives the id of a job that failed."""
    async with shop(desk.url, keys=Keyring.of_text(KEY)) as app:
        await busy_day(app)
        fell = await app.client.page(task="fall", limit=1)
    return fell.jobs[0].id


async def one_waiting(desk: Desk) -> None:
    async with shop(desk.url, keys=Keyring.of_text(KEY)) as app:
        await one(app, "sing").using(delay=60).enqueue(CANARY)


def test_a_generated_key_is_printed_and_nothing_else(desk: Desk) -> None:
    first, second = desk.run("keys", "generate"), desk.run("keys", "generate", "--id", "mine")
    assert Keyring.of_text(first.out).ids != Keyring.of_text(second.out).ids == ("mine",)
    assert list(desk.folder.iterdir()) == []
    assert desk.run("keys", "generate", "--id", "no id").code == 2
    assert len(Keyring.of_text(desk.run("keys", "generate", "--json").json["key"]).ids) == 1


def test_status_names_each_key_and_how_far_it_looked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(filled(desk))
    monkeypatch.setenv("HOLDFAST_KEYS", f"{generate_key('2026-11')},{KEY}")
    found = desk.on_store("keys", "status")
    assert "2026-05" in found.out
    assert "opens" in found.out
    assert "no job needs 2026-11" in found.out
    assert "all there are" in found.out
    document = desk.on_store("keys", "status", "--json", "--look", "3").json
    assert (document["looked_at"], document["complete"]) == (3, False)
    assert document["ring"] == ["2026-11", "2026-05"]
    assert CANARY not in found.out + str(document)


def test_commands_show_plain_values_only_with_the_key(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = asyncio.run(filled(desk))
    calls = [
        ("jobs", "list", "--json"),
        ("jobs", "list"),
        ("jobs", "show", job_id),
        ("jobs", "show", job_id, "--json"),
        ("jobs", "explain", job_id),
        ("schedules", "list", "--json"),
        ("schedules", "show", "dawn"),
        ("schedules", "history", "dawn", "--json"),
        ("failures", "list", "--json"),
        ("operations", "list", "--json"),
        ("audit", "list", "--json"),
        ("doctor", "--json"),
    ]
    for call in calls:
        shown = desk.on_store(*call)
        assert shown.code == (call[0] == "doctor"), call  # which has found that nobody works
        assert CANARY not in shown.out, call
        assert "$enc" not in shown.out, call
    monkeypatch.setenv("HOLDFAST_KEYS", KEY)
    for call in calls[2:4]:
        shown = desk.on_store(*call)
        assert CANARY in shown.out
        assert "encrypted (key" not in shown.out
    secret = KEY.partition(":")[2]
    for call in [*calls, ("workers", "list"), ("keys", "status")]:
        shown = desk.on_store(*call)
        assert secret not in shown.out + shown.err, call


def test_a_filter_that_cannot_see_says_so(desk: Desk) -> None:
    asyncio.run(one_waiting(desk))
    shown = desk.on_store("jobs", "list", "--where", f"args.song:{CANARY}", "--json")
    assert (shown.json["jobs"], shown.json["unsearched"]) == ([], 1)
    shown = desk.on_store("jobs", "list", "--where", f"args.song:{CANARY}")
    assert "1 job or more of these are encrypted" in shown.out
    shown = desk.on_store("jobs", "cancel", "--all", "--where", f"args.song:{CANARY}", "--yes")
    assert shown.code == 1
    assert "cannot see into them" in shown.err


def test_bad_keys_are_refused_without_being_shown(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(one_waiting(desk))
    secret = KEY.partition(":")[2]
    monkeypatch.setenv("HOLDFAST_KEYS", secret)
    shown = desk.on_store("jobs", "list")
    assert shown.code == 2
    assert "holdfast keys generate" in shown.err
    assert secret not in shown.err
