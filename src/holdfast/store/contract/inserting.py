"""How jobs come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.job.record import Inserted, NewJob


class Inserting(Protocol):
    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Add jobs. An id that is already there changes nothing: with the same task and
        arguments it answers `created`, with others `taken`; the rest of the batch is added.
        Of two jobs with one unique key `Unique` says what becomes of the second. A holder that has
        begun (`Tie.BEGUN`) is not debounced: it keeps its arguments and its time, and is answered
        as `existing`.
        A `blocked` job is put aside until a move takes it to ready, scheduled or an end.

        All of them are added or none, but by a store that writes a call in several steps: where
        it is refused between them it raises `PartlyInserted`. Raises `KeyHeld`, and adds none, if
        a unique key is in doubt because a transaction that is still open has taken it: a store
        waits a bounded time for it, and keeps no other insert waiting meanwhile.
        """
        ...
