"""Operations on Postgres."""

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
from holdfast.store.postgres.connection import Connections
from holdfast.store.postgres.pool import Record


class PostgresOperations:
    """See `holdfast.store.contract.operations.Operations` for what each verb promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def begin(self, operation_id: OperationId, request: OperationRequest) -> None:
        values = (operation_id, encode(request), encode(OperationProgress()))
        await self._connections.timed("operations/begin", *values)

    async def advance(self, operation_id: OperationId, revision: int, move: Advance) -> bool:
        """Not repeated when the connection is lost: the first try may have raised the revision."""
        progress = encode(move.progress)
        values = (operation_id, revision, move.state.value, progress, move.hand, move.kept)
        return bool(await self._connections.timed("operations/advance", *values, again=False))

    async def stop(self, ids: Sequence[OperationId]) -> list[OperationId]:
        return await self._change("operations/stop", ids)

    async def go_on(self, ids: Sequence[OperationId]) -> list[OperationId]:
        return await self._change("operations/go_on", ids)

    async def _change(self, verb: str, ids: Sequence[OperationId]) -> list[OperationId]:
        found = await self._connections.timed(verb, [*ids]) if ids else []
        return sorted(OperationId(str(row["id"])) for row in found)

    async def find(
        self,
        ids: Collection[OperationId] = (),
        states: Collection[OperationState] = (),
        limit: int = 50,
        before: OperationId | None = None,
    ) -> list[Operation]:
        named = [state.value for state in states]
        found = await self._connections.fetch(
            "operations/find", [*ids] or None, named or None, limit, before
        )
        return [_operation(row) for row in found]

    async def kept(
        self, operation_id: OperationId, after: int, limit: int
    ) -> list[tuple[int, str]]:
        found = await self._connections.fetch("operations/kept", operation_id, after, limit)
        return [(row["number"], row["jobs"]) for row in found]

    async def prune(self, limit: int, kept_for: float) -> int:
        return int((await self._connections.timed("operations/prune", limit, kept_for))[0][0])


def _operation(row: Record) -> Operation:
    request, progress = read_parts(row["request"], row["progress"])
    return Operation(
        id=OperationId(str(row["id"])),
        request=request,
        state=OperationState(row["state"]),
        revision=row["revision"],
        progress=progress,
        hand=row["hand"],
        begun_at=row["begun_at"],
        advanced_at=row["advanced_at"],
    )
