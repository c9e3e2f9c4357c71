"""`holdfast worker`: run jobs until told to stop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.filters import imports_option, wait_option
from holdfast.cli.output import complain
from holdfast.cli.program import program
from holdfast.cli.sizes import size
from holdfast.cli.successor import Successor
from holdfast.cli.target import CommandSession
from holdfast.cli.watched import Watched, reported_to_parent, watching
from holdfast.cli.worker_call import WorkerCall, parse_queues
from holdfast.events import Event
from holdfast.job.text import counted
from holdfast.logs.setup import DEFAULT, LEVELS, LogPlan, set_up_logs
from holdfast.store.open import open_store

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.store.contract.store import Store
    from holdfast.worker.last_resort import LastResort
    from holdfast.worker.worker import Worker

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = (
    *("slots", "labels", "only", "grace", "lease", "poll", "max_block", "max_jobs", "max_memory"),
    *("threads", "child_processes", "name"),
)
"""What is handed on to the worker; there, `child_processes` is called `processes`."""
NO_TASKS = (
    'the app has no tasks: name their modules: App(imports=["shop.tasks"]), '
    "app.autodiscover('shop') or --import shop.tasks"
)
logger = logging.getLogger("holdfast")


def setting(flag: str, *more: str, **about: Any) -> Callable[[F], F]:
    """An option that may also be set in the environment: `--log-level` as HOLDFAST_LOG_LEVEL."""
    variable = f"HOLDFAST_{flag.removeprefix('--').replace('-', '_').upper()}"
    kind = wait_option if about.get("metavar") == "TIME" else click.option
    return kind(flag, *more, envvar=variable, show_envvar=True, **about)


MOST_PROCESSES = 1_000
"""More than any machine runs, so a slip of the finger cannot fill it."""


def number(flag: str, most: int | None = None, **about: Any) -> Callable[[F], F]:
    return setting(flag, metavar="N", type=click.IntRange(1, most), **about)


@program.command("worker")
@click.argument("locator", metavar="[APP]", required=False)
@setting(
    "--queues", "-q", metavar="QUEUES", help="Queues with their slots: mail:10,default:50,eu*:5."
)
@number("--slots", help="Slots that queues share: mail:2+3 has always 2, and 3 parts of the rest.")
@setting("--strict", is_flag=True, help="Queues in this order: a later one only while none waits.")
@imports_option
@number(
    "--processes",
    most=MOST_PROCESSES,
    default=1,
    help="So many worker processes, each with these slots.",
)
@number("--threads", help="Most threads for plain functions.")
@number("--child-processes", help="Most child processes for tasks with process=True.")
@setting("--burst", is_flag=True, help="Stop when nothing is left to do.")
@setting("--reload", is_flag=True, help="Start again when a .py file changes (development).")
@wait_option(
    "--grace", help="How long running jobs may go on after a stop.  [env var: HOLDFAST_GRACE]"
)
@wait_option(
    "--lease", help="How long the store trusts a silent worker.  [env var: HOLDFAST_LEASE]"
)
@wait_option("--poll", help="How often to poll when nothing wakes it.  [env var: HOLDFAST_POLL]")
@setting(
    "--max-block",
    metavar="TIME",
    help="How long a job may block the event loop. Default: the lease.",
)
@number("--max-jobs", help="After so many jobs, leave in good order and start anew.")
@setting(
    "--max-memory",
    metavar="SIZE",
    type=size,
    help="With so much memory (512M, 2G), leave in good order and start anew.",
)
@setting("--labels", metavar="LABELS", help="What it can do, for tasks that require it: gpu,eu.")
@setting("--only", metavar="LABELS", help="Take only jobs that require all of these: gpu.")
@setting("--health", metavar="HOST:PORT", help="Answer probes and /metrics over HTTP.")
@setting("--name", help="Its name in lists. Default: host and pid.")
@setting(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    help=f"Default: {DEFAULT}: a line for each job. warning: only what is wrong.",
)
@setting("--json-logs", is_flag=True, help="One JSON object a line.")
@click.option("--supervised", is_flag=True, hidden=True)
def worker(
    session: CommandSession, locator: str | None, queues: str | None, reload: bool, **given: Any
) -> None:
    """Run jobs of an app until told to stop.

    APP is where the App is, as module:attribute. Default: HOLDFAST_APP. Without --queues it serves
    the queues of the app's tasks, each with 50 slots.

    The first SIGTERM or Ctrl-C lets running jobs end, up to the grace; a second does not wait.
    What has not ended is handed back and loses no attempt. SIGHUP does as the first and then starts
    anew, with new code; several processes one by one. Exit codes: 3 if it could not leave in
    time, 4 if a job blocked the event loop for too long.
    """
    options = {key: given.pop(key) for key in OPTIONS}
    call = WorkerCall(
        logs=LogPlan(given.pop("log_level"), given.pop("json_logs")),
        locator=locator or session.locator,
        queues=None if queues is None else parse_queues(queues),
        options={key: value for key, value in options.items() if value is not None},
        **given,
    )
    # A child inherits the environment, in which the variables of its parent stand.
    if not call.supervised and (reload or call.processes > 1):
        _run_many(session, call, reload=reload)
    else:
        _run_one(session, call)


# One worker, in this process --------------------------------------------------------------


def _run_one(session: CommandSession, call: WorkerCall) -> None:
    from holdfast.worker.alone import run_alone

    successor, watched = Successor(), Watched()
    app = session.app(call.locator, call.imports)
    set_up_logs(call.logs)
    watches = partial(
        watching, address=call.health, make_store=lambda: app.unopened_store.sibling()
    )
    told = reported_to_parent if call.supervised else watches
    with told(watched.health), session.on_store(app), _stopped(app) as stopped:
        run_alone(lambda last_resort: _work(app, call, watched, last_resort))
    ended, back = stopped.get("ended", 0), stopped.get("handed_back", 0)
    if call.supervised:
        return
    assert watched.worker is not None
    successor.wanted = watched.worker.wants_successor
    if session.as_json:
        document = {"worker": stopped.get("worker"), "ended": ended, "handed_back": back}
        session.answer(document, list)
    else:
        complain(f"stopped: {counted(ended, 'job')} ended, {back} handed back")


async def _work(
    app: App, call: WorkerCall, watched: Watched, last_resort: LastResort | None
) -> None:
    opened = call.opened_on(app)
    async with opened.opened_app():
        logger.info(
            "%s store (%s), queues %s, %s",
            app.store.kind,
            app.store.durability,
            ", ".join(f"{queue}:{slots}" for queue, slots in opened.options.queues.items()),
            counted(len(app.tasks), "task"),
        )
        if not app.tasks:
            logger.warning(NO_TASKS)
        async with opened.alone(last_resort) as worker:
            watched.worker = worker
            with _leaving_with_parent(worker, call.supervised):
                await worker.run(burst=call.burst)


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
    """Stop the worker when the parent process is gone: the socket that is this child's standard
    input ends when the parent dies, for any reason."""
    if not supervised:
        yield
        return
    loop, line = asyncio.get_running_loop(), sys.stdin.fileno()

    def parent_is_gone() -> None:
        loop.remove_reader(line)
        logger.warning("the parent process is gone: leaving")
        worker.request_stop()

    loop.add_reader(line, parent_is_gone)
    try:
        yield
    finally:
        loop.remove_reader(line)


# Several, in child processes ---------------------------------------------------------------


def _run_many(session: CommandSession, call: WorkerCall, *, reload: bool) -> None:
    from holdfast.cli.processes import ProcessGroup
    from holdfast.cli.reload import require_watcher, watch

    make_store: Callable[[], Store] | None = None
    if call.locator is None or not reload:
        # An app that cannot be loaded is reported once, not by each child.
        app = session.app(call.locator, call.imports)
        make_store = partial(open_store, session.given_url or app.settings.url, may_create=False)
    set_up_logs(call.logs)
    children = ProcessGroup(
        call.as_arguments(session.given_url),
        call.processes,
        name=call.options.get("name"),
        until_done=call.burst,
        restart=not reload,
    )
    if reload:
        require_watcher()
    with watching(children.health, call.health, make_store):
        code = asyncio.run(children.run(watch(children) if reload else None))
    if session.as_json:
        session.answer({"processes": call.processes, "restarts": children.restarts}, list)
    raise click.exceptions.Exit(code)
