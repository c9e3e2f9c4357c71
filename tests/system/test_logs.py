"""What a worker writes to its log, as real processes and beside a program that logs itself."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import App, Context, Fail, Retry
from holdfast.job.ids import JobId
from holdfast.job.policy import Policy
from holdfast.logs import JobFields
from holdfast.store.contract.store import Store
from tests.conformance.builders import new_job
from tests.support.backends import opened
from tests.support.shell import Shell
from tests.support.working import ONCE

PROGRAM = """
import logging

from holdfast import App, Cancel

{set_up}
log = logging.getLogger("shop.mail")
app = App({url!r}, lease=5)


@app.task(name="good")
async def good() -> None:
    log.info("on the loop")


@app.task(name="plain")
def plain() -> None:
    log.info("in a thread")


@app.task(name="child", process=True)
def child() -> None:
    log.info("in a child")


@app.task(name="bad_child", process=True)
def bad_child() -> None:
    raise KeyError("of a child")


@app.task(name="bad")
async def bad() -> None:
    raise ValueError("no such order")


@app.task(name="later")
async def later() -> None:
    raise OSError("not reached")


@app.task(name="unwanted")
async def unwanted() -> None:
    raise Cancel("not wanted")


@app.task(name="warns")
async def warns() -> None:
    logging.getLogger("django.tasks").warning("by way of django")
    logging.getLogger("shop").warning("by way of the shop")
"""
LATER = Policy(retry=Retry(max_attempts=2, base=3600))
LINE = re.compile(r"^\S+ \S+ (\w+) +(\S+) \[(\w+) (\S+)\] (.*)$", re.MULTILINE)


@pytest.fixture
async def store(shell: Shell) -> AsyncIterator[Store]:
    async with opened(shell.url) as store:
        yield store


async def enqueued(store: Store, *tasks: str) -> dict[str, JobId]:
    jobs = [new_job(task, args="{}", policy=LATER if task == "later" else ONCE) for task in tasks]
    await store.jobs.insert(jobs)
    return {job.task: job.id for job in jobs}


def worked(shell: Shell, *options: str, set_up: str = "") -> str:
    """What a worker wrote to standard error until nothing was left to do."""
    shell.app.write_text(PROGRAM.format(url=shell.url, set_up=set_up))
    code, _, err = shell.run("worker", "shop:app", "--burst", *options)
    assert code == 0, err
    return err


async def test_each_job_has_its_line_and_each_line_of_a_handler_names_its_job(
    shell: Shell, store: Store
) -> None:
    jobs = await enqueued(store, "good", "plain", "child", "bad", "later", "bad_child", "unwanted")
    err = worked(shell)
    said = {
        (level, logger, task, message.partition(" ")[0] if "=" in message else message)
        for level, logger, task, job, message in LINE.findall(err)
        if job == jobs[task]
    }
    assert said == {
        ("INFO", "shop.mail", "good", "on the loop"),
        ("INFO", "shop.mail", "plain", "in a thread"),
        ("INFO", "shop.mail", "child", "in a child"),
        *(("INFO", "holdfast.jobs", task, "job.succeeded") for task in ("good", "plain", "child")),
        ("INFO", "holdfast.jobs", "unwanted", "job.cancelled"),
        ("WARNING", "holdfast.jobs", "later", "job.attempt_failed"),
        ("ERROR", "holdfast.jobs", "bad", "job.attempt_failed"),
        ("ERROR", "holdfast.jobs", "bad_child", "job.attempt_failed"),
    }
    assert len(LINE.findall(err)) == len(said), "no line is there twice"
    assert err.count("Traceback") == 2, "only a final failure has its traceback"
    assert 'raise KeyError("of a child")' in err
    assert 'raise ValueError("no such order")' in err
    assert "reason='not wanted'" in err
    assert "leader." not in err
    assert "job.started" not in err


async def test_json_lines_have_one_vocabulary_whoever_logs(shell: Shell, store: Store) -> None:
    jobs = await enqueued(store, "good", "child", "bad", "later")
    err = worked(shell, "--json-logs", "--log-level", "debug", "--json")
    lines = [json.loads(line) for line in err.splitlines()]
    assert all({"at", "level", "logger", "message"} <= line.keys() for line in lines)
    own = {"holdfast.jobs": "worker", "shop.mail": "message"}
    for line in [line for line in lines if line["logger"] in own]:
        assert line["job_id"] == jobs[line["task"]]
        assert {"queue", "attempt", "fence", own[line["logger"]]} <= line.keys()
    told = [
        (line["level"], line["event"], line["task"], line["attempt"], "exception" in line)
        for line in lines
        if line["logger"] == "holdfast.jobs" and line["task"] != "child"
    ]
    assert sorted(told) == [
        ("debug", "job.started", "bad", 1, False),
        ("debug", "job.started", "good", 1, False),
        ("debug", "job.started", "later", 1, False),
        ("error", "job.attempt_failed", "bad", 1, True),
        ("info", "job.succeeded", "good", 1, False),
        ("warning", "job.attempt_failed", "later", 1, True),
    ]
    assert {line["level"] for line in lines if "leader." in line.get("event", "")} == {"debug"}


DJANGO = """
import django
from django.conf import settings

settings.configure(DEBUG=True, LOGGING={
    "version": 1,
    "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}},
    "formatters": {"own": {"format": "SHOP %(message)s"}},
    "loggers": {"shop": {"handlers": ["own"], "level": "INFO"}},
})
django.setup()
"""


@pytest.mark.parametrize("options", [[], ["--json-logs", "--json"]])
async def test_lines_of_a_program_with_djangos_logging_come_once(
    shell: Shell, store: Store, options: list[str]
) -> None:
    await enqueued(store, "good", "warns")
    err = worked(shell, *options, set_up=DJANGO)
    for text in ("by way of django", "by way of the shop", "on the loop"):
        assert err.count(text) == 1, err
    # Django disables every logger that it does not name: also ours, which exist by then.
    assert err.count("job.succeeded") == 2 * (1 + bool(options)), err
    if options:
        assert all(json.loads(line)["logger"] for line in err.splitlines())
    else:
        assert "SHOP on the loop" in err, "the program's own format is kept"


BASIC_CONFIG = """
logging.basicConfig(format="OWN %(name)s %(job_id)s %(message)s")
"""


async def test_lines_of_a_program_with_basic_config_come_once_in_its_format(
    shell: Shell, store: Store
) -> None:
    jobs = await enqueued(store, "good", "warns")
    err = worked(shell, set_up=BASIC_CONFIG)
    lines = [line.split(" ", 3) for line in err.splitlines() if line.startswith("OWN")]
    assert ["OWN", "shop", jobs["warns"], "by way of the shop"] in lines
    assert len(lines) == len(err.splitlines()) - 1, "all but the last words of the command"
    ended = [job for _, _, job, message in lines if message.startswith("job.succeeded")]
    assert sorted(ended) == sorted(jobs.values())
    assert "on the loop" not in err, "the program's level counts for its own loggers"


async def test_a_level_that_is_asked_for_counts_and_warning_is_quiet(
    shell: Shell, store: Store
) -> None:
    await enqueued(store, "good", "bad", "later")
    shell.environment["HOLDFAST_LOG_LEVEL"] = "warning"
    err = worked(shell)
    assert {level for level, *_ in LINE.findall(err)} == {"WARNING", "ERROR"}, err
    assert "worker.started" not in err


LIBRARY = """
import logging, sys
import shop

def state():
    loggers = [logging.getLogger(name) for name in ("", "holdfast", "holdfast.jobs", "shop")]
    return [(one.level, one.handlers, [h.filters for h in one.handlers]) for one in loggers]

if "set up" in sys.argv:
    logging.basicConfig(level="INFO", format="MINE %(message)s")
before = repr(state())
shop.app.run_worker(burst=True)
assert repr(state()) == before
"""


async def test_a_worker_in_a_program_of_the_user_touches_no_logging(
    shell: Shell, store: Store
) -> None:
    shell.app.write_text(PROGRAM.format(url=shell.url, set_up=""))
    (shell.folder / "library.py").write_text(LIBRARY)
    for how, lines in (("set up", 1), ("nothing", 0)):
        await enqueued(store, "good")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "library.py", how),
            cwd=shell.folder,
            stderr=asyncio.subprocess.PIPE,
        )
        _, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        assert err.decode().count("MINE job.succeeded") == lines
        assert len(err.decode().splitlines()) == 0 or lines, err.decode()


# Inside one process ------------------------------------------------------------------------


async def test_a_final_failure_is_an_error_with_the_exception_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, problem = App("sqlite://"), Fail("never again")

    @app.task(name="fails")
    def fails() -> None:
        raise problem

    async with app:
        handle = await fails.enqueue()
        async with app.worker() as worker:
            await worker.drain()
    [record] = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is problem
    assert (vars(record)["job_id"], vars(record)["fields"]["next"]) == (handle.id, "failed")
    assert "never again" in record.getMessage()


async def test_nothing_is_made_for_lines_that_nobody_writes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App("sqlite://")
    caplog.set_level("WARNING", logger="holdfast.jobs")
    async with app, app.worker() as worker:
        assert worker._pipeline is not None
        assert worker._pipeline.executor.on_begin is None


async def test_two_workers_of_an_app_share_the_lines(caplog: pytest.LogCaptureFixture) -> None:
    app = App("sqlite://")

    @app.task(name="one")
    async def one() -> None: ...

    caplog.set_level("INFO", logger="holdfast.jobs")
    async with app, app.worker() as first:
        async with app.worker():
            await one.enqueue()
            await first.drain()
        await one.enqueue()
        await first.drain()
    ended = [record for record in caplog.records if "job.succeeded" in record.getMessage()]
    assert len(ended) == 2
    assert not app.events.wants("job.succeeded")


async def test_records_of_every_logger_of_a_handler_carry_the_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App("sqlite://")
    caplog.handler.addFilter(fields := JobFields("-"))
    caplog.set_level("INFO", logger="library")
    library = logging.getLogger("library")

    @app.task(name="deep", queue="mail", retry=Retry.never())
    async def deep(ctx: Context) -> int:
        library.info("deep")
        await asyncio.to_thread(library.info, "in a thread of its own")
        return ctx.fence

    library.info("outside")
    try:
        async with app:
            handle = await deep.enqueue()
            async with app.worker() as worker:
                await worker.drain()
            fence = await handle.result()
    finally:
        caplog.handler.removeFilter(fields)

    def about(record: Any) -> tuple[Any, ...]:
        return record.job_id, record.task, record.queue, record.attempt, record.fence

    by_name = {one.getMessage(): about(one) for one in caplog.records if one.name == "library"}
    assert by_name.pop("outside") == ("-",) * 5
    assert by_name == dict.fromkeys(
        ("deep", "in a thread of its own"), (handle.id, "deep", "mail", 1, fence)
    )
