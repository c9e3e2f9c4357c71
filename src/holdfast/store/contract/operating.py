"""What operators do to jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from holdfast.job.ids import JobId
from holdfast.store.contract.audit import Audit


class Operating(Protocol):
    """Every change but a removal leaves a happening, in the same step. `by` names the operator
    there; None is a program that acts for itself. A verb that finds a job as it would make it
    leaves none, though it answers the job."""

    @property
    def audit(self) -> Audit:
        """The audit, on the same connection as these verbs: an act inside the caller's transaction
        is written by it, and is gone with it."""
        ...

    async def resume(self, ids: Sequence[JobId], by: str | None = None) -> list[JobId]:
        """Make suspended jobs ready now; returns those that were suspended. Whatever they slept
        for is over: the waits among their steps end now."""
        ...

    async def request_cancel(
        self, ids: Sequence[JobId], by: str | None = None, why: str | None = None
    ) -> list[JobId]:
        """Mark running jobs as to be cancelled and wake their workers; returns those
        that are running. The mark outlives the worker. `why` is told in the life of the jobs."""
        ...

    async def requeue(self, ids: Sequence[JobId], by: str | None = None) -> list[JobId]:
        """Make ended jobs ready again: attempts and crashes back to none, error history
        and fence kept, deadline dropped, outcome and steps removed. A job whose unique key another
        holder has by now stays as it is, and so does a job whose key is in doubt because an open
        transaction has taken it; within such a transaction `KeyHeld` is raised. Of several ended
        jobs with one key the first that is named gets it. Returns those requeued."""
        ...

    async def reschedule(
        self, ids: Sequence[JobId], due: float | datetime, by: str | None = None
    ) -> list[JobId]:
        """Make scheduled or ready jobs due after so many seconds, or at that moment. 0 means ready
        now, and so does a moment that has come."""
        ...

    async def edit(
        self,
        ids: Sequence[JobId],
        args: str | None = None,
        tags: Sequence[str] | None = None,
        by: str | None = None,
    ) -> list[JobId]:
        """Replace the arguments (JSON), the tags, or both of waiting jobs; None leaves them as
        they are. Returns those changed: a claim that comes later gives the new ones. With new
        arguments a job that has begun (`Tie.BEGUN`) stays as it is: its steps, its calls and all
        that its handler did belong to the arguments that it has. A unique key
        stays as it is, also one that was made of arguments; an insert that is repeated with the
        former arguments is answered `taken`."""
        ...

    async def reprioritise(
        self, ids: Sequence[JobId], priority: int, by: str | None = None
    ) -> list[JobId]:
        """Give waiting jobs another priority; returns those changed."""
        ...

    async def move(self, ids: Sequence[JobId], queue: str, by: str | None = None) -> list[JobId]:
        """Put waiting jobs in another queue; returns those moved."""
        ...

    async def delete(self, ids: Sequence[JobId]) -> list[JobId]:
        """Remove ended jobs with all that belongs to them; returns those removed."""
        ...
