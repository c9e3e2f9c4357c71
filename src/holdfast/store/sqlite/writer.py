"""Runs verbs as transactions on one opened database.

Writes go to one thread, so that nobody in this process waits for SQLite's lock. A small write
is first tried in the caller's own thread (`InlineWriter`). Reads have a thread and a connection
of their own, so a long listing never delays a claim; a database in memory has only one
connection, and its thread does both.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from holdfast.clock import Clock
from holdfast.errors import StoreError
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.busy import BusyRetry
from holdfast.store.sqlite.connection import Connector
from holdfast.store.sqlite.errors import OF_THE_ROW
from holdfast.store.sqlite.giving_way import GivingWay
from holdfast.store.sqlite.inline_writer import InlineWriter
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.rows import to_micros
from holdfast.store.sqlite.schema import copy_first, migrate, remember_first
from holdfast.store.sqlite.thread import ConnectionThread
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.version import Version, version_of
from holdfast.store.sqlite.wakeups import SqliteWakeups

T = TypeVar("T")
Work = Callable[[Transaction], T]
IfUnchanged = Callable[[Version], T | None]
"""May answer from the version of the database, without a transaction."""

OLDEST = (3, 35, 0)  # the first with RETURNING


class Writer:
    """One opened database. `retain` and `release` count the stores that use it: siblings of a
    store in memory share one writer, which lives as long as any of them is open."""

    def __init__(self, location: Location, clock: Clock, *, is_sibling: bool = False) -> None:
        self.location = location
        self._clock = clock
        self._is_sibling = is_sibling
        self._users = 0
        self._giving_way = GivingWay(location.path)
        self._retry = BusyRetry(location.patience, location.shown, self._giving_way.waited)
        self._connector = Connector(location, self._retry, is_there=is_sibling)
        self._anchor = Anchor(location.path)
        self._inline = InlineWriter(location, self._connector)
        self._writing = ConnectionThread(
            f"holdfast-sqlite-writer {location.shown}", self._connect, self._anchor
        )
        self._reading = self._writing
        if location.path is not None:
            self._reading = ConnectionThread(
                f"holdfast-sqlite-reader {location.shown}",
                self._connector.connect,
                Anchor(location.path),
            )
        self.wakeups = SqliteWakeups(location.path, self._connector.connect)

    @property
    def is_there(self) -> bool:
        """Whether the file holds the store already, so that it must not be created."""
        return self._connector.is_there

    def retain(self) -> None:
        _require_recent_sqlite()
        self.location.require_place()
        if self._users == 0:
            self._connector.opening += 1
            self._connector.is_there = self._is_sibling
        self._users += 1
        self._retry.is_closing = False
        self._writing.start()
        self._reading.start()

    def release(self) -> None:
        self._users -= 1
        if self._users == 0:
            self._retry.is_closing = True
            self.wakeups.stop()
            self._reading.stop()
            self._writing.stop()
            self._inline.close()

    def now(self) -> int:
        moment = self._clock.override()
        return time.time_ns() // 1000 if moment is None else to_micros(moment)

    async def write(
        self, work: Work[T], *, small: bool = False, if_unchanged: IfUnchanged[T] | None = None
    ) -> T:
        """Run `work` in a transaction of its own, and wake after it. A `small` write need not
        change threads if nobody is in its way."""
        if small and (connection := self._inline.take()) is not None:
            try:
                return self._write(connection, work, if_unchanged)
            except (sqlite3.Error, *OF_THE_ROW):
                pass  # Rolled back. The thread waits for a lock, and says what else is wrong.
            finally:
                if self._inline.give_back():
                    self._writing.post(self._inline.checkpoint)
        return await self._writing.run(self._write_in_turn, work, if_unchanged)

    def write_alone(self, sql: str, values: Row) -> int:
        """How many rows a statement wrote that is a transaction by itself: SQLite begins and
        commits it, which takes a fifth less than brackets around it. 0 also if it was not tried,
        because somebody is in the way, or if it failed: whoever asks then takes the long way."""
        if (connection := self._inline.take()) is None:
            return 0
        try:
            return connection.execute(sql, values).rowcount
        except (sqlite3.Error, *OF_THE_ROW):
            return 0
        finally:
            if self._inline.give_back():
                self._writing.post(self._inline.checkpoint)

    async def read(self, work: Work[T], *, if_unchanged: IfUnchanged[T] | None = None) -> T:
        """Run `work` against one snapshot, beside the writer."""
        return await self._reading.run(self._read_in_turn, work, if_unchanged)

    async def prepare(self, *, may_create: bool) -> None:
        """Have the schema of this program in the database."""
        if may_create and self.location.path is None:
            await self._writing.run(self._prepare_in_memory)
        else:
            await self.migrate(may_create=may_create)

    async def migrate(self, *, may_create: bool = True) -> list[str]:
        shown = self.location.shown
        applied = await self.write(lambda tx: migrate(tx, shown, may_create=may_create))
        if self.location.path is not None:
            await self._writing.run(self._settle)
        return applied

    # In the thread that has the connection

    def _write_in_turn(
        self, connection: sqlite3.Connection, work: Work[T], if_unchanged: IfUnchanged[T] | None
    ) -> T:
        with self._giving_way.turn(), self._inline.exclusive():
            answer: T = self._retry.run(self._write, connection, work, if_unchanged)
            return answer

    def _write(
        self, connection: sqlite3.Connection, work: Work[T], if_unchanged: IfUnchanged[T] | None
    ) -> T:
        """One try; the time is read once the lock is held."""
        if (known := self._known(connection, if_unchanged)) is not None:
            return known
        connection.execute("BEGIN IMMEDIATE")
        try:
            tx = Transaction(connection.cursor(), self.now())
            answer = work(tx)
            bumps = tx.close()
            connection.execute("COMMIT")
        except BaseException:
            # A failed COMMIT may already have rolled back by itself.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if tx.committed is not None:
            tx.committed()
        if bumps:
            self.wakeups.emit_own(bumps)
        return answer

    def _read_in_turn(
        self, connection: sqlite3.Connection, work: Work[T], if_unchanged: IfUnchanged[T] | None
    ) -> T:
        answer: T = self._retry.run(self._read, connection, work, if_unchanged)
        return answer

    def _read(
        self, connection: sqlite3.Connection, work: Work[T], if_unchanged: IfUnchanged[T] | None
    ) -> T:
        if (known := self._known(connection, if_unchanged)) is not None:
            return known
        connection.execute("BEGIN")
        try:
            return work(Transaction(connection.cursor(), self.now()))
        finally:
            connection.execute("ROLLBACK")

    def _known(
        self, connection: sqlite3.Connection, if_unchanged: IfUnchanged[T] | None
    ) -> T | None:
        """The answer of a database that has not changed since it was asked the last time."""
        if if_unchanged is None:
            return None
        return if_unchanged(version_of(connection, self._connector.opening))

    def _connect(self, anchor: Anchor) -> sqlite3.Connection:
        """The writer's own connection, and the inline writer's with it."""
        connection = self._connector.connect(anchor)
        try:
            if self._connector.is_there:
                self._inline.open()
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare_in_memory(self, connection: sqlite3.Connection) -> None:
        """In one go: a sibling may insert as soon as this is done."""
        copy_first(connection)
        if self._write(connection, lambda tx: migrate(tx, self.location.shown), None):
            remember_first(connection)

    def _settle(self, connection: sqlite3.Connection) -> None:
        self._connector.settle(connection, self._anchor)
        self._inline.open()


class Verbs:
    """A part of the contract on a writer; `SqliteJobs` is the sum of several."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer


def _require_recent_sqlite() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        raise StoreError(
            f"SQLite {'.'.join(map(str, OLDEST))} or later is needed, this Python carries "
            f"{sqlite3.sqlite_version}: use a newer Python or link it with a newer SQLite"
        )
