"""What every command shares: the global options, a session, and one way to fail.

A command's body takes a `CommandSession` first and its own options after. `Command` adds `--url`,
`--app` and `--json`, and runs a body that is a coroutine. `Program` turns every error of Holdfast
into one line and an exit code: 1 for a problem, 2 for a wrong call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
import msgspec

from holdfast.cli.output import complain
from holdfast.cli.target import CommandSession, UsageProblem
from holdfast.errors import BadArguments, BadOption, HoldfastError, UnknownTask
from holdfast.job.checks import is_encodable

USAGE = (UsageProblem, BadOption, BadArguments, UnknownTask)
INTERRUPTED = 130


def global_options() -> list[click.Parameter]:
    """The options of every command; they may also stand before the command's name."""
    return [
        click.Option(
            ["--url"], metavar="URL", help="The store. Default: HOLDFAST_URL, or a settings file."
        ),
        click.Option(["--app"], metavar="APP", help="The App, as module:attribute."),
        click.Option(
            ["--json", "as_json"],
            is_flag=True,
            help="One JSON document on standard output, nothing else.",
        ),
    ]


class Command(click.Command):
    """A command whose body takes a session first."""

    def __init__(
        self, name: str | None, *, params: list[click.Parameter] | None = None, **rest: Any
    ) -> None:
        self._own = params or []
        super().__init__(name, params=[*self._own, *global_options()], **rest)

    def invoke(self, ctx: click.Context) -> None:
        own = dict(ctx.params)
        given = CommandSession(own.pop("url"), own.pop("app"), own.pop("as_json"))
        before = ctx.find_object(CommandSession)
        assert self.callback is not None, "every command has a body"
        work = self.callback(given if before is None else given.after(before), **own)
        if work is not None:
            from asyncio import run  # the help needs no event loop

            run(work)

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first sentence of the help, for a list of commands: wrapped there, never cut."""
        return super().get_short_help_str(limit=1_000)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options come first, then those that every command has."""
        shared = [param for param in self.get_params(ctx) if param not in self._own]
        for title, params in (("Options", self._own), ("Global options", shared)):
            rows = [param.get_help_record(ctx) for param in params if _is_option(param)]
            if shown := [row for row in rows if row is not None]:
                with formatter.section(title):
                    formatter.write_dl(shown)


def _is_option(param: click.Parameter) -> bool:
    return param.param_type_name == "option"


class Group(click.Group):
    """A group of commands, listed in the order in which they were added."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class HelpLine(msgspec.Struct, frozen=True):
    """A command as the help lists it: what it is for, in a sentence. `modules` of this package add
    it, or the commands of a group."""

    about: str
    modules: Sequence[str]


class Program(Group):
    """The group of all commands. It imports the modules of a command when the command is called, so
    that no command waits for the imports of the others. The help imports none of them."""

    group_class = Group

    def __init__(self, listed: Mapping[str, HelpLine], **rest: Any) -> None:
        super().__init__(**rest)
        self._listed = listed

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._listed:
            for module in self._listed[cmd_name].modules:
                import_module(f"holdfast.cli.{module}")
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, listed.about) for name, listed in self._listed.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for arg in args:
            if not is_encodable(arg):  # bytes of the shell that are no UTF-8
                raise click.UsageError(f"arguments must be UTF-8 text, got {arg!r}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_told(ctx):
            return super().invoke(ctx)


@contextmanager
def _errors_told(ctx: click.Context) -> Iterator[None]:
    """Show an error of Holdfast as one line. Any other exception is a defect, and is shown with
    Python's own traceback."""
    try:
        yield
    except KeyboardInterrupt:
        complain("interrupted")
        ctx.exit(INTERRUPTED)
    except HoldfastError as error:
        complain(f"error: {error}")
        ctx.exit(exit_code(error))


def exit_code(error: HoldfastError) -> int:
    return 2 if isinstance(error, USAGE) else 1
