"""A name of `holdfast` is imported when it is used, and a program pays only for what it uses."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import holdfast
from tests.support.source import PACKAGE

ENQUEUES = """
import asyncio
from holdfast import App

app = App("sqlite://")

@app.task
async def greet(name: str) -> None: ...

async def main() -> None:
    async with app:
        await greet.enqueue("Ada")
"""
ASYNC = f"{ENQUEUES}\nasyncio.run(main())"
SYNC = f"{ENQUEUES}\ngreet.enqueue_sync('Ada')\napp.close_sync()"

WORKER = {
    *("holdfast.worker", "holdfast.reconcile", "holdfast.services", "holdfast.opened_worker"),
    *("holdfast.handlers.processes", "holdfast.handlers.threads", "multiprocessing"),
    *("importlib.metadata", "concurrent.futures.process"),
}
VERBS = {
    *("holdfast.client.client", "holdfast.client.sync", "holdfast.operations"),
    *("holdfast.client.schedules", "holdfast.insights", "holdfast.cli", "holdfast.testing"),
}
SCHEDULES = {
    *("holdfast.schedule.definition", "holdfast.schedule.rule", "holdfast.schedule.evaluation"),
    *("cronsim", "zoneinfo"),
}
OTHERS = {
    *("cryptography", "holdfast.encryption", "holdfast.store.sealed"),
    *("click", "rich", "asyncpg", "redis", "hiredis", "pydantic", "uvloop"),
    *("tomllib", "dataclasses", "ctypes", "importlib.resources"),
}
SHOWING = {"holdfast.job.redaction", "holdfast.codec.secrets", "holdfast.codec.schema"}
OF_THE_STORE = {
    *("sqlite3", "pathlib", "hashlib", "holdfast.store.contract.records"),
    *("holdfast.store.contract.queues", "holdfast.store.contract.workers"),
}


def imported_by(program: str, folder: object) -> set[str]:
    """The modules that a program has imported at its end, in a folder without settings."""
    show = "\nimport sys; print(*sys.modules)"
    command = [sys.executable, "-c", program + show]
    done = subprocess.run(command, capture_output=True, text=True, cwd=str(folder), check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_no_part_of_it(tmp_path: object) -> None:
    found = imported_by("import holdfast", tmp_path)
    assert {name for name in found if name.startswith("holdfast.")} == set()
    assert "asyncio" not in found


def test_an_app_that_is_not_open_imports_neither_store_nor_verbs(tmp_path: object) -> None:
    found = imported_by("from holdfast import App; App('sqlite://')", tmp_path)
    assert found & (WORKER | VERBS | SCHEDULES | OTHERS | OF_THE_STORE) == set()


@pytest.mark.parametrize("program", [ASYNC, SYNC], ids=["async", "sync"])
def test_a_program_that_only_enqueues_imports_only_that(program: str, tmp_path: object) -> None:
    found = imported_by(program, tmp_path)
    assert found & (WORKER | VERBS | SCHEDULES | SHOWING | OTHERS) == set()
    assert "holdfast.store.sqlite.store" in found


def test_every_name_that_must_not_be_imported_exists() -> None:
    """A module that was renamed would be forbidden in vain."""
    named = WORKER | VERBS | SCHEDULES | SHOWING | OF_THE_STORE
    own = [name for name in named if "holdfast" in name]
    places = [PACKAGE.joinpath(*name.split(".")[1:]) for name in own]
    assert [
        place for place in places if not (place.is_dir() or place.with_suffix(".py").exists())
    ] == []


def test_type_checkers_and_python_find_the_same_names_in_the_same_places() -> None:
    [block] = [
        node
        for node in ast.parse((PACKAGE / "__init__.py").read_text()).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    ]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    checked = {alias.name: node.module for node in imports for alias in node.names}
    assert sorted(checked) == sorted(holdfast.__all__)
    errors = {name for name, module in checked.items() if module == "holdfast.errors"}
    homes = {name: module for module, names in holdfast._HOMES.items() for name in names}
    assert homes == {name: checked[name] for name in checked.keys() - errors}
    for name in holdfast.__all__:
        assert getattr(getattr(holdfast, name), "__module__", checked[name]) == checked[name]


def test_a_worker_looks_up_no_installed_package(tmp_path: object) -> None:
    found = imported_by("import holdfast.cli.worker, holdfast.opened_worker", tmp_path)
    assert "holdfast.worker.worker" in found
    assert found & {"importlib.metadata", "email"} == set()


def test_a_star_import_and_dir_know_every_name() -> None:
    names: dict[str, object] = {}
    exec("from holdfast import *", names)
    assert set(holdfast.__all__) <= names.keys()
    assert {*holdfast.__all__, "__version__"} <= set(dir(holdfast))


def test_a_misspelled_name_is_refused_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'Ap'") as caught:
        holdfast.Ap  # type: ignore[attr-defined]  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("Ap", holdfast)  # suggestions need both
    with pytest.raises(ImportError, match="cannot import name 'Ap' from 'holdfast'"):
        exec("from holdfast import Ap")


def test_python_suggests_the_name_that_was_meant() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import holdfast; holdfast.Retri"], capture_output=True, text=True
    )
    assert "Did you mean: 'Retry'?" in done.stderr
