"""The command line as real processes: signals, children, changes of code, the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from holdfast.job.state import JobState
from holdfast.store.contract.filters import JobFilter
from holdfast.store.contract.store import Store
from holdfast.testing.servers import PostgresServer
from tests.conformance.builders import new_job
from tests.support.backends import opened
from tests.support.shell import (
    SHOP,
    STARTS,
    Shell,
    alive,
    ended,
    enqueue,
    wait_for_state,
    wait_for_workers,
)
from tests.support.waiting import wait_until


@pytest.fixture
async def store(shell: Shell) -> AsyncIterator[Store]:
    """The test's own look at the shop's store."""
    async with opened(shell.url) as store:
        yield store


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_hands_running_work_back_and_leaves_cleanly(
    shell: Shell, store: Store, number: signal.Signals
) -> None:
    job = await enqueue(store, "sleep", seconds=600)
    worker = shell.start("worker", "shop:app", "--grace", "0")
    await wait_for_state(store, job, JobState.RUNNING)
    worker.send_signal(number)
    code, _, err = ended(worker)
    [found] = await store.jobs.get([job])
    assert code == 0
    assert "Traceback" not in err
    assert "stopped: 0 jobs ended, 1 handed back" in err
    assert (found.state, found.attempts) == (JobState.READY, 0)
    assert await alive(store) == []


async def test_a_second_signal_does_not_wait_for_the_grace(shell: Shell, store: Store) -> None:
    job = await enqueue(store, "sleep", seconds=600)
    worker = shell.start("worker", "shop:app", "--grace", "1h")
    await wait_for_state(store, job, JobState.RUNNING)
    worker.send_signal(signal.SIGTERM)
    # A process that has not yet heard the first of two equal signals only ever hears one.
    assert any("signal=SIGTERM immediate=False" in line for line in worker.told())
    worker.send_signal(signal.SIGTERM)
    code, _, err = ended(worker, within=20)
    assert code == 0
    assert "1 handed back" in err


async def test_the_first_log_line_says_where_and_what_it_serves(shell: Shell, store: Store) -> None:
    _, _, err = shell.run("worker", "shop:app", "--queues", "mail:3,default", "--burst")
    first = err.splitlines()[0]
    for fact in ("sqlite store", store.durability, "mail:3, default:50", "2 tasks"):
        assert fact in first


async def test_json_logs_are_one_object_a_line(shell: Shell) -> None:
    _, _, err = shell.run("worker", "shop:app", "--burst", "--json-logs", "--json")
    lines = [json.loads(line) for line in err.splitlines()]
    assert "worker.started" in {line.get("event") for line in lines}
    assert {"at", "level", "logger"} <= set(lines[0])


async def test_a_burst_ends_when_nothing_is_left(shell: Shell, store: Store) -> None:
    await store.jobs.insert([new_job("greet") for _ in range(20)])
    code, out, _ = shell.run("worker", "shop:app", "--burst", "--json")
    assert code == 0
    assert json.loads(out)["ended"] == 20
    assert await store.jobs.count(JobFilter()) == {JobState.SUCCEEDED: 20}


async def test_a_burst_of_several_processes_ends_too(shell: Shell, store: Store) -> None:
    await store.jobs.insert([new_job("greet") for _ in range(50)])
    code, _, err = shell.run("worker", "shop:app", "--burst", "--processes", "2")
    assert code == 0, err
    assert await store.jobs.count(JobFilter()) == {JobState.SUCCEEDED: 50}


async def test_children_serve_the_patterns_of_their_parent(shell: Shell, store: Store) -> None:
    queues = [f"tenant-{number}" for number in range(5)]
    await store.jobs.insert([new_job("greet", queue=queue) for queue in queues])
    call = ["worker", "shop:app", "--queues", "tenant*:2,default", "--strict"]
    code, _, err = shell.run(*call, "--burst", "--processes", "2")
    assert code == 0, err
    assert "queues tenant*:2, default:50" in err
    assert await store.jobs.count(JobFilter()) == {JobState.SUCCEEDED: 5}


async def test_a_killed_child_is_replaced_and_a_signal_ends_them_all(
    shell: Shell, store: Store
) -> None:
    parent = shell.start("worker", "shop:app", "--processes", "2", "--json")
    first = await wait_for_workers(store, 2)
    assert parent.pid not in first
    victim = min(first)
    os.kill(victim, signal.SIGKILL)
    second = await wait_for_workers(store, 2, but=frozenset({victim}))
    parent.send_signal(signal.SIGTERM)
    code, out, err = ended(parent)
    assert code == 0
    assert json.loads(out) == {"processes": 2, "restarts": 1}
    assert "killed by SIGKILL" in err
    assert not any(psutil.pid_exists(pid) for pid in second)


def test_children_that_were_called_wrongly_are_not_started_again(shell: Shell) -> None:
    code, _, err = shell.run("worker", "shop:app", "--processes", "2", "--queues", "mail:0")
    assert code == 2
    assert "error: queue 'mail': slots must be a whole number, at least 1, got 0" in err


async def test_children_leave_when_their_parent_is_killed(shell: Shell, store: Store) -> None:
    parent = shell.start("worker", "shop:app", "--processes", "2")
    children = await wait_for_workers(store, 2)
    parent.kill()

    async def all_left() -> bool:
        return not await alive(store) and not any(psutil.pid_exists(pid) for pid in children)

    await wait_until(all_left, STARTS, "the children have left in good order")


async def test_changed_code_starts_the_worker_anew(shell: Shell, store: Store) -> None:
    parent = shell.start("worker", "shop:app", "--reload")
    before = await wait_for_workers(store, 1)
    shell.app.write_text(
        SHOP.format(url=shell.url)
        + "\n\n@app.task(name='added')\nasync def added() -> None:\n    pass\n"
    )
    await wait_for_workers(store, 1, but=frozenset(before))
    job = await enqueue(store, "added")
    await wait_for_state(store, job, JobState.SUCCEEDED)
    parent.send_signal(signal.SIGINT)
    code, _, err = ended(parent)
    assert code == 0
    assert "changed: shop.py" in err


async def test_broken_code_waits_for_the_next_change(shell: Shell, store: Store) -> None:
    whole = shell.app.read_text()
    parent = shell.start("worker", "shop:app", "--reload")
    before = await wait_for_workers(store, 1)
    shell.app.write_text("this is not Python")
    await wait_for_workers(store, 0)
    shell.app.write_text(whole)
    await wait_for_workers(store, 1, but=frozenset(before))
    parent.send_signal(signal.SIGTERM)
    assert ended(parent)[0] == 0


def test_the_version_is_told_without_loading_what_draws(shell: Shell) -> None:
    code = (
        "import sys; sys.argv = ['holdfast', '--version']\n"
        "from holdfast.cli.main import main; main()\n"
        "assert not {'click', 'rich', 'asyncpg'} & set(sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("holdfast ")


def test_a_worker_loads_nothing_that_only_draws_or_checks(shell: Shell) -> None:
    code = (
        "import sys; sys.argv = ['holdfast', 'worker', 'shop:app', '--burst']\n"
        "from holdfast.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        "    loaded = {'pydantic', 'typer', 'rich', 'holdfast.cli.jobs'} & set(sys.modules)\n"
        "    print(sorted(loaded))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=shell.folder, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "[]\n"), ran.stderr


def test_the_package_is_the_command_too(shell: Shell) -> None:
    command = [sys.executable, "-m", "holdfast", "jobs", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("Usage: holdfast jobs ")


async def test_processes_of_the_environment_are_not_started_by_the_children_again(
    shell: Shell, store: Store
) -> None:
    shell.environment = {"HOLDFAST_PROCESSES": "2", "HOLDFAST_NAME": "clerk"}
    parent = shell.start("worker", "shop:app", "--threads", "3", "--child-processes", "1")
    await wait_for_workers(store, 2)
    assert {worker.name for worker in await alive(store)} == {"clerk-1", "clerk-2"}
    assert len(psutil.Process(parent.pid).children(recursive=True)) == 2
    parent.send_signal(signal.SIGTERM)
    assert ended(parent)[0] == 0


def test_the_demo_shows_its_summary_and_keeps_its_promises(shell: Shell) -> None:
    code, out, err = shell.run("demo", "--quick")
    assert code == 0, err
    assert "every one ended as it must" in out
    assert err == ""


async def test_an_interrupted_demo_leaves_nothing(shell: Shell, tmp_path: Path) -> None:
    process = shell.start("demo")
    assert "a worker starts" in next(process.printed())
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code == 130
    assert "Traceback" not in err
    assert not any(child.is_running() for child in children)


async def test_the_demo_on_postgres_drops_its_schema(
    shell: Shell, postgres: PostgresServer
) -> None:
    url = postgres.new_database()
    code, out, err = shell.run("demo", "--quick", "--json", "--url", url)
    assert code == 0, err
    document = json.loads(out)
    assert document["problems"] == []
    nodes = sum(document["flow"]["nodes"].values())
    assert sum(row["enqueued"] for row in document["tasks"]) + nodes == document["jobs"]
    assert document["flow"]["nodes"] == {"succeeded": 12, "cancelled": 1}
    connection = await asyncpg.connect(url)
    try:
        left = await connection.fetch("select nspname from pg_namespace")
    finally:
        await connection.close()
    assert not [row[0] for row in left if row[0].startswith("holdfast")]


async def test_the_doctor_says_that_a_migration_is_missing_and_is_content_after_it(
    shell: Shell, postgres: PostgresServer
) -> None:
    url = postgres.new_database()
    code, out, _ = shell.run("doctor", "--json", "--url", url)
    [finding] = json.loads(out)["findings"]
    assert code == 1
    assert finding["check"] == "schema"
    assert "holdfast migrate" in finding["advice"]
    assert shell.run("jobs", "list", "--url", url)[0] == 1
    assert json.loads(shell.run("migrate", "--json", "--url", url)[1])["applied"] != []
    code, out, _ = shell.run("doctor", "--json", "--url", url)
    assert (code, json.loads(out)["healthy"]) == (0, True)


EQUIPPED = """
from contextlib import asynccontextmanager

from holdfast import App, Shared

app = App({url!r}, lease=2)


@asynccontextmanager
async def engine():
    print("engine entered", flush=True)
    try:
        yield "engine"
    finally:
        print("engine left", flush=True)


def broken(of: str = Shared(engine)) -> str:
    raise ConnectionError("no such database")


@app.task(name="greet")
async def greet(name: str, it: str = Shared({resource})) -> str:
    return name
"""


async def test_a_shared_resource_that_cannot_be_entered_ends_the_worker(
    shell: Shell, store: Store
) -> None:
    shell.app.write_text(EQUIPPED.format(url=shell.url, resource="broken"))
    job = await enqueue(store, "greet", name="Ada")
    code, out, err = shell.run("worker", "shop:app")
    assert (code, out.split("\n")[:2]) == (1, ["engine entered", "engine left"])
    assert "no such database" in err
    assert "Traceback" in err
    assert "in broken" in err
    [found] = await store.jobs.get([job])
    assert (found.state, found.attempts) == (JobState.READY, 0)


async def test_shared_resources_are_left_when_a_signal_ends_the_worker(
    shell: Shell, store: Store
) -> None:
    shell.app.write_text(EQUIPPED.format(url=shell.url, resource="engine"))
    job = await enqueue(store, "greet", name="Ada")
    process = shell.start("worker", "shop:app")

    async def it_ran() -> bool:
        return (await store.jobs.get([job]))[0].state is JobState.SUCCEEDED

    await wait_until(it_ran, STARTS, "the job ran")
    process.send_signal(signal.SIGTERM)
    code, out, _ = ended(process)
    assert (code, out.split("\n")[:2]) == (0, ["engine entered", "engine left"])
