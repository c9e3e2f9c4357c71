"""The name of a module as every program knows it: tasks and exceptions are told apart by it.

A module that is run as a script is called `__main__`, and another program imports the same file
under its real name. The real name is found:

- `python -m shop.tasks`: the name that was given, `shop.tasks`; `python -m shop` is `shop`
- `python shop/tasks.py`: the name of the file, below every folder around it that is a package
- a notebook, a shell, `python -c`: no name
"""

from __future__ import annotations

import os
import sys
from functools import cache

SCRIPTS = ("__main__", "__mp_main__")
"""How a module that is run as a script is called: by the interpreter, and in a child process that
`multiprocessing` spawned."""


def importable_name(module: str) -> str:
    """The name under which another program imports this module; empty if no program can."""
    name = _name_of_script(module) if module in SCRIPTS else module
    return name.removesuffix("__main__").rstrip(".")


def name_in_child(module: str) -> str:
    """The name under which a child process imports this module. `multiprocessing` loads the script
    of its parent as `__main__` too, except for the `__main__` of a package (`python -m shop`),
    which the child has to import itself."""
    if module == "__main__":
        spec = getattr(sys.modules[module], "__spec__", None)
        if spec is not None and spec.name.endswith(".__main__"):
            return str(spec.name)
    return module


def _name_of_script(module: str) -> str:
    script = sys.modules.get(module)
    spec, file = getattr(script, "__spec__", None), getattr(script, "__file__", None)
    if spec is not None and spec.name not in SCRIPTS:
        return str(spec.name)
    return "" if file is None else _name_of_file(os.path.abspath(file))


@cache
def _name_of_file(file: str) -> str:
    folder, name = os.path.split(file)
    parts = [os.path.splitext(name)[0]]
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    return ".".join(parts)
