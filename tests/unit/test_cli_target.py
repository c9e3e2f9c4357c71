"""Which app and which store a command finds, and what it says when it finds none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.cli.target import shown_url
from tests.unit.cli import Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return desk_in(tmp_path, monkeypatch)


def test_a_module_alone_means_its_only_app(desk: Desk) -> None:
    answer = desk.run("enqueue", "send", "-a", "to=ann", "--app", desk.shop(), "--json")
    assert answer.json["how"] == "created"


def test_an_eager_app_answers_with_the_result_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_EAGER", "1")
    call = ["enqueue", "send", "-a", "to=ann", "--app", desk.shop(), "--json", "--wait", "5s"]
    assert desk.run(*call).json["result"] == "ann"


def test_a_module_that_is_not_there_is_named_with_the_folder(desk: Desk) -> None:
    answer = desk.run("worker", "nowhere:app")
    assert answer.code == 2
    assert "no module 'nowhere'" in answer.err
    assert str(desk.folder) in answer.err


def test_a_wrong_attribute_is_answered_with_the_apps_that_are_there(desk: Desk) -> None:
    answer = desk.run("worker", f"{desk.shop()}:queue")
    assert answer.code == 2
    assert "has no 'queue'; it holds the Apps app" in answer.err


def test_an_attribute_that_is_no_app_is_refused_with_its_type(desk: Desk) -> None:
    answer = desk.run("worker", f"{desk.shop()}:other")
    assert answer.code == 2
    assert "is a str, not an App; the module holds the Apps app" in answer.err


def test_a_module_that_breaks_shows_its_own_traceback(desk: Desk) -> None:
    (desk.folder / "broken_shop.py").write_text("import a_library_that_is_missing\n")
    answer = desk.run("worker", "broken_shop:app")
    assert answer.code == 1
    assert "broken_shop.py" in answer.err
    last = answer.err.strip().splitlines()[-1]
    assert last.startswith("error: module 'broken_shop' cannot be imported: ModuleNotFoundError")


def test_a_worker_without_any_app_is_told_how_to_name_one(desk: Desk) -> None:
    answer = desk.run("worker")
    assert answer.code == 2
    assert "module:attribute" in answer.err


def test_the_app_of_the_settings_leads_to_its_store(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.seed(lambda scene: scene.enqueue("greet"))
    monkeypatch.setenv("HOLDFAST_APP", f"{desk.shop()}:app")
    assert len(desk.run("jobs", "list", "--json").json["jobs"]) == 1


def test_a_url_before_the_command_counts_like_one_after_it(desk: Desk) -> None:
    desk.seed(lambda scene: scene.enqueue())
    answer = desk.run("--url", desk.url, "--json", "jobs", "list")
    assert len(answer.json["jobs"]) == 1


def test_looking_at_a_store_that_is_not_there_makes_none(desk: Desk) -> None:
    answer = desk.run("jobs", "list")
    assert answer.code == 1
    assert answer.err.startswith("error: no store at ")
    assert list(desk.folder.iterdir()) == []


@pytest.mark.parametrize("command", ["jobs list", "queues list", "workers list", "schedules list"])
def test_looking_at_a_file_of_another_program_leaves_it_as_it_was(desk: Desk, command: str) -> None:
    with closing(sqlite3.connect(desk.folder / "jobs.db")) as connection:
        connection.execute("create table orders (id integer primary key)")
    before = (desk.folder / "jobs.db").read_bytes()
    answer = desk.on_store(*command.split())
    assert answer.code == 1
    assert answer.err.startswith(f"error: {desk.folder / 'jobs.db'} has no Holdfast schema")
    assert desk.json("doctor", code=1)["findings"][0]["check"] == "schema"
    assert (desk.folder / "jobs.db").read_bytes() == before
    assert [file.name for file in desk.folder.iterdir()] == ["jobs.db"]


def test_migrating_without_a_named_store_makes_none(desk: Desk) -> None:
    for options in ([], ["--sql"], ["--json"]):
        answer = desk.run("migrate", *options)
        assert answer.code == 2
        assert answer.err.startswith("error: no store named: give --url or --app")
    assert list(desk.folder.iterdir()) == []


def test_enqueueing_without_a_named_store_makes_none(desk: Desk) -> None:
    answer = desk.run("enqueue", "greet")
    assert answer.code == 1
    assert answer.err.startswith("error: no store at ")
    assert list(desk.folder.iterdir()) == []


@pytest.mark.parametrize("way", ["argument", "environment", "app", "settings file"])
def test_migrating_a_named_store_says_where(
    desk: Desk, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[str] = []
    match way:
        case "argument":
            options = ["--url", desk.url]
        case "environment":
            monkeypatch.setenv("HOLDFAST_URL", desk.url)
        case "app":
            options = ["--app", desk.shop()]
        case _:
            (desk.folder / "holdfast.toml").write_text(f"url = {desk.url!r}\n")
    assert f"applied 0001_engine to {desk.url}\n" in desk.run("migrate", *options, width=200).out
    again = desk.run("migrate", *options, width=200).out
    assert again == f"nothing to do: the schema of {desk.url} is up to date\n"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://ann:secret@db:5433/jobs", "postgres://ann@db:5433/jobs"),
        ("postgres://ann:se/c@ret?@db/jobs?schema=a", "postgres://ann@db/jobs?schema=a"),
        ("postgres://db/jobs?password=secret&schema=a", "postgres://db/jobs?schema=a"),
        ("valkey://:secret@cache/0?namespace=shop", "valkey://cache/0?namespace=shop"),
        ("valkey+sentinel://one,two/main?password=secret", "valkey+sentinel://one,two/main"),
        ("sqlite://", "sqlite://"),
        ("sqlite:////var/lib/my%20jobs.db?synchronous=FULL", "sqlite:////var/lib/my jobs.db"),
    ],
)
def test_a_store_is_shown_without_its_password(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_a_file_that_is_no_database_is_one_line(desk: Desk) -> None:
    (desk.folder / "jobs.db").write_text("a shopping list, not a database")
    answer = desk.on_store("jobs", "list")
    assert answer.code == 1
    assert answer.err == f"error: {desk.folder / 'jobs.db'}: file is not a database\n"


def test_a_folder_in_place_of_a_file_is_named_as_one(desk: Desk) -> None:
    answer = desk.run("jobs", "list", "--url", f"sqlite:///{desk.folder}")
    assert answer.code == 1
    assert f"cannot open {desk.folder}: it is a folder" in answer.err


@pytest.mark.parametrize(
    "url",
    ["postgres://ann:secret@127.0.0.1:1/jobs", "mysql://ann:secret@host/db", "ann:secret@h/d"],
)
def test_a_password_is_never_shown(desk: Desk, url: str) -> None:
    for command in (["jobs", "list"], ["doctor"], ["migrate"]):
        answer = desk.run(*command, "--url", url)
        assert answer.code != 0
        assert "secret" not in answer.out + answer.err


def test_a_store_out_of_reach_is_one_line(desk: Desk) -> None:
    answer = desk.run("jobs", "list", "--url", "postgres://ann:secret@127.0.0.1:1/jobs")
    assert answer.code == 1
    assert len(answer.err.strip().splitlines()) == 1
    assert answer.err.startswith("error: ")
