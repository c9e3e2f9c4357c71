"""Taking an operation back: the jobs that it changed get what they had before.

A job is left as it is where the undo would do more harm than good: it has moved on since, or what
it had cannot be given back.
"""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from holdfast.errors import Refused
from holdfast.insights.actions import Verb
from holdfast.job.ids import JobId
from holdfast.job.record import Job
from holdfast.job.state import JobState
from holdfast.operations.job_verbs import JOB_VERBS
from holdfast.operations.pages import Item, JobPage, from_plain, plain, row_of, value_of
from holdfast.store.contract.operations import (
    Operation,
    OperationId,
    OperationRequest,
    OperationState,
)
from holdfast.store.contract.store import Store

MOST_UNDOABLE = 500_000
"""An operation on more jobs keeps nothing for an undo: that would take some 25 MB in the store."""

_UNDO_IDS = uuid.UUID("0d6f4b5e-6f0b-4c0e-9a51-6d4f6f8f2b11")
RAN_AT_ONCE = frozenset({JobState.READY, JobState.RUNNING})


def undo_id(operation_id: OperationId) -> OperationId:
    """An operation has one undo: its id follows from the operation's."""
    return OperationId(str(uuid.uuid5(_UNDO_IDS, operation_id)))


def undo_request(operation: Operation, by: str | None, reason: str | None) -> OperationRequest:
    """What takes the operation back; raises `Refused` if nothing does."""
    row, request = row_of(operation.request), operation.request
    if operation.state is OperationState.RUNNING:
        raise Refused(f"operation {operation.id} is running: stop it first")
    if request.undoes is not None:
        raise Refused(f"operation {operation.id} is an undo itself: begin its verb anew instead")
    if row.undo is None:
        raise Refused(f"operation {operation.id}: {row.verb} has no undo")
    if not request.keeps:
        raise Refused(
            f"operation {operation.id} matched {request.matched:,} jobs, more than "
            f"{MOST_UNDOABLE:,}: it did not keep what an undo needs"
        )
    return OperationRequest(
        verb=row.undo.value,
        value=request.value,
        by=by,
        reason=reason,
        matched=operation.progress.changed,
        undoes=operation.id,
        pace=request.pace,
        keeps=False,
    )


class UndonePages:
    """The jobs that an operation changed, in the order in which it did."""

    def __init__(self, store: Store, undone: Operation) -> None:
        self._store = store
        self._undone = undone
        self._row = JOB_VERBS[Verb(undone.request.verb)]
        self._value = value_of(undone.request)

    async def page(self, cursor: str | None, limit: int) -> JobPage:
        number, _, skipped = (cursor or "0:0").partition(":")
        kept = await self._store.operations.kept(self._undone.id, int(number), 1)
        if not kept:
            return JobPage((), (), None)
        _, text = kept[0]
        jobs: list[tuple[JobId, Any]] = msgspec.json.decode(text, type=list[tuple[JobId, Any]])
        end = int(skipped) + limit
        behind = f"{int(number) + 1}:0" if end >= len(jobs) else f"{number}:{end}"
        return await self._page(jobs[int(skipped) : end], behind)

    async def _page(self, jobs: list[tuple[JobId, Any]], behind: str) -> JobPage:
        found = {job.id: job for job in await self._store.jobs.get([one for one, _ in jobs])}
        items: list[Item] = []
        left: list[str] = []
        for job_id, was in jobs:
            job = found.get(job_id)
            why = self._harm(job_id, job, was)
            if job is None or why is not None:
                left.append(why or "")
            else:
                items.append(Item(job, self._former(was), None))
        return JobPage(tuple(items), tuple(left), behind)

    def _former(self, was: Any) -> Any:
        """The value that gives a job back what it had. A job that was ready had no due time."""
        if self._row.verb in (Verb.CANCEL, Verb.REQUEUE):
            return None
        return 0.0 if was is None else from_plain(self._row, was)

    def _harm(self, job_id: JobId, job: Job | None, was: Any) -> str | None:
        """Why a job is left as it is; None if the undo may change it."""
        if job is None:
            return f"job {job_id} is no longer there"
        if self._row.verb is Verb.CANCEL:
            return _harm_of_requeue(job, was)
        if self._row.verb in (Verb.MOVE, Verb.REPRIORITISE) and not self._row.applied(
            job, self._value
        ):
            return f"job {job.id} was changed again since: it is no longer at {plain(self._value)}"
        return None


def _harm_of_requeue(job: Job, was: Any) -> str | None:
    if job.state is not JobState.CANCELLED:
        return f"job {job.id} is {job.state}, not cancelled"
    if JobState(was) not in RAN_AT_ONCE:
        return f"job {job.id} was {was}: a requeue would run it now"
    return None
