"""The act behind an operation: begun before its first page, closed by whoever ends it."""

from __future__ import annotations

import time

import msgspec

from holdfast.job.redaction import redact_value
from holdfast.operations.pages import row_of, words_of
from holdfast.store.contract.audit import INTERRUPTED_AFTER_SECONDS, Act, ActId, ActOutcome
from holdfast.store.contract.operations import (
    Operation,
    OperationId,
    OperationRequest,
    OperationState,
)
from holdfast.store.contract.store import Store

ENDS = {
    OperationState.DONE: (ActOutcome.DONE, None),
    OperationState.WAITING: (ActOutcome.INTERRUPTED, "its canary is done: it waits for go-on"),
    OperationState.STOPPED: (ActOutcome.INTERRUPTED, "stopped"),
}


class OperationAudit:
    """Says that the operation goes on, and how it ended. An operation that a program began for
    itself is no act."""

    def __init__(self, store: Store, operation: Operation) -> None:
        self._audit = store.audit
        self._act = act_of(operation.id, operation.request)
        self._said_at: float | None = None

    async def goes_on(self) -> None:
        now, silence = time.monotonic(), INTERRUPTED_AFTER_SECONDS / 3
        if self._act is None or (self._said_at is not None and now - self._said_at < silence):
            return
        await self._audit.begin(self._act)
        self._said_at = now

    async def close(self, operation: Operation) -> None:
        if self._act is not None and operation.state in ENDS:
            outcome, why = ENDS[operation.state]
            await self._audit.close(self._act.id, outcome, operation.progress.changed, why)


def act_of(operation_id: OperationId, request: OperationRequest) -> Act | None:
    """The act of an operation has the operation's id, and the operation as its target."""
    if request.by is None:
        return None
    row = row_of(request)
    facts = {"reason": request.reason, "canary": request.canary, "pace": request.pace}
    facts["undoes"] = request.undoes
    if row.parameter is not None and request.value is not None and request.undoes is None:
        facts[row.parameter.name] = msgspec.json.decode(request.value)
    given = {name: value for name, value in facts.items() if value is not None}
    words = None if request.undoes else words_of(request)
    return Act(
        id=ActId(operation_id),
        by=request.by,
        verb=row.word,
        target=operation_id,
        which=None if words is None else _json(words),
        arguments=_json(given) if given else None,
    )


def _json(value: object) -> str:
    return msgspec.json.encode(redact_value(value)).decode()
