"""`holdfast failures`: errors by cause, at a terminal of eighty columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.job.ends import Raised
from holdfast.job.fingerprint import fingerprint
from holdfast.job.ids import JobId
from tests.conformance.builders import TASK, Scene
from tests.unit.cli import Desk, desk_in

TRACEBACK = 'Traceback (most recent call last):\n  File "/srv/shop/mail.py", line 7, in send\n'
WORDS = "the mailbox of 'ann' is full and " + "very " * 20 + "old"
MAIL = fingerprint(TASK, "MailError", WORDS, TRACEBACK)


async def failed(scene: Scene) -> list[JobId]:
    end = Raised("MailError", WORDS, TRACEBACK, final=True)
    jobs = [(await scene.ended(end)).id for _ in range(5)]
    await scene.ended(Raised("OSError", "disk 3 is gone"))
    return jobs


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = desk_in(tmp_path, monkeypatch)
    desk.seed(failed)
    return desk


def listed(desk: Desk, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = desk.json("failures", "list", *options)["failures"]
    return found


def test_a_store_without_errors_lists_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = desk_in(tmp_path, monkeypatch)
    desk.seed(lambda scene: scene.enqueue())
    assert desk.on_store("failures", "list").out == "no failures\n"


def test_the_list_fits_eighty_columns(desk: Desk) -> None:
    lines = desk.on_store("failures", "list", width=80).out.splitlines()
    assert lines[0].split("  ")[0] == "fingerprint"
    assert "last seen   first seen  task" in lines[0]
    assert max(map(len, lines)) <= 80
    [row] = [line for line in lines if line.startswith(MAIL)]
    assert row.split()[1:3] == ["5", "5"]
    assert row.endswith(TASK)
    assert any(line.strip().startswith("MailError: the mailbox of 'ann'") for line in lines)


def test_the_list_as_json_has_every_field(desk: Desk) -> None:
    [mail] = [one for one in listed(desk) if one["fingerprint"] == MAIL]
    assert (mail["count"], mail["dead"], mail["muted_until"], mail["note"]) == (5, 5, None, None)
    assert mail["sample"]["message"] == WORDS
    assert [one["kind"] for one in listed(desk, "--task", "other")] == []
    assert len(listed(desk, "--since", "1h")) == 2
    page = desk.json("failures", "list", "--limit", "1")
    assert len(listed(desk, "--cursor", page["next_cursor"])) == 1


def test_a_failure_is_shown_with_its_sample_and_what_to_do(desk: Desk) -> None:
    shown = desk.on_store("failures", "show", MAIL, width=80).out
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.startswith(f"MailError in {TASK}\n5 attempts failed, 5 jobs dead\n")
    assert "where: mail.py in send" in shown
    assert 'File "/srv/shop/mail.py", line 7, in send' in shown
    assert f"holdfast failures redrive {MAIL} --canary 10" in shown
    found = desk.json("failures", "show", MAIL)
    assert (found["dead"], found["places"]) == (5, ["mail.py in send"])


def test_the_commands_that_it_names_can_be_typed(desk: Desk) -> None:
    shown = desk.on_store("failures", "show", MAIL, width=200).out
    commands = [
        line.partition("holdfast ")[2] for line in shown.splitlines() if "holdfast " in line
    ]
    assert len(commands) == 4
    for command in commands:
        typed = desk.on_store(*command.split(), *(["--yes"] if "redrive" in command else []))
        assert typed.code == 0, typed.err


def test_an_unknown_failure_is_told_with_what_to_type(desk: Desk) -> None:
    answer = desk.on_store("failures", "show", "0" * 16)
    assert answer.code == 1
    assert "no failure '0000000000000000': see 'holdfast failures list --muted'" in answer.err


def test_a_redrive_shows_asks_and_requeues(desk: Desk) -> None:
    preview = desk.on_store("failures", "redrive", MAIL, "--dry-run").out
    assert preview.splitlines()[0] == "5 jobs would be requeued"
    asked = desk.on_store("failures", "redrive", MAIL)
    assert (asked.code, "this would retry 5 jobs: add --yes" in asked.err) == (2, True)
    canary = desk.on_store("failures", "redrive", MAIL, "--yes", "--canary", "2")
    assert canary.out == "2 of 5 jobs requeued\n"
    assert "go on: holdfast operations go-on" in canary.err
    [operation] = desk.json("operations", "list")["operations"]
    assert operation["which"] == {"states": ["failed"], "fingerprint": MAIL}
    done = desk.json("operations", "go-on", operation["id"])
    assert (done["state"], done["changed"]) == ("done", 5)


def test_a_muted_failure_is_listed_only_on_demand(desk: Desk) -> None:
    muted = desk.on_store("failures", "mute", MAIL, "--for", "2h")
    assert muted.out.startswith(f"{MAIL} muted until ")
    assert [one["kind"] for one in listed(desk)] == ["OSError"]
    assert "muted until" in desk.on_store("failures", "list", "--muted").out
    assert len(listed(desk, "--muted")) == 2
    assert "be quiet" not in desk.on_store("failures", "show", MAIL).out
    assert desk.on_store("failures", "unmute", MAIL).out == f"{MAIL} unmuted\n"
    assert len(listed(desk)) == 2
    both = desk.on_store("failures", "mute", MAIL, "--for", "2h", "--until", "2999-01-01")
    assert (both.code, "not both" in both.err) == (2, True)


def test_a_note_is_shown_until_it_is_removed(desk: Desk) -> None:
    assert desk.on_store("failures", "note", MAIL, "ask the post").code == 0
    assert "note: ask the post" in desk.on_store("failures", "list").out
    assert "note: ask the post" in desk.on_store("failures", "show", MAIL).out
    assert desk.on_store("failures", "note", MAIL, "--remove").code == 0
    assert "note:" not in desk.on_store("failures", "show", MAIL).out
    assert desk.on_store("failures", "note", MAIL).code == 2


def test_acts_on_failures_are_in_the_audit(desk: Desk) -> None:
    desk.on_store("failures", "mute", MAIL)
    desk.on_store("failures", "note", MAIL, "x")
    verbs = [act["verb"] for act in desk.json("audit", "list")["acts"]]
    assert verbs == ["failures.note", "failures.mute"]


def test_a_job_names_the_fingerprint_of_its_error(desk: Desk) -> None:
    [job, *_] = desk.json("jobs", "list", "--where", f"fingerprint:{MAIL}")["jobs"]
    assert f"fingerprint {MAIL}" in desk.on_store("jobs", "show", job["id"]).out


def test_no_text_of_a_job_or_a_person_reaches_the_terminal_as_an_order(desk: Desk) -> None:
    orders = "\x1b[2J\x1b]0;owned\x07\x9b31m\b\r\u202e"

    async def seed(scene: Scene) -> JobId:
        job = await scene.enqueue(tags=(f"vip{orders}",))
        [claimed] = await scene.claim(1)
        await scene.finish(claimed, Raised("MailError", f"gone{orders}", TRACEBACK, final=True))
        return job

    job = desk.seed(seed)
    desk.on_store("failures", "note", MAIL, f"ticket{orders}")
    commands = ["jobs list", "failures list", "audit list", "doctor"]
    commands += [f"jobs {verb} {job}" for verb in ("show", "life", "explain")]
    for command in commands:
        for width in (80, 200):
            out = desk.on_store(*command.split(), width=width).out
            assert not set(out) & set(orders) - set("[]20J;owned31m"), command
    assert "gone·[2J·]0;owned" in desk.on_store("jobs", "explain", job).out
    refused = desk.on_store("jobs", "list", "--where", f"queue{orders}")
    assert "\x1b" not in refused.err
