"""Operations, whose filters and errors are encrypted: they may name values of arguments."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from holdfast.encryption.sealing import Sealing
from holdfast.store.contract.operations import (
    Advance,
    Operation,
    OperationId,
    OperationRequest,
    Operations,
    OperationState,
)
from holdfast.store.sealed.records import opened, shown_or_opened

_replace = msgspec.structs.replace


class SealedOperations:
    def __init__(self, operations: Operations, sealing: Sealing) -> None:
        self._operations = operations
        self._sealing = sealing
        self.stop = operations.stop
        self.go_on = operations.go_on
        self.kept = operations.kept
        self.prune = operations.prune

    async def begin(self, operation_id: OperationId, request: OperationRequest) -> None:
        if request.which is not None:
            hidden = self._sealing.of(f"operation {operation_id}").seal("which", request.which)
            request = _replace(request, which=hidden)
        await self._operations.begin(operation_id, request)

    async def advance(self, operation_id: OperationId, revision: int, move: Advance) -> bool:
        owner, errors = self._sealing.of(f"operation {operation_id}"), move.progress.errors
        if errors:
            hidden = tuple(owner.seal("error", error) for error in errors)
            move = _replace(move, progress=_replace(move.progress, errors=hidden))
        return await self._operations.advance(operation_id, revision, move)

    async def find(
        self,
        ids: Collection[OperationId] = (),
        states: Collection[OperationState] = (),
        limit: int = 50,
        before: OperationId | None = None,
    ) -> list[Operation]:
        return [
            self._opened(one) for one in await self._operations.find(ids, states, limit, before)
        ]

    def _opened(self, found: Operation) -> Operation:
        owner = self._sealing.of(f"operation {found.id}")
        request, progress = found.request, found.progress
        if request.which is not None:
            request = _replace(request, which=opened(owner, "which", request.which))
        errors = tuple(shown_or_opened(owner, "error", error) or "" for error in progress.errors)
        return _replace(found, request=request, progress=_replace(progress, errors=errors))
