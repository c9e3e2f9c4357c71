"""A name of `holdfast` is imported when it is used, and a program pays only for what it uses."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.program import COMMANDS
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
OTHER_STORES = {"holdfast.store.postgres", "holdfast.store.valkey", "asyncpg", "redis", "hiredis"}
NOT_OF_WORKERS = {
    *("holdfast.client.client", "holdfast.insights.explain", "holdfast.insights.redaction"),
    *("holdfast.operations.runner", "holdfast.operations.rows", "holdfast.testing"),
    *("multiprocessing", "holdfast.handlers.processes", "holdfast.handlers.wire"),
    *("holdfast.encryption", "cryptography", "secrets", "rich", "pydantic", "dataclasses"),
    *("importlib.metadata", "email", "json", "tempfile", "tomllib"),
}
NOT_OF_LISTS = {"holdfast.app", "textual", "importlib.metadata", "email", "json"}
NOT_OF_HELP = {
    *("asyncio", "sqlite3", "rich", "dataclasses", "json", "holdfast.app", "holdfast.worker"),
    *("holdfast.client", "holdfast.insights", "holdfast.operations", "holdfast.store.contract"),
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
    return set(done.stdout.splitlines()[-1].split())


def imported_by_command(folder: object, *words: str) -> set[str]:
    """The modules that a command of the shell has imported at its end."""
    call = f"""
import sys
from holdfast.cli.main import main

sys.argv = ["holdfast", *{words!r}]
try:
    main()
except SystemExit as left:
    assert not left.code, left
"""
    return imported_by(call, folder)


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
    named = (
        *(WORKER, VERBS, SCHEDULES, SHOWING, OF_THE_STORE),
        *(OTHER_STORES, NOT_OF_WORKERS, NOT_OF_LISTS, NOT_OF_HELP),
    )
    own = [name for name in set().union(*named) if "holdfast" in name]
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


def test_a_worker_imports_neither_verbs_nor_what_only_some_tasks_need(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(ENQUEUES.replace("sqlite://", "sqlite:///jobs.db"))
    found = imported_by_command(tmp_path, "worker", "shop:app", "--burst")
    assert {"holdfast.worker.worker", "holdfast.store.sqlite.store"} <= found
    assert found & (NOT_OF_WORKERS | OTHER_STORES) == set()


def test_one_server_of_valkey_is_spoken_to_without_the_driver(tmp_path: Path) -> None:
    """The driver takes as long to import as the rest of a worker. Clusters need it."""
    server = "from holdfast.store.open import open_store; open_store('valkey://localhost')"
    found = imported_by(server, tmp_path)
    assert {"holdfast.store.valkey.store", "hiredis"} <= found
    assert found & {"redis", "holdfast.store.postgres", "holdfast.store.sqlite"} == set()


def test_the_help_imports_no_command(tmp_path: Path) -> None:
    found = imported_by_command(tmp_path, "--help")
    commands = {f"holdfast.cli.{name}" for one in COMMANDS.values() for name in one.modules}
    assert found & (commands | NOT_OF_HELP | OTHER_STORES) == set()


def test_a_command_imports_what_it_runs(tmp_path: Path) -> None:
    shop = f"{ENQUEUES.replace('sqlite://', 'sqlite:///jobs.db')}\nasyncio.run(main())"
    imported_by(shop, tmp_path)
    found = imported_by_command(tmp_path, "jobs", "list", "--url", "sqlite:///jobs.db")
    assert {"holdfast.client.client", "holdfast.store.sqlite.store"} <= found
    assert found & (WORKER | SCHEDULES | OTHER_STORES | NOT_OF_LISTS) == set()


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
