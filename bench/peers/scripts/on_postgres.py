"""A peer on Postgres: statistics before the drain, and one connection that watches its end."""

from __future__ import annotations

from typing import Any

import psycopg

from bench.peers.scripts.peer import URL, Peer


class OnPostgres(Peer):
    _watching: psycopg.Connection[Any] | None = None

    async def settle(self) -> None:
        """As autovacuum would have made them, and no checkpoint of the filling left."""
        with psycopg.connect(URL, autocommit=True) as connection:
            connection.execute("analyze")
            connection.execute("checkpoint")

    def value(self, query: str) -> int:
        """The number that a query answers."""
        if self._watching is None:
            self._watching = psycopg.connect(URL, autocommit=True)
        row = self._watching.execute(query).fetchone()
        return int(row[0]) if row else 0
