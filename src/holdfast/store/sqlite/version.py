"""Answers that hold as long as nobody commits.

An idle worker asks the same questions all day. A version of the database costs a look and no
transaction, so an answer is remembered with the version in which it was found.
"""

from __future__ import annotations

import sqlite3
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Version(NamedTuple):
    """What a connection sees. Two versions are equal only if nobody has committed between them:
    the commits of other connections change `data_version`, its own change `total_changes`."""

    opening: int
    connection: int
    data_version: int
    total_changes: int


def version_of(connection: sqlite3.Connection, opening: int) -> Version:
    """`opening` counts the connects: another opening may find another database."""
    [data_version] = connection.execute("PRAGMA data_version").fetchone()
    return Version(opening, id(connection), data_version, connection.total_changes)


class Remembered(Generic[T]):
    """The last answer to a question, for as long as it holds. Not for several threads at once."""

    def __init__(self) -> None:
        self.asked_at: Version | None = None
        self._found_at: Version | None = None
        self._question: object = None
        self._answer: T | None = None

    def recall(self, version: Version, question: object = None) -> T | None:
        """The answer, if the question is the same and nobody has committed since."""
        self.asked_at = version
        same = self._found_at == version and self._question == question
        return self._answer if same else None

    def keep(self, answer: T, question: object = None) -> None:
        """The version was read before the transaction began, so it can only be older than the
        data: at worst a query is repeated, and no change is missed."""
        self._found_at, self._question, self._answer = self.asked_at, question, answer
