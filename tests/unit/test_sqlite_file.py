"""The file under a SQLite store: whose it is, and whether it is still there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import SchemaTooNew, StoreError
from holdfast.store.open import open_store
from tests.backends import opened
from tests.leaks import nothing_leaks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


def run_on(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(script)


def journal_of(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        mode: str = connection.execute("pragma journal_mode").fetchone()[0]
        return mode


# Whose file it is ---------------------------------------------------------------------------


def newer(path: Path) -> None:
    run_on(path, open_store(f"sqlite:///{path}").migration_sql())
    run_on(path, "insert into holdfast_migration values (9999, '9999_later', '?', 0)")


def with_a_table_of_that_name(path: Path) -> None:
    run_on(path, "create table holdfast_job (mine text)")


def with_a_record_of_that_name(path: Path) -> None:
    run_on(path, "create table holdfast_migration (mine text)")


def no_database(path: Path) -> None:
    path.write_text("a shopping list, not a database")


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (newer, SchemaTooNew, "upgrade holdfast"),
        (with_a_table_of_that_name, StoreError, "'holdfast_job', which Holdfast did not make"),
        (with_a_record_of_that_name, StoreError, "'holdfast_migration', which Holdfast did not"),
        (no_database, StoreError, "file is not a database"),
    ],
)
async def test_a_file_that_is_not_ours_is_left_as_it_was(
    path: Path, url: str, make: Callable[[Path], None], error: type[StoreError], said: str
) -> None:
    make(path)
    before = path.read_bytes()
    async with nothing_leaks():
        with pytest.raises(error, match=said):
            await open_store(url).open()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


async def test_a_users_file_is_shared_with_the_users_own_tables(path: Path, url: str) -> None:
    run_on(path, "create table job (mine text); insert into job values ('kept')")
    async with opened(url):
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("select mine from job").fetchall() == [("kept",)]
    assert journal_of(path) == "wal"
