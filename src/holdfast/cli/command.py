"""What every command shares: the global options, a session, and one way to fail.

A command's body takes a `CommandSession` first and its own options after. `add_command` adds
`--url`, `--app` and `--json`, runs a body that is a coroutine, and turns every error of Holdfast
into one line and an exit code: 1 for a problem, 2 for a wrong call.

A parameter whose type is a dataclass stands for a group of options, one for each of its fields. So
options that several commands share are declared once, such as `JobFilters`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from inspect import Parameter
from typing import Annotated, Any

import typer

from holdfast.cli.output import complain
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.errors import BadArguments, BadOption, HoldfastError, UnknownTask

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", help="The store. Default: HOLDFAST_URL, or a settings file.", metavar="URL"
    ),
]
AppOption = Annotated[
    str | None,
    typer.Option("--app", help="The App, as module:attribute.", metavar="APP"),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")
]

USAGE = (UsageProblem, BadOption, BadArguments, UnknownTask)
INTERRUPTED = 130

Body = Callable[..., Coroutine[Any, Any, None] | None]


@dataclass(frozen=True, slots=True)
class Given:
    """Global options that stood before the command."""

    url: str | None = None
    app: str | None = None
    as_json: bool = False


def add_command(group: typer.Typer, name: str, body: Body) -> None:
    """Make a body a command of the group, under the name users type."""
    group.command(name)(_with_session(body))


def _with_session(body: Body) -> Callable[..., None]:
    signature = inspect.signature(body, eval_str=True)
    own = list(signature.parameters.values())[1:]

    @functools.wraps(body)
    def command(
        ctx: typer.Context, url: str | None, app: str | None, as_json: bool, **options: Any
    ) -> None:
        before = ctx.obj if isinstance(ctx.obj, Given) else Given()
        session = CommandSession(url or before.url, app or before.app, as_json or before.as_json)
        _run(lambda: body(session, **_grouped(own, options)))

    shared = [
        _parameter("ctx", typer.Context),
        *_flat(own),
        _parameter("url", UrlOption, None),
        _parameter("app", AppOption, None),
        _parameter("as_json", JsonOption, False),
    ]
    # Typer reads a command's options from its signature; which attribute depends on its version.
    command.__signature__ = signature.replace(parameters=shared)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in shared} | {"return": None}
    return command


def _flat(parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    """The parameters as Typer needs them: a group gives way to its own parameters."""
    for each in parameters:
        if is_dataclass(each.annotation):
            yield from _flat(_fields(each.annotation))
        else:
            yield each.replace(kind=Parameter.KEYWORD_ONLY)


def _grouped(parameters: Iterable[Parameter], options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the body takes them: options of a group become one object."""
    return {each.name: _value(each, options) for each in parameters}


def _value(parameter: Parameter, options: Mapping[str, Any]) -> Any:
    group = parameter.annotation
    if isinstance(group, type) and is_dataclass(group):
        return group(**_grouped(_fields(group), options))
    return options[parameter.name]


def _fields(group: Any) -> list[Parameter]:
    return list(inspect.signature(group, eval_str=True).parameters.values())


def _parameter(name: str, annotation: object, default: object = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _run(body: Callable[[], Coroutine[Any, Any, None] | None]) -> None:
    try:
        work = body()
        if work is not None:
            asyncio.run(work)
    except KeyboardInterrupt:
        complain("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except HoldfastError as error:
        complain(f"error: {error}")
        raise typer.Exit(2 if isinstance(error, USAGE) else 1) from None
