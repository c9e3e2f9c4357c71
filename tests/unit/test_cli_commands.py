"""enqueue, queues, workers, migrate and the global options."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import click
import pytest

from holdfast.cli.main import main
from holdfast.cli.program import COMMANDS, program
from holdfast.cli.sizes import size
from holdfast.cli.worker_call import parse_queues
from holdfast.clock import utcnow
from holdfast.job.ids import WorkerId
from holdfast.job.state import JobState
from holdfast.store.contract.facts import SlotFacts, WorkerFacts
from holdfast.worker.slots import Slots
from tests.conformance.builders import Scene
from tests.unit.cli import Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


# enqueue ----------------------------------------------------------------------------------


def test_a_job_is_enqueued_by_name_alone_with_its_options(desk: Desk) -> None:
    options = ["--queue", "mail", "--priority", "-2", "--tag", "a", "--tag", "b", "--delay", "1h"]
    made = desk.json("enqueue", "greet", '{"name": "Ada"}', *options, "--unique", "ada")
    again = desk.json("enqueue", "greet", '{"name": "Ada"}', *options, "--unique", "ada")
    job = desk.reveal(made["id"])
    assert again == {"id": made["id"], "how": "existing"}
    assert job["args"] == {"name": "Ada"}
    assert (job["queue"], job["priority"], job["tags"]) == ("mail", -2, ["a", "b"])
    assert job["state"] == "scheduled"


def test_people_get_the_id_alone(desk: Desk) -> None:
    out = desk.on_store("enqueue", "greet").out.strip()
    assert desk.json("jobs", "show", out)["args"] == {}


def test_a_call_that_met_its_unique_key_says_so_beside_the_id(desk: Desk) -> None:
    first = desk.on_store("enqueue", "greet", "--unique", "ada")
    again = desk.on_store("enqueue", "greet", "--unique", "ada")
    assert (first.err, again.out) == ("", first.out)
    assert "no new job" in again.err


def test_a_queue_that_no_worker_of_the_task_serves_is_told_beside_the_id(desk: Desk) -> None:
    desk.seed(lambda scene: scene.hire(queues={"mail*": 5}, tasks=("deliver",)))
    lost = desk.on_store("enqueue", "deliver")
    assert "no live worker with task 'deliver' serves queue 'default'" in lost.err
    assert "(served: mail*)" in lost.err
    assert desk.json("jobs", "show", lost.out.strip())["queue"] == "default"
    assert desk.on_store("enqueue", "deliver", "--queue", "mail-eu").err == ""
    assert desk.on_store("enqueue", "nobody-has-it").err == ""


def test_with_an_app_text_stays_text_and_the_tasks_own_options_hold(desk: Desk) -> None:
    app = f"{desk.shop()}:app"
    answer = desk.run("enqueue", "send", "-a", "to=007", "-a", "copies=3", "--app", app, "--json")
    job = desk.reveal(answer.json["id"])
    assert job["args"] == {"to": "007", "copies": 3}
    assert (job["queue"], job["priority"]) == ("mail", 3)


def test_a_module_with_tasks_is_imported_before_its_task_is_looked_for(desk: Desk) -> None:
    app = desk.shop()
    more = f"from {app} import app\n@app.task(name='more', also=['old'])\ndef f() -> None: ...\n"
    (desk.folder / f"{app}_more.py").write_text(more)
    call = ("enqueue", "old", "--import", f"{app}_more")
    answer = desk.run(*call, "--app", app, "--json")
    assert desk.json("jobs", "show", answer.json["id"])["task"] == "more"
    nobody = desk.on_store(*call)
    assert (nobody.code, "--import needs an app" in nobody.err) == (2, True)


def test_with_an_app_a_list_binds_by_position(desk: Desk) -> None:
    answer = desk.run("enqueue", "send", '["ann", 2]', "--app", f"{desk.shop()}:app", "--json")
    assert desk.reveal(answer.json["id"])["args"] == {"to": "ann", "copies": 2}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["send", "-a", "copies=3"], "to"),
        (["send", "-a", "to=x", "-a", "copies=many"], "copies"),
        (["sned"], "registered here: send"),
        (["send", "[1, 2, 3]"], "takes 2 arguments (to, copies), got 3"),
    ],
)
def test_with_an_app_a_call_that_does_not_fit_writes_nothing(
    desk: Desk, arguments: list[str], said: str
) -> None:
    answer = desk.run("enqueue", *arguments, "--app", f"{desk.shop()}:app")
    assert answer.code == 2
    assert said in answer.err
    assert not (desk.folder / "jobs.db").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["greet", "{oops"], "must be JSON"),
        (["greet", "[" * 100_000], "must be JSON"),
        (["greet", "[1]"], "a list needs --app"),
        (["greet", "{}", "-a", "a=1"], "not both"),
        (["greet", "-a", "novalue"], "--arg must be NAME=VALUE"),
        (["greet", "--delay", "later"], "--delay must be seconds"),
        (["greet", "--run-at", "2h"], "--run-at must be a time such as"),
        (["greet", "--priority", "99999"], "priority must be"),
        (["gr eet", "{}"], "task name must be"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_written(
    desk: Desk, arguments: list[str], said: str
) -> None:
    answer = desk.on_store("enqueue", *arguments)
    assert answer.code == 2
    assert said in answer.err
    assert not (desk.folder / "jobs.db").exists()


# queues and workers -----------------------------------------------------------------------


def test_queues_are_listed_with_what_waits_and_who_serves(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue_many(2))
    desk.seed(lambda scene: scene.enqueue(queue="lonely", delay=60.0))
    queues = {queue["name"]: queue for queue in desk.json("queues", "list")["queues"]}
    assert queues["default"]["counts"] == {"ready": 2}
    assert queues["default"]["served"] is True
    assert queues["lonely"]["served"] is False
    assert queues["lonely"]["settings"]["throttle_cap"] == 300.0
    assert "no live worker" in desk.on_store("queues", "list").out


def test_a_paused_queue_shows_it_until_it_is_resumed(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    both = desk.json("queues", "pause", "default", "mail", "--create")
    assert both == {"paused": ["default", "mail"]}
    assert "paused" in desk.on_store("queues", "list", "default").out
    desk.json("queues", "resume", "default")
    paused = {queue["name"]: queue["paused"] for queue in desk.json("queues", "list")["queues"]}
    assert paused == {"default": False, "mail": True}


def test_all_queues_and_single_tasks_are_paused_and_resumed(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    assert desk.json("queues", "pause", "--all") == {"paused": ["*"]}
    both = desk.json("tasks", "pause", "greet", "mail.send", "--create")
    assert both == {"paused": ["greet", "mail.send"]}
    assert desk.json("queues", "list")["all_paused"] is True
    assert "every queue is paused" in desk.on_store("queues", "list").out
    assert desk.json("tasks", "paused") == {"paused": ["greet", "mail.send"]}
    desk.json("queues", "resume", "--all")
    desk.json("tasks", "resume", "greet", "mail.send")
    assert desk.json("queues", "list")["all_paused"] is False
    assert "no task is paused" in desk.on_store("tasks", "paused").out
    for wrong in (["pause"], ["resume", "mail", "--all"]):
        answer = desk.on_store("queues", *wrong)
        assert (answer.code, "give names of queues, or --all" in answer.err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [("pause", "default", "defualt"), ("resume", "defualt"), ("tune", "defualt", "--aging=5")],
)
def test_a_queue_that_nobody_knows_is_not_changed_without_a_word(
    desk: Desk, words: tuple[str, ...]
) -> None:
    desk.seed(lambda scene: scene.enqueue())
    answer = desk.on_store("queues", *words)
    assert answer.code == 2
    assert "no queue 'defualt' is known, and nothing was changed; known: default" in answer.err
    assert ("--create" in answer.err) == (words[0] != "resume")
    [queue] = desk.json("queues", "list")["queues"]
    assert (queue["name"], queue["paused"]) == ("default", False)
    listed = desk.on_store("queues", "list", "defualt")
    assert (listed.code, listed.err) == (2, "error: no queue 'defualt' is known; known: default\n")


def test_a_queue_is_made_ahead_of_time_if_that_is_meant(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    desk.json("queues", "pause", "mail", "--create")
    desk.json("queues", "tune", "ai", "--max-running", "3", "--create")
    queues = {one["name"]: one for one in desk.json("queues", "list")["queues"]}
    assert queues["mail"]["paused"]
    assert queues["ai"]["settings"]["max_running"] == 3


def test_a_task_that_nobody_knows_is_not_changed_without_a_word(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    for verb in ("pause", "resume"):
        answer = desk.on_store("tasks", verb, "greet", "graat")
        assert (answer.code, "no task 'graat' is known" in answer.err) == (2, True)
    assert desk.json("tasks", "paused") == {"paused": []}
    assert desk.json("tasks", "pause", "graat", "--create") == {"paused": ["graat"]}
    assert desk.json("tasks", "resume", "graat") == {"resumed": ["graat"]}


def test_tuning_changes_what_is_named_and_leaves_the_rest(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    desk.json("queues", "tune", "default", "--retain-failed", "2d", "--throttle-base", "5")
    document = desk.json("queues", "tune", "default", "--retain-failed", "none")
    assert document["settings"]["retain_failed"] is None
    assert document["settings"]["throttle_base"] == 5.0


def test_tuning_nothing_is_a_wrong_call(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    answer = desk.on_store("queues", "tune", "default")
    assert answer.code == 2
    assert "--throttle-base" in answer.err


def test_workers_are_listed_live_or_lapsed(desk: Desk) -> None:
    desk.seed(lambda scene: scene.hire(lease=-5.0, name="sleeper"))
    workers = desk.json("workers", "list")["workers"]
    assert {worker["name"]: worker["alive"] for worker in workers} == {
        "worker": True,
        "sleeper": False,
    }
    listed = desk.on_store("workers", "list").out
    assert "lapsed" in listed
    assert "1 alive, 1 lapsed" in listed


def test_workers_are_listed_and_shown_with_what_they_say(desk: Desk) -> None:
    async def hire(scene: Scene) -> WorkerId:
        facts = WorkerFacts(
            slots={"mail": SlotFacts(used=3, free=6, stuck=1)},
            cpu=0.42,
            memory=50 * 2**20,
            loop_lag=0.002,
            python="3.13.1",
            last_errors={"promotion": "it broke"},
            counts={"claimed": 1_234, "reconciler.promotion.mended": 7},
        )
        return await scene.hire(name="clerk", queues={"mail": 10}, facts=facts)

    worker = desk.seed(hire)
    listed = desk.on_store("workers", "list", width=200).out
    for shown in ("mail 3/10 (1 stuck)", "42%", "50 M", "2 ms"):
        assert shown in listed
    for which in ("clerk", worker):
        shown = desk.on_store("workers", "show", which).out
        assert "Python 3.13.1" in shown
        assert "1,234 claimed" in shown
        assert "it broke" in shown
    [document] = desk.json("workers", "show", worker)["workers"]
    assert document["facts"]["slots"] == {"mail": {"used": 3, "free": 6, "stuck": 1, "share": None}}
    assert document["facts"]["reconcilers"]["promotion"]["mended"] == 7
    assert document["standing"] == "alive"
    assert 0 <= document["heartbeat_age"] < 60
    missing = desk.on_store("workers", "show", "nobody")
    assert missing.code == 1
    assert "no worker has the id or the name 'nobody'; registered: clerk, worker" in missing.err


def test_a_narrow_terminal_shows_workers_below_each_other(desk: Desk) -> None:
    desk.seed(lambda scene: scene.hire(name="clerk"))
    lines = desk.on_store("workers", "list", width=80).out.splitlines()
    [head] = [number for number, line in enumerate(lines) if line.startswith("clerk  alive, ")]
    assert lines[head + 1].startswith("  default 0/")
    assert "heartbeat" in lines[head + 2]
    assert max(map(len, lines)) <= 80


def test_ages_of_workers_are_by_the_stores_clock(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere they were differences of two clocks: here this machine's is a year ahead."""
    desk.seed(lambda scene: scene.hire(name="clerk", lease=600.0))
    monkeypatch.setattr("holdfast.cli.output.utcnow", lambda: utcnow() + timedelta(days=365))
    for command in (("workers", "list"), ("workers", "show", "clerk")):
        assert " d ago" not in desk.on_store(*command).out
    assert " d ago" not in desk.on_store("health", "--name", "nobody").out


def test_a_worker_is_told_to_leave_by_name_or_id(desk: Desk) -> None:
    clerk = desk.seed(lambda scene: scene.hire(name="clerk", lease=600.0))
    desk.seed(lambda scene: scene.hire(name="sleeper", lease=-5.0))
    assert desk.on_store("workers", "drain", clerk).out == "draining clerk\n"
    document = desk.json("workers", "drain", "clerk", "sleeper", "clerk")
    assert [one["name"] for one in document["draining"]] == ["clerk", "sleeper"]
    assert len(document["lapsed"]) == 1
    listed = {one["name"]: one["standing"] for one in desk.json("workers", "list")["workers"]}
    assert (listed["clerk"], listed["sleeper"]) == ("draining", "lapsed")
    assert "2 alive, 1 draining, 1 lapsed" in desk.on_store("workers", "list").out
    desk.seed(lambda scene: scene.hire(name="baker", lease=600.0))
    told = desk.on_store("workers", "drain", "baker", "nobody")
    assert (told.code, "no worker has the id or the name 'nobody'" in told.err) == (1, True)
    listed = {one["name"]: one["standing"] for one in desk.json("workers", "list")["workers"]}
    assert listed["baker"] == "alive", "nothing was changed"
    acts = desk.json("audit", "list", "--verb", "workers.drain")["acts"]
    assert [(act["target"], act["outcome"]) for act in acts] == [
        ("nobody", "refused"),
        ("clerk", "done"),
        ("sleeper", "done"),
        ("clerk", "done"),
        (clerk, "done"),
    ]


def test_waiting_for_a_worker_that_is_not_heard_of_ends_with_a_word(desk: Desk) -> None:
    desk.seed(lambda scene: scene.hire(name="sleeper", lease=-5.0))
    answer = desk.on_store("workers", "drain", "sleeper", "--wait")
    assert answer.code == 1
    assert "sleeper lapsed" in answer.out


def test_health_is_the_lease_of_a_worker_of_this_host_or_name(desk: Desk) -> None:
    desk.seed(lambda scene: scene.hire(lease=30.0, name="clerk-2"))
    desk.seed(lambda scene: scene.hire(lease=-5.0, name="sleeper"))
    document = desk.json("health", "--name", "clerk")
    assert (document["alive"], document["says"]) == (["clerk-2"], "1 worker named 'clerk' alive")
    for arguments, reason in (
        (("--name", "cler"), "no worker named 'cler' is registered"),
        (("--name", "sleeper"), "no worker named 'sleeper' is alive: the last heartbeat was"),
        (("--name", "clerk", "--host", "moon"), "named 'clerk' on host 'moon' is registered"),
        ((), f"no worker on host {platform.node()!r} is registered"),
    ):
        answer = desk.on_store("health", *arguments)
        assert (answer.code, reason in " ".join(answer.out.split())) == (1, True), answer


@pytest.mark.parametrize(
    ("text", "count"), [("512M", 512 << 20), ("2g", 2 << 30), ("1.5KiB", 1536), ("700", 700)]
)
def test_sizes_are_read_as_people_write_them(text: str, count: int) -> None:
    assert size(text) == count


@pytest.mark.parametrize("text", ["", "M", "12X", "-1M", "1 000"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write it as 512M or 2G"):
        size(text)


# migrate and the program itself -------------------------------------------------------------


def test_migrating_tells_what_was_applied_and_the_second_time_nothing(desk: Desk) -> None:
    assert desk.json("migrate")["applied"] != []
    assert desk.json("migrate") == {"applied": [], "store": desk.url}


def test_the_migrations_can_be_read_as_sql(desk: Desk) -> None:
    assert "create table holdfast_job" in desk.on_store("migrate", "--sql").out
    assert "create table holdfast_job" in desk.json("migrate", "--sql")["sql"]
    assert not (desk.folder / "jobs.db").exists()


def test_the_version_is_told(desk: Desk) -> None:
    assert desk.run("--version").out.startswith("holdfast ")


def paths(command: click.Command, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of every group and command, the program itself first."""
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from paths(below, *words, name)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_help_of_each_begins_with(name: str) -> None:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    assert command.get_short_help_str(1_000) == COMMANDS[name].about


@pytest.mark.parametrize("words", list(paths(program)), ids=" ".join)
def test_every_help_page_fits_a_small_terminal_and_cuts_nothing(
    desk: Desk, words: tuple[str, ...]
) -> None:
    answer = desk.run(*words, "--help", width=80)
    assert (answer.code, answer.err) == (0, "")
    about, _, options = answer.out.partition("Options:")
    assert answer.out.startswith(f"Usage: holdfast {' '.join(words)}".rstrip())
    assert len(about.splitlines()) >= 3, "it says what it is for"
    assert max(len(line) for line in answer.out.splitlines()) <= 80
    assert "..." not in options.replace("[ARGS]...", "")


BYTES = "\udc80"  # what a shell hands over that is no UTF-8
CALENDAR = "99999999999999999999"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobs", "list", "--since", CALENDAR], "--since must be a time"),
        (["audit", "list", "--until", CALENDAR], "--until must be a time"),
        (["schedules", "preview", "n", "--to", f"+{CALENDAR}"], "--to is past the end"),
        (["schedules", "create", "n", "--task", "send", "--args", BYTES], "must be UTF-8 text"),
        (["schedules", "edit", "n", "--cron", BYTES], "must be UTF-8 text"),
        (["enqueue", "send", "--import", ""], "imports must be names of modules"),
        (["worker", "--import", ".tasks", "--burst"], "imports must be names of modules"),
        (["worker", "--processes", CALENDAR], "not in the range 1<=x<=1000"),
    ],
)
def test_a_value_that_no_option_can_have_is_a_wrong_call(
    desk: Desk, words: list[str], said: str
) -> None:
    answer = desk.on_store("--app", desk.shop(), *words)
    assert (answer.code, answer.out) == (2, ""), answer.err
    assert said in answer.err


@pytest.mark.parametrize("words", [["jbos"], ["jobs", "list", "--nope"], ["jobs", "show"]])
def test_a_call_that_does_not_parse_is_a_wrong_call(desk: Desk, words: list[str]) -> None:
    answer = desk.run(*words)
    assert (answer.code, answer.out) == (2, "")
    assert "Error: " in answer.err


@pytest.mark.parametrize(
    ("text", "queues"),
    [
        ("mail", {"mail": 50}),
        ("mail:10,default:50", {"mail": 10, "default": 50}),
        ("eu:mail:3, eu:bulk:50", {"eu:mail": 3, "eu:bulk": 50}),
        ("ai:20,mail:2+3,a:b:0+1", {"ai": 20, "mail": Slots(2, 3), "a:b": Slots(0, 1)}),
    ],
)
def test_slots_stand_after_the_last_colon(text: str, queues: dict[str, int | Slots]) -> None:
    assert parse_queues(text) == queues


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "--queues must name a queue"),
        (",", "--queues must name a queue"),
        (":5", "queue must be 1 to 128 letters"),
        ("mail,mail:3", "--queues names 'mail' twice"),
        ("ma il", "queue must be 1 to 128 letters"),
        ("mail:0", "queue 'mail': slots must be a whole number, at least 1, got 0"),
        ("mail:x", "must stand its slots, as in 'mail:50'; for a queue of that name say"),
        ("mail:-1", "must stand its slots, as in 'mail:50'"),
    ],
)
def test_queues_that_make_no_sense_are_a_wrong_call(desk: Desk, text: str, said: str) -> None:
    answer = desk.run("worker", f"{desk.shop()}:app", "--queues", text, "--burst")
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert said in answer.err


def test_every_option_of_a_worker_may_be_set_in_the_environment(desk: Desk) -> None:
    shown = " ".join(desk.run("worker", "--help").out.split())
    command = program.get_command(click.Context(program), "worker")
    assert command is not None
    options = [param for param in command.params if isinstance(param, click.Option)]
    for option in options:
        if not option.hidden and option.name != "as_json":
            variable = f"HOLDFAST_{str(option.name).upper()}"
            assert variable in shown, option.name
            assert option.envvar in (variable, None), "None: it is a setting of the program"


def test_a_worker_does_what_its_environment_says(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = f"{desk.shop()}:app"
    desk.run("enqueue", "send", "-a", "to=ann", "--app", app)
    given = {
        "QUEUES": "other:3",
        "BURST": "1",
        "NAME": "clerk",
        "THREADS": "2",
        "LOG_LEVEL": "info",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"HOLDFAST_{name}", value)
    assert desk.run("worker", app, "--json").json["ended"] == 0
    assert desk.run("worker", app, "--queues", "mail", "--json").json["ended"] == 1
    monkeypatch.setenv("HOLDFAST_THREADS", "none")
    answer = desk.run("worker", app)
    assert answer.code == 2
    assert "HOLDFAST_THREADS" in answer.err or "--threads" in answer.err


def test_a_job_enqueued_by_the_command_line_is_run_by_it(desk: Desk) -> None:
    app = f"{desk.shop()}:app"
    made = desk.run("enqueue", "send", "-a", "to=ann", "--app", app, "--json").json["id"]
    answer = desk.run("worker", app, "--burst", "--json")
    assert answer.code == 0, "the queue of the app's task is served unasked"
    assert (answer.json["ended"], answer.json["handed_back"]) == (1, 0)
    shown = desk.json("jobs", "show", made)
    assert (shown["state"], shown["result"]) == (JobState.SUCCEEDED, "ann")


def test_ctrl_c_while_a_command_is_still_imported_is_told_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class PressesCtrlC:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "holdfast.cli.program":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "holdfast.cli.program")
    monkeypatch.setattr(sys, "meta_path", [PressesCtrlC(), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["holdfast", "jobs", "list"])
    with pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code, capsys.readouterr().err) == (130, "interrupted\n")
