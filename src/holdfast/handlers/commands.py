"""CommandLine lines that are declared as tasks.

    app.command("thumb", ["convert", "{src}", "-resize", "{size}", "{dst}"])

The words of the command line are written in code. A job fills in whole words, so no value of a
payload can become two words, and no shell ever reads them. A value that is filled in before `--`
must not begin with `-`: the program would take it for an option.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Mapping
from inspect import Parameter
from types import FrameType, FunctionType
from typing import Annotated, Any, cast

import msgspec

from holdfast.codec.messages import NO_OPTION, WORD
from holdfast.errors import BadOption
from holdfast.handlers.minder import Minder, minder
from holdfast.handlers.programs import CommandOutput, RunOptions
from holdfast.job import checks
from holdfast.job.ends import Fail
from holdfast.resources import Shared

PLACE = re.compile(r"(?<!\{)\{([A-Za-z_]\w*)\}(?!\})")
"""Where an argument is filled in. `{{name}}` stands for the text `{name}`."""
NO_PLACE = re.compile(r"(?<!\{)\{ *[A-Za-z_][\w -]*\}(?!\})")
"""What looks like a place and is none, because `a b` or `a-b` is no name of an argument."""
LITERAL = re.compile(r"\{(\{ *[A-Za-z_][\w -]*\})\}")

LONGEST_WORD = 128 * 1024 - 1  # what Linux takes as one word of a command line, or as a variable
Word = Annotated[str, msgspec.Meta(pattern=WORD, max_length=LONGEST_WORD)]
NoOption = Annotated[str, msgspec.Meta(pattern=NO_OPTION, max_length=LONGEST_WORD)]
KINDS: tuple[Any, ...] = (NoOption | int | float, Word | int | float, str | int | float)
"""What can be filled in: as a word that may be taken for an option, as another word or a variable,
and as the input. A name that stands in several places is as strict as the first of these."""
Values = Mapping[str, str | float]


class CommandLine(msgspec.Struct, frozen=True):
    """A command line, variables and an input, with places for arguments."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str
    options: RunOptions

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0] or PLACE.fullmatch(self.argv[0]):
            raise BadOption("argv", "a list that begins with the program, written out", self.argv)
        for option, word in self._words:
            _check(option, word)

    @property
    def _words(self) -> list[tuple[str, str]]:
        words = [("argv", word) for word in self.argv]
        return [*words, *(("env", word) for word in self.env.values()), ("stdin", self.stdin)]

    @property
    def parameters(self) -> list[Parameter]:
        """One for each name that stands in a place, in the order of the places."""
        found: dict[str, int] = {}
        end = self.argv.index("--") if "--" in self.argv else len(self.argv)
        for number, (option, word) in enumerate(self._words):
            if place := PLACE.fullmatch(word):
                kind = 0 if number < end else 2 if option == "stdin" else 1
                found[place[1]] = min(kind, found.get(place[1], kind))
        by_name = Parameter.KEYWORD_ONLY
        return [Parameter(name, by_name, annotation=KINDS[kind]) for name, kind in found.items()]

    async def run(self, minder: Minder, values: Values) -> CommandOutput:
        argv = [_filled(word, values) for word in self.argv]
        env = {name: _filled(word, values) for name, word in self.env.items()}
        return await self.options.run(minder, argv, env, _filled(self.stdin, values))


def _filled(word: str, values: Values) -> str:
    if place := PLACE.fullmatch(word):
        return str(values[place[1]])
    return LITERAL.sub(r"\1", word)


def _check(option: str, word: str) -> None:
    checks.kind(option, word, str, "made of texts")
    found = PLACE.search(word)
    if found is None and (meant := NO_PLACE.search(word)) is not None:
        name = f"the name of an argument in {meant[0]}, or {{{meant[0]}}} where the text is meant"
        raise BadOption(option, f"written with {name}", word)
    if found is not None and found[0] != word:
        whole = f"{found[0]} as a word of its own, or {{{found[0]}}} where the text is meant"
        raise BadOption(option, f"written with {whole}", word)
    if found is not None and keyword.iskeyword(found[1]):
        raise BadOption(option, f"written with another name: {found[1]} is a word of Python", word)


def function_of(command: CommandLine, frame: FrameType) -> Callable[..., Any]:
    """A function with a parameter for each place of the command."""

    async def run(**values: Any) -> CommandOutput:
        return await command.run(values.pop("holdfast_minder"), values)

    own = Parameter("holdfast_minder", Parameter.KEYWORD_ONLY, default=Shared(minder))
    made = _as_if_written_in(frame, cast("FunctionType", run))
    made.__annotations__ = {one.name: one.annotation for one in command.parameters}
    made.__annotations__["return"] = CommandOutput
    cast("Any", made).__signature__ = inspect.Signature([*command.parameters, own])
    return made


def _as_if_written_in(frame: FrameType, made: FunctionType) -> FunctionType:
    """Two commands of one name are told apart by the places where they are declared, as functions
    are."""
    code = made.__code__.replace(
        co_filename=frame.f_code.co_filename, co_firstlineno=frame.f_lineno
    )
    return FunctionType(code, frame.f_globals, made.__name__, None, made.__closure__)


def function_running(programs: frozenset[str]) -> Callable[..., Any]:
    """A function that runs the command lines of these programs."""

    async def run(
        argv: list[Word],
        stdin: str = "",
        holdfast_minder: Minder = Shared(minder),  # noqa: B008 - a mark, as in every handler
    ) -> CommandOutput:
        if not argv or argv[0] not in programs:
            known = ", ".join(sorted(programs))
            raise Fail(f"argv must begin with one of the allowed programs: {known}")
        return await RunOptions().run(holdfast_minder, argv, {}, stdin)

    return run
