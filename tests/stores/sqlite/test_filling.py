"""Rows that are inserted some at a time are those that would be inserted one by one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from holdfast.store.sqlite.scripts import ROWS_ALIKE, ROWS_TOGETHER
from holdfast.store.sqlite.transaction import Row, Transaction

INSERT = "insert into kept (id, name)\nvalues (?, ?)"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        opened.execute("create table kept (id integer primary key, name text)")
        yield opened


def _rows(connection: sqlite3.Connection) -> list[Row]:
    return connection.execute("select id, name from kept order by id").fetchall()


@pytest.mark.parametrize("count", [0, 1, ROWS_TOGETHER - 1, ROWS_TOGETHER, 2 * ROWS_TOGETHER + 3])
def test_every_row_is_inserted_once(connection: sqlite3.Connection, count: int) -> None:
    rows: list[Row] = [(n, f"row {n}" if n % 3 else None) for n in range(count)]
    Transaction(connection.cursor(), 0).fill(INSERT, rows)
    assert _rows(connection) == rows


def test_a_row_that_cannot_be_inserted_fails_as_it_does_alone(
    connection: sqlite3.Connection,
) -> None:
    tx = Transaction(connection.cursor(), 0)
    rows: list[Row] = [(n, "new") for n in range(ROWS_TOGETHER)]
    rows[-1] = (0, "again")
    for insert in (tx.each, tx.fill):
        connection.execute("begin immediate")
        with pytest.raises(sqlite3.IntegrityError):
            insert(INSERT, rows)
        connection.execute("rollback")
        assert _rows(connection) == []


ALIKE = """
with new (id) as (values (?))
insert or fail into kept (id, name)
select n.id, ? from new as n
"""


@pytest.mark.parametrize("count", [0, 1, ROWS_TOGETHER, ROWS_ALIKE, 2 * ROWS_ALIKE + 43])
def test_every_row_is_inserted_once_with_what_all_share(
    connection: sqlite3.Connection, count: int
) -> None:
    Transaction(connection.cursor(), 0).fill_alike(ALIKE, [(n,) for n in range(count)], ("all",))
    assert _rows(connection) == [(n, "all") for n in range(count)]
