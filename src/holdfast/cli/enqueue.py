"""`holdfast enqueue`: enqueue one job from the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.command import exit_code
from holdfast.cli.filters import due_option, imports_option, wait_option
from holdfast.cli.output import complain
from holdfast.cli.program import program
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.enqueue.maker import JobMaker
from holdfast.enqueue.options import JobOptions
from holdfast.errors import HoldfastError, PayloadTooLarge
from holdfast.job.checks import check_name
from holdfast.job.json_text import shown_text
from holdfast.job.record import Inserted
from holdfast.job.redaction import Redactor

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.client.client import Client
    from holdfast.task import Task

Arguments = dict[str, Any]

_NOTES = {
    "existing": "no new job: this one holds the unique key",
    "debounced": "no new job: this one holds the unique key, and was made due as asked",
    "replaced": "the job that held the unique key was replaced",
}


@program.command("enqueue")
@click.argument("task")
@click.argument("arguments", metavar="[JSON]", required=False)
@click.option("--arg", "-a", multiple=True, metavar="NAME=VALUE", help="One argument (repeatable).")
@click.option("--queue", "-q", help="Instead of the task's queue.")
@wait_option("--delay", help="Run after: 90s, 15m, 2h.")
@due_option("--run-at", help="Run at an ISO time, local unless it says otherwise.")
@wait_option("--deadline", help="Expire if not done within.")
@wait_option("--start-by", help="Expire if not begun within.")
@wait_option("--timeout", help="Of each attempt.")
@click.option("--priority", type=int, help="Lower runs first.")
@click.option("--unique", metavar="KEY", help="Only one live job of it.")
@click.option("--tag", "tags", multiple=True, help="Repeatable.")
@click.option("--id", metavar="UUID", help="Repeating the call adds no second job.")
@imports_option
@wait_option("--wait", "patience", help="Wait for the result this long.")
async def enqueue(
    session: CommandSession,
    task: str,
    arguments: str | None,
    arg: tuple[str, ...],
    patience: float | None,
    imports: tuple[str, ...],
    **given: Any,
) -> None:
    """Enqueue one job.

    TASK is the task's name. JSON has all of its arguments: {"to": "a@b.org"}; with an app also
    [1, 2]. With an app (--app, HOLDFAST_APP) the arguments are checked first.
    """
    options = {name: value for name, value in given.items() if value not in (None, ())}
    if session.locator is None:
        if imports:
            raise UsageProblem("--import needs an app, which has the tasks: give --app")
        await _by_name(session, task, read_arguments(arguments, arg), options, patience)
        return
    app = session.app(imports=imports)
    known: Task[..., Any] = app.tasks[app.registry[task].name]
    checked = read_arguments(arguments, arg, known)
    await _checked(session, app, known.using(**options), checked, patience)


async def _checked(
    session: CommandSession,
    app: App,
    task: Task[..., Any],
    arguments: Arguments,
    patience: float | None,
) -> None:
    text = _json(arguments)
    task.handler.signature.check(text)  # before the store is opened, which may create it
    with session.on_store(app), _errors_shown(Redactor(task.handler.rules, text)) as redactor:
        async with app:
            handle = await task.enqueue_json(text)
            inserted = Inserted(handle.id, handle.how)
            await _answer(session, handle.result_json, inserted, patience, redactor)


async def _by_name(
    session: CommandSession,
    task: str,
    arguments: Arguments,
    options: dict[str, Any],
    patience: float | None,
) -> None:
    """Enqueue by the task's name, without its app. The arguments are not checked here, because the
    function's signature is unknown; the worker checks them."""
    from holdfast.config import Settings

    check_name("task name", task)
    text, limit = _json(arguments), Settings.load().max_payload
    if len(text.encode()) > limit:
        raise PayloadTooLarge(f"task {task!r}: the arguments", len(text.encode()), limit)
    job = JobMaker(task, JobOptions().using(options)).make(text)
    async with session.client(may_create=True) as client:
        with _errors_shown(await client.shown.redactor(task, text)) as redactor:
            inserted = await client.insert(job)
            if not session.as_json:
                await _note_unserved(client, task, job.queue)
            result_json = partial(client.result_json, inserted.id)
            await _answer(session, result_json, inserted, patience, redactor)


@contextmanager
def _errors_shown(redactor: Redactor) -> Iterator[Redactor]:
    """Show an error without the secrets among the arguments: the job may have failed with words
    that repeat them."""
    try:
        yield redactor
    except HoldfastError as error:
        complain(f"error: {redactor.text(str(error))}")
        raise click.exceptions.Exit(exit_code(error)) from None


async def _note_unserved(client: Client, task: str, queue: str) -> None:
    """Without the app nobody knows to which queue the task sends its jobs. Live workers do not
    tell either, but they show whether the job would only wait."""
    able = [one for one in await client.workers.all() if one.available and task in one.tasks]
    if able and not any(one.serves(queue) for one in able):
        served = ", ".join(sorted({name for one in able for name in one.queues}))
        complain(
            f"no live worker with task {task!r} serves queue {queue!r}: give --app for the task's "
            f"own queue, or --queue (served: {served})"
        )


async def _answer(
    session: CommandSession,
    result_json: Callable[[float], Awaitable[str | None]],
    inserted: Inserted,
    patience: float | None,
    redactor: Redactor,
) -> None:
    document: dict[str, Any] = {"id": inserted.id, "how": inserted.how}
    lines: list[str] = [inserted.id]
    if patience is not None:
        result = await result_json(patience)
        shown = "null" if result is None else redactor.result(result)
        document["result"] = shown_text(shown)
        lines = [shown]
    elif inserted.how != "created" and not session.as_json:
        complain(_NOTES[inserted.how])
    session.answer(document, lambda: lines)


def read_arguments(
    text: str | None, pairs: Sequence[str], task: Task[..., Any] | None = None
) -> Arguments:
    """Arguments by name, from one JSON text or from NAME=VALUE pairs."""
    if text is not None and pairs:
        raise UsageProblem("give the arguments as one JSON text or as --arg, not both")
    if text is None:
        return dict(_pair(pair, _takes_text(task)) for pair in pairs)
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageProblem(f"the arguments must be JSON: {error}") from None
    match given:
        case dict():
            return given
        case list() if task is not None:
            return _by_position(task, given)
        case _:
            raise UsageProblem(
                'the arguments must be a JSON object such as {"to": "a@b.org"}'
                f"{'' if task else ' (a list needs --app)'}; got {type(given).__name__}"
            )


def _pair(pair: str, takes_text: Callable[[str], bool]) -> tuple[str, Any]:
    """The name and value of one `--arg`. A value that reads as JSON is JSON, any other is text. For
    a `str` parameter a value is always text."""
    name, equals, value = pair.partition("=")
    if not equals or not name.isidentifier():
        raise UsageProblem(f"--arg must be NAME=VALUE, got {len(pair)} other characters")
    if takes_text(name):
        return name, value
    try:
        return name, msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return name, value


def _takes_text(task: Task[..., Any] | None) -> Callable[[str], bool]:
    if task is None:
        return lambda name: False
    parameters = task.handler.signature.parameters.parameters
    return lambda name: name in parameters and _is_text(parameters[name].annotation)


def _is_text(annotation: Any) -> bool:
    """Whether a parameter takes text, also if it is marked: `Annotated[str, Secret]`."""
    return getattr(annotation, "__origin__", annotation) is str


def _by_position(task: Task[..., Any], given: list[Any]) -> Arguments:
    names = list(task.handler.signature.parameters.parameters)
    if len(given) > len(names):
        raise UsageProblem(
            f"task {task.name!r} takes {len(names)} arguments ({', '.join(names)}), "
            f"got {len(given)}"
        )
    return dict(zip(names, given, strict=False))


def _json(arguments: Arguments) -> str:
    return msgspec.json.encode(arguments).decode()
