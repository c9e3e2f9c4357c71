"""Verbs on jobs in the caller's own transaction, on Postgres.

The verbs are those of the store, run over a `BorrowedConnections`: its every statement goes to the
one connection of the caller. On a connection whose driver needs no loop the verbs never wait, and
are run to their end without one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from holdfast.errors import KeyHeld, SchemaMissing
from holdfast.job.ids import JobId
from holdfast.job.loopless import run_without_loop
from holdfast.job.record import Inserted, NewJob
from holdfast.store import borrowing
from holdfast.store.borrowing import Borrowed, sqlstate_of
from holdfast.store.contract.joining import Work
from holdfast.store.postgres.connection import Connections, Session
from holdfast.store.postgres.finishing import PostgresFinishing
from holdfast.store.postgres.held_keys import keys_of, milliseconds, waited_in_vain
from holdfast.store.postgres.inserting import PostgresInserting, insert_on
from holdfast.store.postgres.job_verbs import JobVerbs
from holdfast.store.postgres.operating import PostgresOperating
from holdfast.store.postgres.pool import Connection, Record
from holdfast.store.postgres.reading import PostgresReading

T = TypeVar("T")

_MISSING = frozenset({"42P01", "3F000"})
"""No such table; no such schema."""


class PostgresJoining(JobVerbs):
    """See `holdfast.store.contract.joining.Joining` for what each verb promises."""

    async def within(self, connection: object, work: Work[T]) -> T:
        return await self._lent(borrowing.recognise(connection), work)

    def within_sync(self, connection: object, work: Work[T]) -> T:
        borrowed = borrowing.recognise_sync(connection)
        return run_without_loop(self._lent(borrowed, work))

    async def _lent(self, borrowed: Borrowed, work: Work[T]) -> T:
        return await work(PostgresJobsWithin(await lent(borrowed, self._connections)))


class PostgresJobsWithin(PostgresInserting, PostgresFinishing, PostgresOperating, PostgresReading):
    """See `holdfast.store.contract.joining.JobsWithin`."""

    _waits_for_locks = True  # as every other statement of the caller's transaction does

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """The caller's own bound on waiting for locks counts if there is one, and is afterwards
        what it was before."""
        if not jobs:
            return []
        return await self._connections.run(lambda session: self._insert_within(session, jobs))

    async def _insert_within(self, session: Session, jobs: Sequence[NewJob]) -> list[Inserted]:
        if all(job.unique is None for job in jobs):
            return await insert_on(session, self._connections, jobs)
        async with bounded(self._connections, keys_of(jobs)) as bound:
            return await insert_on(session, self._connections, jobs, bound)

    async def requeue(self, ids: Sequence[JobId], by: str | None = None) -> list[JobId]:
        found = await self._connections.fetch("keys/of_jobs", list(ids))
        if not found:
            return await self._requeue(ids, None, by)
        async with bounded(self._connections, sorted({row["key"] for row in found})) as bound:
            return await self._requeue(ids, bound, by)


class BorrowedConnections(Connections):
    """The one connection of a caller, in place of the store's own. Nothing is repeated here: what
    goes wrong in a transaction ends it, and only the caller can begin it again."""

    may_copy = False

    def __init__(self, borrowed: Borrowed, lender: Connections) -> None:
        self.options = lender.options
        self.clock = lender.clock
        self.role = lender.role
        self.scripts = lender.scripts
        # It has the one method of a connection that these verbs use.
        connection = cast("Connection", _Statements(borrowed, lender.options.where))
        self._session = Session(connection, self.scripts, self.clock)

    async def fetch(self, verb: str, *values: object, again: bool = True) -> list[Record]:
        return await self._session.fetch(verb, *values)

    async def run(
        self,
        steps: Callable[[Session], Awaitable[T]],
        *,
        transaction: bool = False,
        again: bool = True,
    ) -> T:
        return await steps(self._session)


class _Statements:
    def __init__(self, borrowed: Borrowed, where: str) -> None:
        self._borrowed = borrowed
        self._where = where

    async def fetch(self, script: str, *values: object) -> Sequence[Any]:
        """The driver's own error passes, because the caller knows what to do about a collision or
        a lost connection. But a missing schema is named: nobody asked for our tables."""
        try:
            return await self._borrowed.fetch(script, values)
        except Exception as error:
            if sqlstate_of(error) in _MISSING:
                whose = f"the database of this connection, which must be {self._where},"
                raise SchemaMissing(whose) from error
            raise


async def lent(borrowed: Borrowed, lender: Connections) -> BorrowedConnections:
    """The connection of a caller who has begun a transaction."""
    await borrowed.require_transaction()
    return BorrowedConnections(borrowed, lender)


@asynccontextmanager
async def bounded(connections: Connections, keys: Sequence[str]) -> AsyncIterator[str]:
    """How long to wait for each key. A wait in vain is raised as `KeyHeld`. The caller's
    transaction cannot go on after it, so the server cannot be asked any more which of several
    keys it was."""
    patience = connections.options.key_timeout
    [(own, _)] = await connections.fetch("keys/lock_timeout", None)
    try:
        yield milliseconds(patience) if own == "0" else own
    except Exception as error:
        if waited_in_vain(error):
            raise KeyHeld(keys, patience) from error
        raise
    await connections.fetch("keys/lock_timeout", own)
