"""The modules that a worker imports before it starts, so that it knows their tasks.

`App(imports=["shop.tasks"])`, `app.autodiscover("shop")` and `--import` only name modules. A worker
and `holdfast enqueue` import them. A program that only enqueues imports what it uses. Nothing is
imported while the app's own module is loading, so these modules may import the app.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from holdfast.errors import BadImport, BadOption
from holdfast.job import checks
from holdfast.job.importable import importable_name


class Imports:
    """Modules by name. `loaded` lists those that were imported, in order."""

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self._named: list[Callable[[], Iterable[str]]] = [lambda: modules]
        self.loaded: list[str] = []

    def discover(self, package: str, name: str) -> None:
        """Name every module of this name in a package and in the packages below it."""
        checks.kind("autodiscover", package, str, "given the name of a package, such as 'shop'")
        checks.kind("autodiscover", name, str, "given the name of modules, such as 'tasks'")
        self._named.append(partial(modules_named, name, package))

    def load(self, first: Iterable[str]) -> None:
        """Import these modules, then what was named. A module that is imported may name more."""
        self._load_each(first)
        while self._named:
            self._load_each(self._named[0]())
            del self._named[0]  # only now: a call after one that failed goes on where it failed

    def _load_each(self, modules: Iterable[str]) -> None:
        for module in modules:
            _check_module(module)
            if module not in self.loaded and not _runs_as_script(module):
                load_module(module)
                self.loaded.append(module)


def _check_module(name: object) -> None:
    """Python's own errors for no name and for a relative one say nothing of the setting."""
    expected = "names of modules, such as 'shop.tasks'"
    checks.kind("imports", name, str, expected)
    if not name or str(name).startswith("."):
        raise BadOption("imports", expected, name)


def load_module(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise _broken(name, missing) from missing
        raise BadImport(name, f"there is no module {missing.name!r} on the Python path") from None
    except Exception as error:
        raise _broken(name, error) from error


def _runs_as_script(name: str) -> bool:
    """Whether this module is the script that runs: it need not be loaded a second time."""
    return name not in sys.modules and name == importable_name("__main__")


def _broken(name: str, error: Exception) -> BadImport:
    return BadImport(name, f"{type(error).__name__}: {error}")


def modules_named(name: str, package: str) -> list[str]:
    """The modules of this name in a package and below, without importing a package that has
    none. To find none at all is an error: the name is wrong."""
    from importlib.util import find_spec  # here, because a program that only enqueues never walks

    try:
        spec = find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise BadImport(package, "there is no such package on the Python path")
    if spec.submodule_search_locations is None:
        raise BadImport(f"{package}.{name}", f"{package!r} is a module and not a package")
    found = list(_below(package, spec.submodule_search_locations, name))
    if not found:
        raise BadImport(f"{package}.{name}", f"neither {package!r} nor a package below has one")
    return found


def _below(package: str, folders: Iterable[str], name: str) -> Iterator[str]:
    from pkgutil import iter_modules

    for found in iter_modules(list(folders)):
        path = f"{package}.{found.name}"
        if found.name == name:
            yield path
        elif found.ispkg:
            # The finder looks without importing the package, unlike `importlib.util.find_spec`.
            spec = found.module_finder.find_spec(path, None)
            yield from _below(path, (spec and spec.submodule_search_locations) or (), name)
