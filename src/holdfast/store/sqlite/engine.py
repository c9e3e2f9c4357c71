"""One opened database: the thread that writes, the thread that reads, and who is woken.

Reads have a connection of their own, so a long listing never delays a claim; in memory
there is only one connection and it does both. Siblings of a store in memory share one
engine, which lives as long as any of them is open.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from holdfast.clock import Clock
from holdfast.errors import StoreError, StoreUnavailable
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.giving_way import GivingWay
from holdfast.store.sqlite.inline_writer import InlineWriter
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.rows import to_micros
from holdfast.store.sqlite.schema import migrate, require_own
from holdfast.store.sqlite.scripts import steps
from holdfast.store.sqlite.thread import ConnectionThread
from holdfast.store.sqlite.transaction import State, Transaction, patiently, state_of, write
from holdfast.store.sqlite.wakeups import SqliteWakeups
from holdfast.store.sqlite.watcher import Bump, Key

T = TypeVar("T")

OLDEST = (3, 35, 0)  # the first with RETURNING


def _unknown(state: State) -> None:
    return None


class Engine:
    """Runs verbs as transactions; `retain` and `release` count the stores that use it.

    The file may be created and migrated by its first opening. From then on, and for the engine
    of a sibling from the beginning, it has to be there: a new file in its place would look like
    a store without jobs.
    """

    def __init__(self, location: Location, clock: Clock, *, is_sibling: bool = False) -> None:
        self.location = location
        self._clock = clock
        self._is_sibling = self.is_there = is_sibling
        self._users = 0
        self._closing = False
        self._opening = 0
        self._anchor = Anchor(location.path)
        self._shortcut = InlineWriter(location)
        self._giving_way = GivingWay(location.path)
        self._writer = ConnectionThread(
            f"holdfast-sqlite-writer {location.shown}", self._connect_writer, self._anchor
        )
        self._reader = self._writer
        if location.path is not None:
            self._reader = ConnectionThread(
                f"holdfast-sqlite-reader {location.shown}", self._connect, Anchor(location.path)
            )
        self.wakeups = SqliteWakeups(location.path, self._connect)

    def retain(self) -> None:
        _require_recent_sqlite()
        self.location.require_place()
        if self._users == 0:
            self._opening += 1
            self.is_there = self._is_sibling
        self._users += 1
        self._closing = False
        self._writer.start()
        self._reader.start()

    def release(self) -> None:
        self._users -= 1
        if self._users == 0:
            self._closing = True
            self.wakeups.stop()
            self._reader.stop()
            self._writer.stop()
            self._shortcut.close()

    def now(self) -> int:
        moment = self._clock.override()
        return time.time_ns() // 1000 if moment is None else to_micros(moment)

    async def write(
        self,
        work: Callable[[Transaction], T],
        *,
        little: bool = False,
        known: Callable[[State], T | None] = _unknown,
    ) -> T:
        """Run `work` in a transaction of its own, and wake after it.

        That is done in the writer's thread; a `little` one need not change threads if nobody
        is in its way. `known` may answer from the state that the database is in.
        """

        def once(connection: sqlite3.Connection) -> T:
            answer = known(self._state(connection)) if known is not _unknown else None
            return self._write(connection, work) if answer is None else answer

        if little and (answer := self._shortcut.attempt(once)) is not None:
            if self._shortcut.is_untidy():
                self._writer.post(self._shortcut.tidy)
            return answer
        return await self._writer.run(lambda connection: self._in_turn(lambda: once(connection)))

    def _in_turn(self, work: Callable[[], T]) -> T:
        """In the writer's thread."""
        self._giving_way.before_writing()
        began = time.monotonic()
        try:
            return self._shortcut.alone(lambda: self._patiently(work))
        finally:
            self._giving_way.served()
            self._giving_way.wrote(began)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` against one snapshot, beside the writer."""
        return await self._reader.run(lambda connection: self._read(connection, work))

    async def read_unless(
        self, known: Callable[[State], T | None], work: Callable[[Transaction], T]
    ) -> T:
        """The same, unless the answer is known from the state that the database is in."""

        def look_first(connection: sqlite3.Connection) -> T:
            answer = known(self._patiently(lambda: self._state(connection)))
            return self._read(connection, work) if answer is None else answer

        return await self._reader.run(look_first)

    async def migrate(self) -> list[str]:
        """Until it is migrated a file may be another's: only then it is switched to WAL."""
        applied = await self.write(lambda tx: migrate(tx, self.location.shown))
        if self.location.path is not None:
            await self._writer.run(self._settle)
        return applied

    def _settle(self, connection: sqlite3.Connection) -> None:
        """In the writer's thread. The switch stays in the file, and can find the file busy."""
        self._patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"))
        self.is_there = True
        self._take_hold(connection, self._anchor)
        self._shortcut.open(self._connect)

    def _state(self, connection: sqlite3.Connection) -> State:
        """Another opening may find another database."""
        return self._opening, *state_of(connection)

    def _write(self, connection: sqlite3.Connection, work: Callable[[Transaction], T]) -> T:
        bumped: dict[Key, Bump] = {}

        def bump_too(tx: Transaction) -> T:
            answer = work(tx)
            bumped.update(bump(tx))
            return answer

        answer = write(connection, self.now, bump_too)
        if bumped:
            self.wakeups.emit_own(bumped)
        return answer

    def _read(self, connection: sqlite3.Connection, work: Callable[[Transaction], T]) -> T:
        def once() -> T:
            connection.execute("BEGIN")
            try:
                return work(Transaction(connection.cursor(), self.now()))
            finally:
                connection.execute("ROLLBACK")

        return self._patiently(once)

    def _connect_writer(self, anchor: Anchor) -> sqlite3.Connection:
        connection = self._connect(anchor)
        try:
            if self.is_there:
                self._shortcut.open(self._connect)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, anchor: Anchor) -> sqlite3.Connection:
        """Also when the file was replaced, hence what was read from the other is forgotten. It
        may have been replaced by anything: then it is away until the store is in its place."""
        self._opening += 1
        if not self.is_there:
            anchor.lift()
            return self._patiently(lambda: connect(self.location))
        anchor.require_file()
        try:
            return self._connect_again(anchor)
        except StoreUnavailable:
            raise
        except StoreError as error:
            raise StoreUnavailable(f"this is not the store that was opened: {error}") from error

    def _connect_again(self, anchor: Anchor) -> sqlite3.Connection:
        connection = self._patiently(lambda: connect(self.location, create=False))
        try:
            self._take_hold(connection, anchor)
        except BaseException:
            connection.close()
            raise
        return connection

    def _take_hold(self, connection: sqlite3.Connection, anchor: Anchor) -> None:
        """Reading also makes the log, which the anchor remembers."""
        self._patiently(lambda: require_own(connection, self.location.shown))
        anchor.drop()

    def _patiently(self, work: Callable[[], T]) -> T:
        return patiently(
            work,
            self.location.patience,
            self.location.shown,
            closing=self._is_closing,
            waited=self._giving_way.waited,
        )

    def _is_closing(self) -> bool:
        return self._closing


class Verbs:
    """A part of the contract on this engine; `SqliteJobs` is the sum of several."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine


def connect(location: Location, *, create: bool = True) -> sqlite3.Connection:
    """One configured connection. Nothing is read or written yet."""
    mode = "rwc" if create else "rw"
    connection = sqlite3.connect(
        ":memory:" if location.path is None else f"{location.path.as_uri()}?mode={mode}",
        uri=location.path is not None,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        connection.create_function("casefold", 1, _casefold, deterministic=True)
        if location.path is not None:
            connection.execute(f"PRAGMA synchronous = {location.synchronous}")
    except BaseException:
        connection.close()
        raise
    return connection


def bump(tx: Transaction) -> dict[Key, Bump]:
    """Leave word for other processes, in the same transaction: a number grows by as many as
    there are jobs. Returns the new numbers, and by how much they grew."""
    sql = steps("parts/counter")["bump"]
    bumped = {}
    for (topic, name), jobs in tx.wakes.items():
        [(n,)] = tx.rows(sql, (topic.value, name, jobs))
        bumped[topic, name] = (n, jobs)
    return bumped


def _casefold(text: str | None) -> str | None:
    """SQLite's own lower() knows only ASCII."""
    return None if text is None else text.casefold()


def _require_recent_sqlite() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        raise StoreError(
            f"SQLite {'.'.join(map(str, OLDEST))} or later is needed, this Python carries "
            f"{sqlite3.sqlite_version}: use a newer Python or link it with a newer SQLite"
        )
