"""How verbs on jobs run in the caller's own transaction."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from holdfast.store.contract.finishing import Finishing
from holdfast.store.contract.inserting import Inserting
from holdfast.store.contract.operating import Operating
from holdfast.store.contract.reading import ReadingById

T = TypeVar("T")


class JobsWithin(Inserting, Finishing, Operating, ReadingById, Protocol):
    """The verbs on jobs by their ids, as they run on a connection of the caller."""


Work = Callable[[JobsWithin], Coroutine[Any, Any, T]]


class Joining(Protocol):
    async def within(self, connection: object, work: Work[T]) -> T:
        """Run verbs on jobs in the caller's open transaction: what they change is the caller's to
        commit or to roll back, and what they read includes the caller's own changes. Workers are
        woken by the commit. Delays and deadlines count from the call, not from the
        transaction's beginning.

        `work` may await nothing but the verbs that it is given. `connection` is any that the
        backend knows; an unknown one is a `BadOption`. A driver that begins a transaction with
        the first statement begins one here. If the driver would commit every statement by
        itself, `NoTransaction` is raised and nothing is done.
        """
        ...

    def within_sync(self, connection: object, work: Work[T]) -> T:
        """The same for connections whose driver does not use a loop."""
        ...
