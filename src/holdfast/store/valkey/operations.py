"""Operations on Valkey. They lie in the first partition: there are never many."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.store.contract.operations import (
    Advance,
    Operation,
    OperationId,
    OperationProgress,
    OperationRequest,
    OperationState,
    encode,
    read_parts,
)
from holdfast.store.valkey.connection import ValkeyVerbs
from holdfast.store.valkey.layout import OperationRow
from holdfast.store.valkey.moments import to_datetime
from holdfast.store.valkey.replies import paired
from holdfast.store.valkey.rows import known, to_operation_row

HOME = 0


class ValkeyOperations(ValkeyVerbs):
    """See `holdfast.store.contract.operations.Operations`."""

    async def begin(self, operation_id: OperationId, request: OperationRequest) -> None:
        given = {
            "id": operation_id,
            "request": encode(request),
            "progress": encode(OperationProgress()),
        }
        await self._connections.call("operations/begin", HOME, given)

    async def advance(self, operation_id: OperationId, revision: int, move: Advance) -> bool:
        """Not repeated when the connection is lost: the first try may have raised the revision."""
        given = {
            "id": operation_id,
            "revision": revision,
            "state": move.state.value,
            "progress": encode(move.progress),
            "hand": [] if move.hand is None else [move.hand],
            "kept": [] if move.kept is None else [move.kept],
        }
        return bool(await self._connections.call("operations/advance", HOME, given, again=False))

    async def stop(self, ids: Sequence[OperationId]) -> list[OperationId]:
        return await self._change("operations/stop", ids)

    async def go_on(self, ids: Sequence[OperationId]) -> list[OperationId]:
        return await self._change("operations/go_on", ids)

    async def _change(self, verb: str, ids: Sequence[OperationId]) -> list[OperationId]:
        if not ids:
            return []
        answer = await self._connections.call(verb, HOME, {"chosen": [*ids]})
        return sorted(OperationId(one.decode()) for one in answer)

    async def find(
        self,
        ids: Collection[OperationId] = (),
        states: Collection[OperationState] = (),
        limit: int = 50,
        before: OperationId | None = None,
    ) -> list[Operation]:
        given = {
            "chosen": [*ids],
            "states": [state.value for state in states],
            "limit": limit,
            "before": before or "",
        }
        answer = await self._connections.call("operations/find", HOME, given)
        return [_operation(one, to_operation_row(row)) for one, row in paired(answer)]

    async def kept(
        self, operation_id: OperationId, after: int, limit: int
    ) -> list[tuple[int, str]]:
        key = self._connections.key(HOME, f"operation-kept:{operation_id}")
        pages = await self._connections.command("LRANGE", key, after, after + limit - 1)
        return [(after + n, page.decode()) for n, page in enumerate(pages, 1)]

    async def prune(self, limit: int, kept_for: float) -> int:
        given = {"limit": limit, "kept_for": kept_for}
        return int(await self._connections.call("operations/prune", HOME, given))


def _operation(operation_id: str, row: OperationRow) -> Operation:
    request, progress = read_parts(row.request, row.progress)
    return Operation(
        id=OperationId(operation_id),
        request=request,
        state=OperationState(row.state),
        revision=row.revision,
        progress=progress,
        hand=known(row.hand),
        begun_at=to_datetime(row.begun_at),
        advanced_at=to_datetime(row.advanced_at),
    )
