"""What a task is called if nobody names it: `module.qualname`, as other programs can import it.

A module that is run as a script is called `__main__`, and its worker imports the same file under
its real name. Both must give a task the same name, or the script enqueues jobs that nobody runs. So
the real name of `__main__` is found:

- `python -m shop.tasks`: the name that was given, `shop.tasks`; `python -m shop` is `shop`
- `python shop/tasks.py`: the name of the file, below every folder around it that is a package
- a notebook, a shell, `python -c`: no name, so the task is called by its qualname alone
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.errors import BadOption, BadTask
from holdfast.handlers.registry import place_of
from holdfast.job.checks import check_name

SCRIPTS = ("__main__", "__mp_main__")
"""How a module that is run as a script is called: by the interpreter, and in a child process that
`multiprocessing` spawned."""


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


def importable_name(module: str) -> str:
    """The name under which another program imports this module; empty if no program can."""
    name = _name_of_script(module) if module in SCRIPTS else module
    return name.removesuffix("__main__").rstrip(".")


def _name_of_script(module: str) -> str:
    script = sys.modules.get(module)
    spec, file = getattr(script, "__spec__", None), getattr(script, "__file__", None)
    if spec is not None and spec.name not in SCRIPTS:
        return str(spec.name)
    return "" if file is None else _name_of_file(Path(file).absolute())


def _name_of_file(file: Path) -> str:
    folder, parts = file.parent, [file.stem]
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)
