"""Errors of who declares a task, calls it or carries what it takes and returns."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError


class _AboutTask(HoldfastError):
    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"task {task!r}: {problem}")
        self.task = task
        self.problem = problem

    def __reduce__(self) -> tuple[type[_AboutTask], tuple[str, str]]:
        return type(self), (self.task, self.problem)


class BadArguments(_AboutTask):
    """A call that does not fit the task's signature."""


class BadResult(_AboutTask):
    """A return value that JSON cannot carry."""


class BadTask(_AboutTask):
    """A task that cannot be registered as it stands."""


class BadImport(HoldfastError):
    """A module that a worker is told to import, and that cannot be. The cause is the error of the
    module itself, with its traceback."""

    def __init__(self, module: str, problem: str) -> None:
        super().__init__(f"module {module!r} cannot be imported: {problem}")
        self.module = module


class NotIncluded(HoldfastError):
    """A task of a set that does not say which app its jobs belong to."""

    def __init__(self, task: str, problem: str) -> None:
        super().__init__(f"task {task!r} belongs to {problem}")
        self.task = task

    @classmethod
    def in_none(cls, task: str, place: str) -> NotIncluded:
        advice = f"call app.include(…) with its Tasks, which are made at {place}"
        return cls(task, f"no App: {advice}, in a module that this program imports")

    @classmethod
    def in_several(cls, task: str, count: int) -> NotIncluded:
        which = f"use app.tasks[{task!r}] of the app that is meant, or open only that one"
        return cls(task, f"{count} Apps, and not exactly one of them is open: {which}")


class PayloadTooLarge(HoldfastError):
    """Arguments or result over the limit; nothing was written."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what}: {size} bytes of JSON is over the limit of {limit}; store the data "
            "elsewhere and pass a reference, or raise max_payload"
        )
        self.size = size
        self.limit = limit


class NotFilledIn(HoldfastError, AttributeError):
    """A resource is used where no worker has filled it in: its function was called plainly."""

    def __init__(self, resource: str) -> None:
        super().__init__(
            f"{resource} is filled in by a worker: pass a value for it when you call the function "
            "yourself, or use harness.run(...)"
        )
        self.resource = resource

    def __reduce__(self) -> tuple[type[NotFilledIn], tuple[str]]:
        return type(self), (self.resource,)


class ProgramNotStarted(HoldfastError):
    """The system could not start a program: it is not installed, or its folder is gone."""

    def __init__(self, program: str, problem: str) -> None:
        super().__init__(f"{program!r} cannot be started: {problem}")
        self.program = program
        self.problem = problem

    def __reduce__(self) -> tuple[type[ProgramNotStarted], tuple[str, str]]:
        return type(self), (self.program, self.problem)


class CommandFailed(HoldfastError):
    """A program of a task did not end well. `stderr` is the end of what it wrote there."""

    def __init__(self, program: str, ending: str, stderr: str) -> None:
        said = f": {stderr.strip()}" if stderr.strip() else ", and wrote nothing about it"
        super().__init__(f"{program!r} ended with {ending}{said}")
        self.program = program
        self.ending = ending
        self.stderr = stderr

    def __reduce__(self) -> tuple[type[CommandFailed], tuple[str, str, str]]:
        return type(self), (self.program, self.ending, self.stderr)
