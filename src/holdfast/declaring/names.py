"""What a task is called if nobody names it: `module.qualname`, as other programs can import it.

A script and a worker that imports the same file must give a task the same name, or the script
enqueues jobs that nobody runs. So the real name of the module counts (`importable_name`). In a
notebook or a shell there is none, and the task is called by its qualname alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.errors import BadOption, BadTask
from holdfast.handlers.registry import place_of
from holdfast.job.checks import check_name
from holdfast.job.importable import importable_name


def task_name(function: Callable[..., Any], prefix: str, given: str | None) -> str:
    """What a task is called. The prefix of a set takes the place of the module."""
    if not callable(function):
        raise BadOption("@task", "put on a function; give options by name (name=…)", function)
    if given is not None:
        check_name("task name", given)
    own = given or (local_name(function) if prefix else default_name(function))
    if own is None:
        what = "given as name=…: this object has no name of its own"
        raise BadOption("task name", what, function)
    what = "task name" if given else f"task name (name=… for {place_of(function)})"
    check_name(what, f"{prefix}{own}")
    return f"{prefix}{own}"


def check_old_names(name: str, also: tuple[str, ...]) -> None:
    for old in also:
        check_name("old name of a task", old)
    if len({name, *also}) <= len(also):
        raise BadTask(name, f"also={also!r} must hold other names, each once")


def default_name(function: Callable[..., Any]) -> str | None:
    """The name of a function within the world of modules; None if the object has no name."""
    own = local_name(function)
    module = importable_name(getattr(function, "__module__", None) or "")
    return f"{module}.{own}" if own and module else own


def local_name(function: Callable[..., Any]) -> str | None:
    """The name of a function within its module. A function made inside a function is called by
    both."""
    name = getattr(function, "__qualname__", None)
    return name.replace(".<locals>", "") if isinstance(name, str) else None
