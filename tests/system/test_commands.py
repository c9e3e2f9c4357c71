"""Programs as tasks: `app.command`, `app.allow_commands`, and that no program outlives its attempt.

What a program does is the same on every store, so one store is enough here."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast import App, BadArguments, BadOption, BadTask, CommandOutput, JobCancelled, JobFailed
from holdfast.declaring.commands import CommandTask
from holdfast.handlers.piping import Kept
from tests.support.leaks import nothing_leaks
from tests.support.waiting import wait_until

TWO = "sleep 1000 & echo $$ $! > {note}; wait"
"""A shell and its child, which write down who they are."""


@pytest.fixture
def app() -> App:
    return App("sqlite://")


@asynccontextmanager
async def working(app: App) -> AsyncIterator[None]:
    async with nothing_leaks(), app, app.worker(queues={"default": 4}):
        yield


async def output(task: CommandTask, **values: str | float) -> CommandOutput:
    return await (await task.enqueue(**values)).result(timeout=20)


async def failure(task: CommandTask, *args: object, **values: str | float) -> str:
    with pytest.raises(JobFailed) as failed:
        await (await task.enqueue(*args, **values)).result(timeout=20)
    return str(failed.value).partition("failed: ")[2]


def shell(app: App, script: str, name: str = "script", **options: Any) -> CommandTask:
    return app.command(name, ["sh", "-c", script], retry=1, **options)


async def noted(note: Path) -> list[int]:
    await wait_until(lambda: len(pids_in(note)) == 2, 10, "both have begun")
    return pids_in(note)


def pids_in(note: Path) -> list[int]:
    return [int(pid) for pid in note.read_text().split()] if note.exists() else []


def all_gone(pids: Iterable[int]) -> bool:
    return not any(psutil.pid_exists(pid) for pid in pids)


# What is run ---------------------------------------------------------------------------------


async def test_arguments_fill_whole_words_and_no_shell_reads_them(app: App) -> None:
    literal = ["{{first}}", "{{a b}}", "{}", "{print $1}", "[0-9]{2}"]
    echo = app.command("echo", ["printf", "%s|", "{first}", "{number}", *literal])
    async with working(app):
        said = await output(echo, first="a b; $HOME `id`", number=-1.5)
    texts = "{first}|{a b}|{}|{print $1}|[0-9]{2}|"
    assert said == CommandOutput(0, f"a b; $HOME `id`|-1.5|{texts}", cut=False)


async def test_input_and_variables_may_be_arguments_too(app: App) -> None:
    script = 'cat; printf " %s" "$GREETING"'
    task = shell(app, script, stdin="{text}", env={"GREETING": "{greeting}"})
    async with working(app):
        assert (await output(task, text="Päivää", greeting="-hello")).stdout == "Päivää -hello"


async def test_a_program_that_does_not_read_its_input_is_no_error(app: App) -> None:
    task = app.command("deaf", ["true"], stdin="{text}")
    async with working(app):
        assert await output(task, text="x" * 200_000) == CommandOutput()


async def test_the_settings_of_the_worker_stay_with_it(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "postgres://me:secret@db/jobs")
    monkeypatch.setenv("COLOUR", "green")
    task = shell(app, "env")
    async with working(app):
        seen = (await output(task)).stdout.splitlines()
    assert "COLOUR=green" in seen
    assert not [line for line in seen if "HOLDFAST" in line or "secret" in line]


async def test_a_program_runs_in_the_folder_of_its_command(app: App, tmp_path: Path) -> None:
    task = app.command("where", ["pwd"], cwd=str(tmp_path))
    async with working(app):
        assert (await output(task)).stdout.strip() == str(tmp_path)


async def test_the_output_is_bounded_and_the_program_is_not_held_up(app: App) -> None:
    task = shell(app, "yes ää | head -c 3000000; echo done >&2", max_output=1_000)
    async with working(app):
        said = await output(task)
    assert said.cut
    assert 990 <= len(said.stdout.encode()) <= 1_000
    assert "\ufffd" not in said.stdout


@pytest.mark.parametrize("first", [True, False])
async def test_kept_output_is_cut_between_characters(first: bool) -> None:
    kept, stream = Kept(5, first=first), asyncio.StreamReader()
    stream.feed_data("äöü€".encode())
    stream.feed_eof()
    await kept.read(stream)
    assert (kept.text, kept.cut) == ("äö" if first else "ü€", True)


# How it ends -----------------------------------------------------------------------------------


async def test_any_exit_code_but_0_is_an_error_with_the_end_of_what_was_said(app: App) -> None:
    task = shell(app, "seq 10000 >&2; echo the disk is full >&2; exit 3")
    async with working(app):
        said = await failure(task)
    assert said.startswith("'sh' ended with exit code 3: ")
    assert said.endswith("10000\nthe disk is full")
    assert len(said) < 4_200


async def test_a_signal_that_ended_the_program_is_named(app: App) -> None:
    task = shell(app, "kill -SEGV $$")
    async with working(app):
        assert await failure(task) == "'sh' ended with signal SIGSEGV, and wrote nothing about it"


async def test_a_program_that_is_not_installed_fails_its_attempt_by_name(app: App) -> None:
    task = app.command("missing", ["no-such-program"], retry=1)
    async with working(app):
        assert "'no-such-program' cannot be started: FileNotFoundError" in await failure(task)


async def test_a_timeout_ends_the_program_and_what_it_started(app: App, tmp_path: Path) -> None:
    """The defect of the seed: a timeout left the child running."""
    task = shell(app, TWO.format(note=tmp_path / "note"), timeout=1)
    async with working(app):
        said = await failure(task)
        assert "timed out after 1 s" in said
        assert all_gone(await noted(tmp_path / "note"))


async def test_a_program_that_ignores_the_request_to_end_is_killed(
    app: App, tmp_path: Path
) -> None:
    script = f"trap '' TERM; {TWO.format(note=tmp_path / 'note')}; sleep 1000"
    task = shell(app, script, timeout=1, patience=0.2)
    async with working(app):
        await failure(task)
        assert all_gone(await noted(tmp_path / "note"))


async def test_a_cancel_ends_the_program_and_what_it_started(app: App, tmp_path: Path) -> None:
    task = shell(app, TWO.format(note=tmp_path / "note"))
    async with working(app):
        job = await task.enqueue()
        running = await noted(tmp_path / "note")
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(timeout=20)
        assert all_gone(running)


async def test_what_a_program_leaves_behind_ends_with_it(app: App, tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $$ $! > {tmp_path / 'note'}"
    task = shell(app, script)
    async with working(app):
        await output(task)
        running = await noted(tmp_path / "note")
        await wait_until(lambda: all_gone(running), 10, "all are gone")


WORKER = """
import asyncio, sys
from holdfast import App

app = App("sqlite://")
task = app.command("two", ["sh", "-c", sys.argv[1]])


async def main() -> None:
    async with app, app.worker(queues={"default": 1}):
        await task.enqueue()
        await asyncio.sleep(1000)


asyncio.run(main())
"""


async def test_programs_die_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    script = TWO.format(note=tmp_path / "note")
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, script)
    try:
        running = await noted(tmp_path / "note")
        minder = psutil.Process(running[0]).ppid()
    finally:
        worker.kill()
        await worker.wait()
    await wait_until(lambda: all_gone([*running, minder]), 10, "all are gone")


async def test_a_killed_minder_takes_its_programs_along_and_is_replaced(
    app: App, tmp_path: Path
) -> None:
    slow = shell(app, TWO.format(note=tmp_path / "note"))
    quick = app.command("quick", ["echo", "again"])
    async with working(app):
        job = await slow.enqueue()
        running = await noted(tmp_path / "note")
        os.kill(psutil.Process(running[0]).ppid(), signal.SIGKILL)
        with pytest.raises(JobFailed, match="ended with signal SIGKILL"):
            await job.result(timeout=20)
        await wait_until(lambda: all_gone(running), 10, "all are gone")
        assert (await output(quick)).stdout == "again\n"


# What is refused ---------------------------------------------------------------------------------


async def test_a_value_cannot_become_an_option(app: App) -> None:
    before = app.command("before", ["rm", "{path}"])
    behind = app.command("behind", ["printf", "%s", "--", "{path}"])
    async with working(app):
        with pytest.raises(BadArguments, match="'path': it begins with -, so the program"):
            await before.enqueue(path="-rf")
        with pytest.raises(BadArguments, match="missing a required argument: 'path'"):
            await before.enqueue()
        assert "-rf" in (await output(behind, path="-rf")).stdout


async def test_a_value_that_no_program_can_be_given_is_refused_at_the_enqueue(app: App) -> None:
    tasks = [
        app.command("option", ["echo", "{text}"]),
        app.command("word", ["echo", "--", "{text}"]),
        app.command("variable", ["env"], env={"TEXT": "{text}"}, stdin="{text}"),
    ]
    own = app.allow_commands(["echo"])
    only_input = app.command("input", ["wc", "-c"], stdin="{text}")
    async with working(app):
        for task in tasks:
            with pytest.raises(BadArguments, match=r"'text': .*it has a NUL character"):
                await task.enqueue(text="a\0b")
            with pytest.raises(BadArguments, match="'text': expected str of length <= 131071"):
                await task.enqueue(text="x" * 131_072)
        with pytest.raises(BadArguments, match=r"'argv' at .*it has a NUL character"):
            await own.enqueue(["echo", "a\0b"])
        assert (await output(only_input, text="a\0" + "x" * 200_000)).stdout == "200002\n"
        assert len((await output(tasks[0], text="x" * 131_071)).stdout) == 65_536


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "begins with the program"),
        (["{program}"], "begins with the program"),
        (["convert", "--size={size}"], "as a word of its own"),
        (["convert", "{a b}"], r"the name of an argument in \{a b\}, or \{\{a b\}\} where"),
        (["convert", "x={ size }"], "the name of an argument in"),
        (["convert", "{the-size}"], "the name of an argument in"),
        ("convert a b", "a list of texts"),
        (["convert", 3], "text"),
        (["convert", "{class}"], "written with another name: class is a word of Python"),
    ],
)
def test_a_bad_command_line_is_refused_when_it_is_declared(app: App, argv: Any, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        app.command("bad", argv)


@pytest.mark.parametrize("env", [["LANG"], {"LANG": 1}, {"LANG=C": "x"}, {"": "x"}, {"A": "\0"}])
def test_bad_variables_are_refused_when_they_are_declared(app: App, env: Any) -> None:
    for declare in (app.command, app.pool):
        with pytest.raises(BadOption, match=r"env|name of a variable"):
            declare("bad", ["convert"], env=env)


def test_a_command_needs_a_name(app: App) -> None:
    with pytest.raises(BadOption, match="task name"):
        app.command(None, ["convert"])  # type: ignore[arg-type]


def test_two_commands_of_one_name_are_refused_with_the_place_of_the_first(app: App) -> None:
    app.command("thumb", ["convert", "{src}"])
    with pytest.raises(BadTask, match=f"already declared at {__file__}:"):
        app.command("thumb", ["convert", "{src}"])


async def test_a_payload_names_a_program_only_if_the_app_allows_it(app: App) -> None:
    run = app.allow_commands(["printf"], retry=1)
    async with working(app):
        said = await (await run.enqueue(["printf", "%s", "{x}"])).result(timeout=20)
        assert said.stdout == "{x}"
        for argv in (["rm", "-rf", "x"], ["/usr/bin/printf", "x"], []):
            assert "one of the allowed programs: printf" in await failure(run, argv)


def test_without_allowed_programs_there_is_no_task_for_command_lines(app: App) -> None:
    app.command("thumb", ["convert", "{src}"])
    assert "holdfast.command" not in app.tasks
    with pytest.raises(BadOption, match="the names of programs"):
        app.allow_commands([])
