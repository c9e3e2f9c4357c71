"""Connections to the store's file, and whether it is still the file that was opened."""

from __future__ import annotations

import sqlite3
from functools import lru_cache

import msgspec

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.store.contract.matching import BodyTest
from holdfast.store.sqlite.anchor import Anchor
from holdfast.store.sqlite.busy import BusyRetry
from holdfast.store.sqlite.options import Location
from holdfast.store.sqlite.rows import to_texts
from holdfast.store.sqlite.schema import require_own

CACHED_STATEMENTS = 256


class Connector:
    """Opens connections to one database, again if its file was replaced.

    The file may be created and migrated by the first opening. From then on (`is_there`), and for
    a sibling from the beginning, it has to be there: a new file in its place would look like a
    store without jobs.
    """

    def __init__(self, location: Location, retry: BusyRetry, *, is_there: bool) -> None:
        self._location = location
        self._retry = retry
        self.is_there = is_there
        self.opening = 0
        """Grows with every connect: what was read before may come from another file."""

    def connect(self, anchor: Anchor) -> sqlite3.Connection:
        """A file in the store's place may be anything: then the store is out of reach until its
        own file is back."""
        self.opening += 1
        if not self.is_there:
            anchor.lift()
            return self._retry.run(connect, self._location)
        anchor.require_file()
        try:
            return self._connect_again(anchor)
        except StoreUnavailable:
            raise
        except StoreError as error:
            raise StoreUnavailable(f"this is not the store that was opened: {error}") from error

    def settle(self, connection: sqlite3.Connection, anchor: Anchor) -> None:
        """After the first migration. Until it is migrated a file may be another program's: only
        then it is switched to WAL. The switch stays in the file, and can find the file busy."""
        self._retry.run(connection.execute, "PRAGMA journal_mode = WAL")
        self.is_there = True
        self._take_hold(connection, anchor)

    def _connect_again(self, anchor: Anchor) -> sqlite3.Connection:
        connection = self._retry.run(connect, self._location, create=False)
        try:
            self._take_hold(connection, anchor)
        except BaseException:
            connection.close()
            raise
        return connection

    def _take_hold(self, connection: sqlite3.Connection, anchor: Anchor) -> None:
        """Reading also makes the log, which the anchor remembers."""
        self._retry.run(require_own, connection, self._location.shown)
        anchor.drop()


def connect(location: Location, *, create: bool = True) -> sqlite3.Connection:
    """One configured connection. Nothing is read or written yet."""
    mode = "rwc" if create else "rw"
    connection = sqlite3.connect(
        ":memory:" if location.path is None else f"{location.path.as_uri()}?mode={mode}",
        uri=location.path is not None,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )
    try:
        connection.create_function("casefold", 1, _casefold, deterministic=True)
        connection.create_function("body_fits", 4, _body_fits, deterministic=True)
        if location.path is not None:
            connection.execute(f"PRAGMA synchronous = {location.synchronous}")
    except BaseException:
        connection.close()
        raise
    return connection


def _casefold(text: str | None) -> str | None:
    """SQLite's own lower() knows only ASCII."""
    return None if text is None else text.casefold()


_to_body_test = lru_cache(maxsize=8)(msgspec.json.Decoder(BodyTest).decode)


def _body_fits(test: str, tags: str | None, args: str, headers: str | None) -> bool:
    """Raises no error, whatever the row holds: SQLite would end the whole statement."""
    return _to_body_test(test).fits(() if tags is None else to_texts(tags), args, headers)
