"""Programs as tasks. `app.command(…)` declares one command line; `app.allow_commands(…)` names
programs whose command lines may come from whoever enqueues; `app.pool(…)` declares a program whose
children serve tasks."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias, Unpack, cast

from holdfast.declaring.declared import DeclaredTask
from holdfast.declaring.decorator import Running, TaskDecorator
from holdfast.enqueue.options import EnqueueOptions
from holdfast.errors import BadOption
from holdfast.job import checks

if TYPE_CHECKING:
    from holdfast.handlers.pools import ChildPool
    from holdfast.handlers.programs import CommandOutput

CommandTask: TypeAlias = "DeclaredTask[..., CommandOutput, ..., Running[CommandOutput]]"

ALLOWED = "holdfast.command"
"""The task whose jobs bring command lines of their own."""
LONGEST_WORD = 128 * 1024 - 1  # what Linux takes as one word of a command line


class DeclaresCommands(ABC):
    """The part of a set of tasks that makes programs its tasks."""

    @abstractmethod
    def task(
        self, *, name: str, redact: Iterable[str] = (), **options: Unpack[EnqueueOptions]
    ) -> TaskDecorator: ...

    def command(
        self,
        name: str,
        argv: Iterable[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        patience: float = 3.0,
        max_output: int = 64 * 1024,
        redact: Iterable[str] = (),
        **options: Unpack[EnqueueOptions],
    ) -> CommandTask:
        """Make a program a task: `app.command("thumb", ["convert", "{src}", "{dst}"])`.

        A word `{src}` of `argv`, a value of `env` and `stdin` may be places that a job fills in:
        `thumb.enqueue(src="a.png", dst="b.png")`. The program runs in a session of its own, without
        a shell. A timeout or a cancel ends it and all that it started: it is asked to end, and
        killed after `patience` seconds. Its exit code must be 0. The result is a `CommandOutput`
        with the first `max_output` bytes of its standard output.
        """
        from holdfast.handlers.commands import CommandLine, function_of  # few programs declare any
        from holdfast.handlers.programs import RunOptions

        words = checks.texts("argv", argv, LONGEST_WORD, "word of argv")
        checks.check_name("task name", name)
        options_of_run = RunOptions(cwd, patience, max_output)
        command = CommandLine(words, _variables(env), stdin, options_of_run)
        declare = self.task(name=name, redact=redact, **options)
        return cast("CommandTask", declare(function_of(command, sys._getframe(1))))

    def allow_commands(
        self, programs: Iterable[str], **options: Unpack[EnqueueOptions]
    ) -> CommandTask:
        """Declare the task `holdfast.command`, whose jobs bring command lines of their own:
        `run.enqueue(["ffmpeg", "-i", path])`. Only these programs are run, named exactly like
        this; what their words do is up to whoever enqueues."""
        from holdfast.handlers.commands import function_running

        allowed = frozenset(checks.texts("programs", programs, LONGEST_WORD, "program"))
        if not allowed or "" in allowed:
            raise BadOption("programs", "the names of programs, such as ['ffmpeg']", programs)
        return cast("CommandTask", self.task(name=ALLOWED, **options)(function_running(allowed)))

    def pool(
        self,
        name: str,
        argv: Iterable[str],
        *,
        size: int = 1,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ChildPool:
        """Declare a program whose children serve tasks: `app.pool("ocr", ["python", "-m", "ocr"])`,
        and then `@app.task(pool="ocr")`.

        A worker keeps up to `size` children. A child reads a line `{"id": 1, "args": {…}}` for each
        call and answers with a line `{"id": 1, "result": …}` or `{"id": 1, "error": "why"}`.
        """
        from holdfast.handlers.pools import ChildPool

        words = checks.texts("argv", argv, LONGEST_WORD, "word of argv")
        return self._add_pool(ChildPool(name, words, _variables(env), cwd, size))

    @abstractmethod
    def _add_pool(self, pool: ChildPool) -> ChildPool: ...


def _variables(env: object) -> dict[str, str]:
    """The variables of a program, as given by its declaration."""
    given = {} if env is None else env
    if not isinstance(given, Mapping):
        raise BadOption("env", "variables by name, such as {'LANG': 'C'}", env)
    for name, value in given.items():
        checks.kind("env", value, str, "made of texts")
        if "\0" in value:
            raise BadOption("env", "made of texts without a NUL character", value)
        if "=" in checks.text("name of a variable", name, LONGEST_WORD):
            raise BadOption("name of a variable", "a text without =", name)
    return dict(given)
