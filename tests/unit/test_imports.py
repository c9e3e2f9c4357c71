"""What a worker imports before it starts, and what it says when that fails."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import App, BadImport, BadOption
from holdfast.config import Settings
from holdfast.testing import Harness

_numbers = itertools.count()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of a name of its own, with two modules called `tasks` and one package without."""
    name = f"discovered_{next(_numbers)}"
    root = tmp_path / name
    for folder in (root, root / "mail", root / "empty", root / "mail" / "deep"):
        folder.mkdir()
        (folder / "__init__.py").write_text("")
    (root / "app.py").write_text("from holdfast import App\napp = App('sqlite://')\n")
    (root / "empty" / "__init__.py").write_text("raise RuntimeError('nobody needs this')\n")
    task = f"from {name}.app import app\n@app.task\ndef send() -> None: ...\n"
    (root / "tasks.py").write_text(task)
    (root / "mail" / "deep" / "tasks.py").write_text(task)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[module]


def app_of(package: str, **options: object) -> App:
    app: App = __import__(f"{package}.app", fromlist=["app"]).app
    return app


def test_a_package_is_walked_when_a_worker_starts(package: str) -> None:
    app = app_of(package)
    app.autodiscover(package)
    assert not app.registry, "a program that only enqueues imports nothing"
    app.worker()
    assert list(app.registry) == [f"{package}.mail.deep.tasks.send", f"{package}.tasks.send"]
    assert f"{package}.empty" not in sys.modules


async def test_a_harness_imports_what_a_worker_would(package: str) -> None:
    app = app_of(package)
    app.autodiscover(package)
    async with Harness(app):
        assert f"{package}.tasks.send" in app.registry


def test_modules_are_imported_by_name(package: str) -> None:
    app = app_of(package)
    app.import_tasks(f"{package}.tasks", f"{package}.tasks")
    assert list(app.registry) == [f"{package}.tasks.send"]


def test_a_module_that_breaks_is_named_and_keeps_its_own_error(
    package: str, tmp_path: Path
) -> None:
    (tmp_path / package / "mail" / "tasks.py").write_text("1 / 0\n")
    app = app_of(package)
    app.autodiscover(package)
    says = f"module '{package}.mail.tasks' cannot be imported: ZeroDivisionError: division by zero"
    with pytest.raises(BadImport, match=says) as refused:
        app.worker()
    assert isinstance(refused.value.__cause__, ZeroDivisionError)


def test_a_library_that_a_module_lacks_is_the_modules_own_error(
    package: str, tmp_path: Path
) -> None:
    (tmp_path / package / "tasks.py").write_text("import a_library_that_is_missing\n")
    with pytest.raises(BadImport, match="ModuleNotFoundError: No module named") as refused:
        app_of(package).import_tasks(f"{package}.tasks")
    assert refused.value.__cause__ is not None


@pytest.mark.parametrize("missing", ["nowhere.tasks", "{package}.nowhere"])
def test_a_module_that_is_not_there_is_said_plainly(package: str, missing: str) -> None:
    name = missing.format(package=package)
    with pytest.raises(BadImport, match=f"module '{name}' .* there is no module") as refused:
        app_of(package).import_tasks(name)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("place", "name", "says"),
    [
        ("nowhere.at.all", "tasks", "there is no such package"),
        ("{}", "task", "neither '{}' nor a package below has one"),
        ("{}.tasks", "tasks", "is a module and not a package"),
    ],
)
def test_a_package_to_discover_must_be_one(package: str, place: str, name: str, says: str) -> None:
    app = app_of(package)
    app.autodiscover(place.format(package), name)
    with pytest.raises(BadImport, match=says.format(package)):
        app.worker()


def test_imports_are_a_setting_like_any_other(tmp_path: Path) -> None:
    def imports(environ: dict[str, str], **given: object) -> tuple[str, ...]:
        return Settings.load(environ=environ, folder=tmp_path, **given).imports

    (tmp_path / "holdfast.toml").write_text('imports = ["from.file"]\n')
    environ = {"HOLDFAST_IMPORTS": "shop.tasks, billing.tasks,"}
    assert imports({}) == ("from.file",)
    assert imports(environ) == ("shop.tasks", "billing.tasks")
    assert imports(environ, imports=["mine"]) == ("mine",)
    assert imports(environ, imports=[]) == ()


@pytest.mark.parametrize("value", ["shop tasks", ["shop.tasks.py:x"], [5], 5, "shop/tasks.py"])
def test_imports_must_be_names_of_modules(value: object, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="imports must be names of modules, such as"):
        Settings.load(environ={}, folder=tmp_path, imports=value)


def test_what_is_no_name_of_a_module_is_refused() -> None:
    with pytest.raises(BadOption, match="imports"):
        App("sqlite://").import_tasks(["shop"])  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="autodiscover"):
        App("sqlite://").autodiscover(None)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="autodiscover"):
        App("sqlite://").autodiscover("shop", 5)  # type: ignore[arg-type]


def test_a_second_call_after_a_failed_import_fails_again() -> None:
    app = App("sqlite://", imports=["no_such_module_at_all"])
    for _ in range(2):
        with pytest.raises(BadImport, match="no_such_module_at_all"):
            app.import_tasks()
