"""`holdfast jobs`: what is listed, shown, explained and changed."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.words import JOB_COMMANDS
from holdfast.job.ends import Raised
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy, Retention
from holdfast.job.retry import Retry
from holdfast.job.state import JobState
from holdfast.operations.job_verbs import JOB_VERBS
from holdfast.store.contract.filters import JobFilter
from tests.conformance.builders import FAILED, Scene, new_job
from tests.unit.cli import Desk, desk_in

NOBODY = "01a1e0e6-6bf4-7009-a4b5-b54dec8d97cd"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = desk_in(tmp_path, monkeypatch)
    desk.seed(_nothing)
    return desk


async def _nothing(scene: Scene) -> None:
    """The store exists, with a worker and no job."""


def state_of(desk: Desk, job: JobId) -> JobState:
    return JobState(desk.json("jobs", "show", job)["state"])


def test_a_list_pages_with_its_cursor_and_repeats_nothing(desk: Desk) -> None:
    made = desk.seed(lambda scene: scene.enqueue_many(5))
    first = desk.json("jobs", "list", "--limit", "3")
    rest = desk.json("jobs", "list", "--limit", "3", "--cursor", first["next_cursor"])
    seen = [job["id"] for job in first["jobs"] + rest["jobs"]]
    assert seen == sorted(made, reverse=True)
    assert rest["next_cursor"] is None
    assert first["counts"] == {"ready": 5}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--queue", "mail"], 1),
        (["--queue", "mail", "--queue", "default"], 3),
        (["--state", "scheduled"], 1),
        (["--task", "other"], 1),
        (["--tag", "red"], 1),
        (["--since", "1h"], 4),
        (["--until", "1h"], 0),
        (["--error", "give"], 0),
        (["--where", "queue:mail"], 1),
        (["--where", "tag:red args.name:Ada since:1h"], 1),
        (["--where", "task:oth* priority:0"], 1),
        (["--tag", "red", "--tag", "blue"], 0),
        (["--queue", "mail", "--where", "tag:red"], 0),
    ],
)
def test_a_list_is_narrowed_by_every_filter(desk: Desk, words: list[str], found: int) -> None:
    async def four(scene: Scene) -> None:
        await scene.enqueue(queue="mail")
        await scene.enqueue(tags=("red",))
        await scene.enqueue(task="other", queue="media")
        await scene.enqueue(delay=60.0)

    desk.seed(four)
    assert len(desk.json("jobs", "list", *words)["jobs"]) == found


def test_a_list_that_stopped_looking_says_how_far_it_came(desk: Desk) -> None:
    async def many(scene: Scene) -> JobId:
        rare = await scene.enqueue(tags=("rare",))
        await scene.enqueue_many(9)
        return rare

    rare = desk.seed(many)
    words = ("jobs", "list", "--where", "tag:rare", "--look", "4")
    first = desk.json(*words)
    assert (first["jobs"], first["complete"], first["looked_at"]) == ([], False, 4)
    assert first["counts"] is None, "only a walk over all jobs could count them"
    out = " ".join(desk.on_store(*words).out.split())
    assert "searched back to 20" in out
    assert f"4 looked at; go on with --cursor {first['next_cursor']}" in out
    cursor, found = first["next_cursor"], []
    while cursor:
        page = desk.json(*words, "--cursor", cursor)
        found += [job["id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
    assert found == [rare]


def test_a_filter_that_cannot_be_read_names_its_term(desk: Desk) -> None:
    answer = desk.on_store("jobs", "list", "--where", "queue:mail state:faild")
    assert answer.code == 2
    assert "'state:faild' must be one of" in answer.err


def test_a_bulk_verb_takes_the_same_filter(desk: Desk) -> None:
    async def some(scene: Scene) -> JobId:
        await scene.enqueue(args='{"customer":"42"}')
        return await scene.enqueue(args='{"customer":42}')

    meant = desk.seed(some)
    words = ("jobs", "cancel", "--all", "--yes", "--where", "args.customer:42")
    assert desk.json(*words)["matched"] == 1
    assert state_of(desk, meant) is JobState.CANCELLED


def test_a_list_for_people_names_each_job_and_how_many_there_are(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.enqueue())
    out = desk.on_store("jobs", "list").out
    assert job in out
    assert "1 of 1 job: 1 ready" in out


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_list_keeps_ids_and_states_whole_at_any_width(desk: Desk, width: int) -> None:
    job = desk.seed(lambda scene: scene.in_state(JobState.FAILED))
    lines = desk.on_store("jobs", "list", width=width).out.splitlines()
    assert any(job in line for line in lines)
    assert any("failed" in line for line in lines)


def test_a_job_is_shown_with_its_whole_error_history(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.in_state(JobState.FAILED, tags=("red",)))
    shown = desk.reveal(job)
    assert shown["args"] == {"name": "Ada"}
    assert [error["message"] for error in shown["errors"]] == ["give up"]
    assert shown["policy"]["retry"]["max_attempts"] == 5
    assert shown["policy"]["max_crashes"] == 3, "a default is a field like any other"
    people = desk.on_store("jobs", "show", job).out
    assert "give up" in people
    assert "1 of 5 spent" in people


def test_brackets_in_an_error_are_shown_as_they_are(desk: Desk) -> None:
    async def failed(scene: Scene) -> JobId:
        end = type(FAILED)("ValueError", "[red]not[/] markup [/oops]", final=True)
        return (await scene.ended(end)).id

    job = desk.seed(failed)
    assert "[red]not[/] markup [/oops]" in desk.on_store("jobs", "show", job).out
    assert "[red]not[/] markup [/oops]" in desk.on_store("jobs", "list").out


def test_an_unknown_job_is_one_line_and_no_success(desk: Desk) -> None:
    answer = desk.on_store("jobs", "show", NOBODY, "--json")
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.startswith(f"error: no job {NOBODY}")


def test_an_explanation_gives_reasons_and_who_can_change_them(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.enqueue(queue="lonely"))
    document = desk.json("jobs", "explain", job)
    assert [reason["code"] for reason in document["reasons"]] == ["queue-unserved"]
    people = desk.on_store("jobs", "explain", job).out
    assert "no live worker serves queue 'lonely'" in people
    assert "who can change it: an operator" in people


def test_the_life_of_a_job_is_told_line_by_line(desk: Desk) -> None:
    async def moved_and_retried(scene: Scene) -> JobId:
        job = await scene.enqueue(queue="mail")
        await scene.store.jobs.move([job], "slow", "ann@desk")
        end = Raised("ValueError", "no such user\nnor any other", "Traceback …")
        await scene.finish(await scene.claim_one("slow"), end)
        return job

    job = desk.seed(moved_and_retried)
    document = desk.json("jobs", "life", job)
    moments = document["moments"]
    assert [one["what"] for one in moments] == ["enqueued", "moved", "claimed", "retried"]
    assert (moments[1]["by"], moments[1]["note"]) == ("ann@desk", "from mail to slow")
    assert moments[3]["error"]["message"] == "no such user\nnor any other"
    people = desk.on_store("jobs", "life", job).out
    assert "by ann@desk, from mail to slow" in people
    assert "ValueError: no such user, due in 10 s" in people
    assert "nor any other" not in people
    assert f"holdfast jobs life {job}" in desk.on_store("jobs", "show", job).out


def test_a_life_fits_into_eighty_columns(desk: Desk) -> None:
    async def busy(scene: Scene) -> JobId:
        job = (await scene.running()).id
        await scene.store.jobs.request_cancel([job], "somebody.with.a.long.name@a-long-host")
        await scene.finish(await scene.live(job), Raised("VeryLongNameOfAnError", "e" * 200))
        return job

    lines = desk.on_store("jobs", "life", desk.seed(busy), width=80).out.splitlines()
    assert max(len(line) for line in lines) <= 80
    words = ("enqueued", "claimed", "cancel asked", "cancelled")
    assert all(any(f" {word} " in line for line in lines) for word in words)


def test_a_failed_job_is_retried_and_a_waiting_one_cancelled(desk: Desk) -> None:
    failed = desk.seed(lambda scene: scene.in_state(JobState.FAILED))
    waiting = desk.seed(lambda scene: scene.enqueue(delay=60.0))
    assert desk.json("jobs", "retry", failed)["results"][0]["state"] == "ready"
    assert desk.json("jobs", "cancel", waiting)["results"][0]["state"] == "cancelled"


def test_one_refused_id_does_not_keep_the_others_from_their_change(desk: Desk) -> None:
    ready = desk.seed(lambda scene: scene.enqueue())
    failed = desk.seed(lambda scene: scene.in_state(JobState.FAILED, queue="other"))
    results = desk.json("jobs", "retry", ready, NOBODY, failed, code=1)["results"]
    assert [result["ok"] for result in results] == [False, False, True]
    assert "only an ended job can be requeued" in results[0]["error"]
    assert state_of(desk, failed) is JobState.READY


def test_what_is_no_id_is_refused_before_any_job_is_changed(desk: Desk) -> None:
    failed = desk.seed(lambda scene: scene.in_state(JobState.FAILED))
    assert desk.on_store("jobs", "retry", failed, "not-an-id").code == 2
    assert state_of(desk, failed) is JobState.FAILED


def test_a_running_job_is_told_to_cancel_and_not_called_cancelled(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.in_state(JobState.RUNNING))
    assert f"{job} told to cancel, now running" in desk.on_store("jobs", "cancel", job).out


def test_a_cancel_of_a_job_that_has_ended_does_not_call_it_cancelled(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.in_state(JobState.FAILED))
    answer = desk.on_store("jobs", "cancel", job)
    assert (answer.code, answer.out) == (0, f"{job} is not cancelled: it has ended as failed\n")


def test_a_running_job_is_explained_by_its_attempt(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.in_state(JobState.RUNNING))
    assert "attempt 1, started" in desk.on_store("jobs", "explain", job).out


def test_long_lines_of_an_explanation_stay_under_their_mark(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.enqueue(queue="lonely-" * 12))
    lines = desk.on_store("jobs", "explain", job, width=60).out.splitlines()[1:]
    assert all(line.startswith(("• ", "  ")) for line in lines)


def test_jobs_are_moved_reprioritised_resumed_run_and_deleted(desk: Desk) -> None:
    async def one_of_each(scene: Scene) -> tuple[JobId, JobId, JobId]:
        suspended = await scene.in_state(JobState.SUSPENDED)
        done = await scene.in_state(JobState.SUCCEEDED)
        return suspended, done, await scene.in_state(JobState.SCHEDULED)

    suspended, done, later = desk.seed(one_of_each)
    desk.json("jobs", "resume", suspended)
    desk.json("jobs", "run-now", later)
    desk.json("jobs", "move", later, "--to", "mail")
    desk.json("jobs", "reprioritise", later, "--to", "-7")
    desk.json("jobs", "delete", done)
    shown = desk.json("jobs", "show", later)
    assert (shown["state"], shown["queue"], shown["priority"]) == ("ready", "mail", -7)
    assert state_of(desk, suspended) is JobState.READY
    assert desk.on_store("jobs", "show", done).code == 1


def test_a_dry_run_counts_and_changes_nothing(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue_many(3))
    document = desk.json("jobs", "cancel", "--everything", "--dry-run")
    assert (document["matched"], document["changed"], document["dry_run"]) == (3, 0, True)
    assert (document["by_state"], document["by_queue"]) == ({"ready": 3}, {"default": 3})
    assert (len(document["samples"]), document["can_undo"]) == (3, True)
    assert desk.look(lambda store: store.jobs.count(JobFilter())) == {JobState.READY: 3}


def test_a_change_of_many_reaches_only_those_that_match(desk: Desk) -> None:
    async def both(scene: Scene) -> None:
        await scene.enqueue_many(3, queue="mail")
        await scene.enqueue_many(2, queue="media")

    desk.seed(both)
    document = desk.json("jobs", "cancel", "--all", "--queue", "mail", "--yes")
    assert (document["matched"], document["changed"], document["dry_run"]) == (3, 3, False)
    assert (document["state"], document["failed"]) == ("done", 0)
    counts = desk.look(lambda store: store.jobs.count(JobFilter()))
    assert counts == {JobState.READY: 2, JobState.CANCELLED: 3}


@pytest.mark.parametrize(
    ("verb", "state", "becomes"),
    [
        (["retry"], JobState.FAILED, JobState.READY),
        (["run-now"], JobState.SCHEDULED, JobState.READY),
        (["resume"], JobState.SUSPENDED, JobState.READY),
        (["delete"], JobState.SUCCEEDED, None),
        (["move", "--to", "mail"], JobState.READY, JobState.READY),
        (["reprioritise", "--to", "5"], JobState.READY, JobState.READY),
    ],
)
def test_every_verb_works_on_all_that_match(
    desk: Desk, verb: list[str], state: JobState, becomes: JobState | None
) -> None:
    job = desk.seed(lambda scene: scene.in_state(state))
    assert desk.json("jobs", *verb, "--everything", "--yes")["changed"] == 1
    found = desk.look(lambda store: store.jobs.get([job]))
    assert [each.state for each in found] == ([] if becomes is None else [becomes])


@pytest.mark.parametrize("which", [[], ["--everything", "--yes"]], ids=["one", "all"])
def test_a_change_is_reported_with_who_typed_the_command(
    desk: Desk, caplog: pytest.LogCaptureFixture, which: list[str]
) -> None:
    job = desk.seed(lambda scene: scene.enqueue())
    caplog.set_level("INFO", logger="holdfast")
    desk.json("jobs", "cancel", *(which or [job]))
    [fields] = [
        record.__dict__["fields"]
        for record in caplog.records
        if record.__dict__.get("event") == "operator.acted"
    ]
    assert (fields["verb"], fields["changed"]) == ("jobs.cancel", 1)
    assert fields["by"].endswith(f"@{socket.gethostname()}")


def test_every_verb_of_the_table_is_a_command(desk: Desk) -> None:
    listed = desk.run("jobs", "--help").out
    assert set(JOB_COMMANDS) == set(JOB_VERBS)
    for command in JOB_COMMANDS.values():
        assert f" {command.word} " in listed


def test_many_are_not_changed_without_a_yes(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue_many(3))
    answer = desk.on_store("jobs", "cancel", "--all", "--state", "ready")
    assert answer.code == 2
    assert "this would cancel 3 jobs: add --yes" in answer.err
    assert desk.look(lambda store: store.jobs.count(JobFilter())) == {JobState.READY: 3}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jobs", "cancel"], "give ids of jobs, or --all"),
        (["jobs", "cancel", NOBODY, "--all"], "give ids of jobs, or --all"),
        (["jobs", "cancel", "--all", "--everything"], "give ids of jobs, or --all"),
        (["jobs", "cancel", "--all", "--yes"], "--all needs a filter such as --queue"),
        (["jobs", "cancel", "--everything", "--queue", "mail"], "left out beside a filter"),
        (["jobs", "reschedule", NOBODY], "give --delay or --at"),
        (["jobs", "edit", NOBODY], "give --arg NAME=VALUE, --tag or --no-tags"),
        (["jobs", "cancel", NOBODY, "--queue", "mail"], "go with --all, not with ids"),
        (["jobs", "cancel", "not-an-id"], "job id must be a UUID"),
        (["jobs", "list", "--state", "asleep"], "state must be one of"),
        (["jobs", "list", "--since", "soon"], "--since must be a time"),
        (["jobs", "list", "--limit", "0"], "limit must be"),
        (["jobs", "retry", "--all", "--state", "ready"], "states must be among"),
    ],
)
def test_a_wrong_call_says_what_was_expected(desk: Desk, arguments: list[str], said: str) -> None:
    answer = desk.on_store(*arguments)
    assert answer.code == 2
    assert said in answer.err


def test_a_job_is_made_due_at_a_time(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.enqueue())
    desk.json("jobs", "reschedule", job, "--at", "2999-01-01T00:00:00Z")
    assert desk.json("jobs", "show", job)["due_at"] == "2999-01-01T00:00:00Z"
    desk.json("jobs", "reschedule", job, "--delay", "0s")
    assert state_of(desk, job) is JobState.READY


def test_a_waiting_job_is_edited(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.enqueue(args='{"name":"Ada","times":1}'))
    desk.json("jobs", "edit", job, "--arg", "name=Grace", "--tag", "mended")
    shown = desk.reveal(job)
    assert (shown["args"], shown["tags"]) == ({"name": "Grace", "times": 1}, ["mended"])
    desk.json("jobs", "edit", job, "--no-tags")
    assert desk.json("jobs", "show", job)["tags"] == []


def test_an_edit_of_a_job_that_has_begun_says_what_to_do_instead(desk: Desk) -> None:
    job = desk.seed(lambda scene: scene.in_state(JobState.SUSPENDED))
    answer = desk.on_store("jobs", "edit", job, "--arg", "name=Grace")
    assert answer.code != 0
    assert "has begun" in answer.err
    assert "Cancel it, and enqueue a new job" in " ".join(answer.err.split())


def test_a_job_without_limits_is_shown_as_one(desk: Desk) -> None:
    policy = Policy(retry=Retry(max_attempts=None), retention=Retention.forever())
    endless = new_job(policy=policy)
    desk.seed(lambda scene: scene.store.jobs.insert([endless]))
    assert "0/∞" in desk.on_store("jobs", "list").out
    assert "0 of ∞ spent" in desk.on_store("jobs", "show", endless.id).out
    desk.json("jobs", "cancel", endless.id)
    assert "for ever" in desk.on_store("jobs", "show", endless.id).out


@pytest.mark.parametrize("policy", ['{"surprise":1}', "{", ""])
def test_a_job_that_cannot_be_read_is_listed_shown_explained_and_cancelled(
    desk: Desk, policy: str
) -> None:
    strange = msgspec.structs.replace(new_job(args="{"), policy=policy)
    desk.seed(lambda scene: scene.store.jobs.insert([strange]))
    [listed] = desk.json("jobs", "list")["jobs"]
    assert (listed["id"], listed["max_attempts"]) == (strange.id, None)
    assert "0/?" in desk.on_store("jobs", "list").out
    assert "cannot read its policy" in desk.on_store("jobs", "show", strange.id, width=300).out
    reasons = desk.json("jobs", "explain", strange.id)["reasons"]
    assert "unreadable" in [reason["code"] for reason in reasons]
    told = desk.on_store("doctor", "--json").out
    assert "policies" in told
    assert strange.id in told
    desk.json("jobs", "cancel", strange.id)
    assert state_of(desk, strange.id) is JobState.CANCELLED


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where the end of the calendar in UTC is past it in local time."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_east")
def test_a_moment_at_the_end_of_time_is_listed_shown_and_explained(desk: Desk) -> None:
    end = datetime.max.replace(tzinfo=UTC)
    job = desk.seed(lambda scene: scene.enqueue(run_at=end, deadline_at=end))
    for verb in (["list"], ["show", job], ["explain", job]):
        assert desk.on_store("jobs", *verb).code == 0
    assert "9999-12-31" in desk.on_store("jobs", "show", job).out
