"""The doctor's checks of operations: acts on many jobs that have come to a halt."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from holdfast.insights.actions import START_WORKER, Action, Noun, Verb
from holdfast.insights.diagnosis import OK, WARNING, Diagnosis
from holdfast.store.contract.operations import Operation, OperationState
from holdfast.store.contract.store import Store

UNATTENDED = timedelta(seconds=60)
"""Since so long an operation that is to run has not moved: nobody works on it."""
FORGOTTEN = timedelta(hours=1)
"""Since so long an operation has waited for somebody to look at its canary."""
CHECKED_OPERATIONS = 50


async def check_operations(store: Store, now: datetime) -> list[Diagnosis]:
    states = [OperationState.RUNNING, OperationState.WAITING]
    found = await store.operations.find(states=states, limit=CHECKED_OPERATIONS)
    ill = [diagnosis for operation in found for diagnosis in _ills(operation, now)]
    if ill or not found:
        return ill
    return [Diagnosis("operations", OK, f"{len(found)} under way")]


def _ills(operation: Operation, now: datetime) -> Iterator[Diagnosis]:
    still, name = now - operation.advanced_at, f"operation {operation.id}"
    seconds = still.total_seconds()
    verb, done = operation.request.verb, operation.progress.changed
    so_far = f"({verb}, {done:,} of {operation.request.matched:,} jobs)"
    pace = timedelta(seconds=1 / (operation.request.pace or 1_000))
    if verb not in set(Verb):
        yield Diagnosis(
            "operations",
            WARNING,
            f"{name} ({verb}) cannot be read by this release",
            "start a worker of the release that began it, or stop it",
            (START_WORKER, Action(Noun.OPERATIONS, Verb.STOP, operation.id)),
        )
    elif operation.state is OperationState.RUNNING and still > UNATTENDED + pace:
        yield Diagnosis(
            "operations",
            WARNING,
            f"{name} {so_far} is to run, and nobody has worked on it for {seconds:,.0f} s",
            "start any worker of this store",
            (START_WORKER,),
        )
    if operation.state is OperationState.WAITING and still > FORGOTTEN:
        yield Diagnosis(
            "operations",
            WARNING,
            f"{name} {so_far} waits since its canary is done",
            "look how it ended, then let it go on or stop it",
            (
                Action(Noun.OPERATIONS, Verb.GO_ON, operation.id),
                Action(Noun.OPERATIONS, Verb.STOP, operation.id),
            ),
        )
