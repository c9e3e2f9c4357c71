"""`holdfast worker`: run jobs until told to stop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.filters import imports_option, wait_option
from holdfast.cli.logs import set_up_logs
from holdfast.cli.output import complain, counted
from holdfast.cli.program import program
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.events import Event
from holdfast.job.checks import check_name

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.worker.last_resort import LastResort
    from holdfast.worker.worker import Worker

DEFAULT_SLOTS = 50
NO_TASKS = (
    'the app has no tasks: name their modules: App(imports=["shop.tasks"]), '
    "app.autodiscover('shop') or --import shop.tasks"
)
logger = logging.getLogger("holdfast")


@dataclass(frozen=True, slots=True)
class WorkerCall:
    """What was asked of `holdfast worker`."""

    locator: str | None
    queues: dict[str, int]
    processes: int
    burst: bool
    times: dict[str, float]
    name: str | None
    log_level: str
    json_logs: bool
    supervised: bool
    imports: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        return {**self.times, **({"name": self.name} if self.name else {})}

    def as_arguments(self, url: str | None) -> list[str]:
        """The same call, as arguments for one child process."""
        queues = ",".join(f"{queue}:{slots}" for queue, slots in self.queues.items())
        arguments = ["worker", *([self.locator] if self.locator else []), "--queues", queues]
        arguments += [f"{_flag(name)}={seconds}" for name, seconds in self.times.items()]
        arguments += ["--log-level", self.log_level, "--supervised"]
        flags = {"--burst": self.burst, "--json-logs": self.json_logs}
        arguments += [flag for flag, wanted in flags.items() if wanted]
        arguments += [f"--import={module}" for module in self.imports]
        return [*arguments, *(["--url", url] if url else [])]


@program.command("worker")
@click.argument("locator", metavar="[APP]", required=False)
@click.option(
    "--queues", "-q", default="default", help="Queues with their slots: mail:10,default:50."
)
@imports_option
@click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="So many worker processes, each with these slots.",
)
@click.option("--burst", is_flag=True, help="Stop when nothing is left to do.")
@click.option("--reload", is_flag=True, help="Start again when a .py file changes (development).")
@wait_option("--grace", help="How long running jobs may go on after a stop.")
@wait_option("--lease", help="How long the store trusts a silent worker.")
@wait_option("--poll", help="How often to poll when nothing wakes it.")
@wait_option("--max-block", help="How long a job may block the event loop. Default: the lease.")
@click.option("--name", help="Its name in lists. Default: host and pid.")
@click.option("--log-level", default="info", help="debug, info, warning or error.")
@click.option("--json-logs", is_flag=True, help="One JSON object a line.")
@click.option("--supervised", is_flag=True, hidden=True)
def worker(
    session: CommandSession,
    locator: str | None,
    queues: str,
    reload: bool,
    grace: float | None,
    lease: float | None,
    poll: float | None,
    max_block: float | None,
    **call: Any,
) -> None:
    """Run jobs of an app until told to stop.

    APP is where the App is, as module:attribute. Default: HOLDFAST_APP.

    The first SIGTERM or Ctrl-C lets running jobs end, up to the grace; a second does not wait.
    What has not ended is handed back and loses no attempt. Exit codes: 3 if it could not leave in
    time, 4 if a job blocked the event loop for too long.
    """
    times = {"grace": grace, "lease": lease, "poll": poll, "max_block": max_block}
    asked = WorkerCall(
        locator=locator or session.locator,
        queues=parse_queues(queues),
        times={key: seconds for key, seconds in times.items() if seconds is not None},
        **call,
    )
    if reload or asked.processes > 1:
        _run_many(session, asked, reload=reload)
    else:
        _run_one(session, asked)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parse_queues(text: str) -> dict[str, int]:
    """The slots of each queue.

    >>> parse_queues("mail:10, default")
    {'mail': 10, 'default': 50}
    """
    queues: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        # A queue's own name may hold colons: only a number after the last colon counts slots.
        name, colon, slots = part.rpartition(":")
        name, number = (name, slots) if colon and slots.isdecimal() else (part, str(DEFAULT_SLOTS))
        check_name("queue", name)
        if name in queues:
            raise UsageProblem(f"--queues names {name!r} twice")
        queues[name] = int(number)
    if not queues:
        raise UsageProblem("--queues must name a queue, such as mail:10,default:50")
    return queues


# One worker, in this process --------------------------------------------------------------


def _run_one(session: CommandSession, call: WorkerCall) -> None:
    from holdfast.worker.alone import run_alone

    app = session.app(call.locator, call.imports)
    set_up_logs(call.log_level, as_json=call.json_logs)
    with session.on_store(app), _stopped(app) as stopped:
        run_alone(lambda last_resort: _work(app, call, last_resort))
    ended, back = stopped.get("ended", 0), stopped.get("handed_back", 0)
    if call.supervised:
        return
    if session.as_json:
        document = {"worker": stopped.get("worker"), "ended": ended, "handed_back": back}
        session.answer(document, list)
    else:
        complain(f"stopped: {counted(ended, 'job')} ended, {back} handed back")


async def _work(app: App, call: WorkerCall, last_resort: LastResort | None) -> None:
    async with app.opened_for_work():
        logger.info(
            "%s store (%s), queues %s, %s",
            app.store.kind,
            app.store.durability,
            ", ".join(f"{queue}:{slots}" for queue, slots in call.queues.items()),
            counted(len(app.tasks), "task"),
        )
        if not app.tasks:
            logger.warning(NO_TASKS)
        async with app.worker(call.queues, **call.options) as worker:
            with _leaving_with_parent(worker, call.supervised):
                await worker.run(burst=call.burst, last_resort=last_resort)


@contextmanager
def _stopped(app: App) -> Iterator[dict[str, Any]]:
    """A dictionary that is filled with the fields of the event `worker.stopped`."""
    facts: dict[str, Any] = {}

    def note(event: Event) -> None:
        if event.name == "worker.stopped":
            facts.update(event.fields)

    unsubscribe = app.events.subscribe(note)
    try:
        yield facts
    finally:
        unsubscribe()


@contextmanager
def _leaving_with_parent(worker: Worker, supervised: bool) -> Iterator[None]:
    """Stop the worker when the parent process is gone. A child's standard input is a pipe to which
    the parent never writes; the pipe ends when the parent dies, for any reason."""
    if not supervised:
        yield
        return
    loop, pipe = asyncio.get_running_loop(), sys.stdin.fileno()

    def parent_is_gone() -> None:
        loop.remove_reader(pipe)
        logger.warning("the parent process is gone: leaving")
        worker.request_stop()

    loop.add_reader(pipe, parent_is_gone)
    try:
        yield
    finally:
        loop.remove_reader(pipe)


# Several, in child processes ---------------------------------------------------------------


def _run_many(session: CommandSession, call: WorkerCall, *, reload: bool) -> None:
    from holdfast.cli.processes import ProcessGroup
    from holdfast.cli.reload import require_watcher, watch

    if call.locator is None or not reload:
        # An app that cannot be loaded is reported once, not by each child.
        session.app(call.locator, call.imports)
    set_up_logs(call.log_level, as_json=call.json_logs)
    children = ProcessGroup(
        replace(call, name=None).as_arguments(session.given_url),
        call.processes,
        name=call.name,
        until_done=call.burst,
        restart=not reload,
    )
    if reload:
        require_watcher()
    code = asyncio.run(children.run(watch(children) if reload else None))
    if session.as_json:
        session.answer({"processes": call.processes, "restarts": children.restarts}, list)
    raise click.exceptions.Exit(code)
