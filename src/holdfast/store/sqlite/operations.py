"""Operations on SQLite."""

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
from holdfast.store.sqlite.rows import SECOND, to_datetime, to_json
from holdfast.store.sqlite.scripts import script, steps
from holdfast.store.sqlite.transaction import Row, Transaction
from holdfast.store.sqlite.writer import Verbs


class SqliteOperations(Verbs):
    """See `holdfast.store.contract.operations.Operations` for what each verb promises."""

    async def begin(self, operation_id: OperationId, request: OperationRequest) -> None:
        values = {
            "id": operation_id,
            "request": encode(request),
            "progress": encode(OperationProgress()),
        }
        await self._writer.write(
            lambda tx: tx.run(script("operations/begin"), values | {"now": tx.now})
        )

    async def advance(self, operation_id: OperationId, revision: int, move: Advance) -> bool:
        return await self._writer.write(lambda tx: _advance(tx, operation_id, revision, move))

    async def stop(self, ids: Sequence[OperationId]) -> list[OperationId]:
        return await self._change("operations/stop", ids)

    async def go_on(self, ids: Sequence[OperationId]) -> list[OperationId]:
        return await self._change("operations/go_on", ids)

    async def _change(self, verb: str, ids: Sequence[OperationId]) -> list[OperationId]:
        def work(tx: Transaction) -> list[OperationId]:
            rows = tx.rows(script(verb), {"ids": to_json(ids), "now": tx.now})
            return sorted(OperationId(one) for (one,) in rows)

        return await self._writer.write(work) if ids else []

    async def find(
        self,
        ids: Collection[OperationId] = (),
        states: Collection[OperationState] = (),
        limit: int = 50,
        before: OperationId | None = None,
    ) -> list[Operation]:
        wanted = {
            "ids": to_json(ids) if ids else None,
            "states": to_json(states) if states else None,
            "limit": limit,
            "before": before,
        }
        return await self._writer.read(
            lambda tx: [_operation(row) for row in tx.rows(script("operations/find"), wanted)]
        )

    async def kept(
        self, operation_id: OperationId, after: int, limit: int
    ) -> list[tuple[int, str]]:
        wanted = (operation_id, after, limit)
        return await self._writer.read(
            lambda tx: [
                (number, jobs) for number, jobs in tx.rows(script("operations/kept"), wanted)
            ]
        )

    async def prune(self, limit: int, kept_for: float) -> int:
        def work(tx: Transaction) -> int:
            sql = steps("operations/prune")
            over = tx.rows(sql["over"], (tx.now - round(kept_for * SECOND), limit))
            tx.each(sql["kept"], over)
            tx.each(sql["operation"], over)
            return len(over)

        return await self._writer.write(work)


def _advance(tx: Transaction, operation_id: OperationId, revision: int, move: Advance) -> bool:
    sql = steps("operations/advance")
    values = {
        "id": operation_id,
        "revision": revision,
        "state": move.state.value,
        "progress": encode(move.progress),
        "hand": move.hand,
        "now": tx.now,
    }
    if not tx.rows(sql["advance"], values):
        return False
    if move.kept is not None:
        tx.run(sql["keep"], {"id": operation_id, "kept": move.kept})
    return True


def _operation(row: Row) -> Operation:
    operation_id, request, state, revision, progress, hand, begun_at, advanced_at = row
    known, so_far = read_parts(request, progress)
    return Operation(
        id=OperationId(operation_id),
        request=known,
        state=OperationState(state),
        revision=revision,
        progress=so_far,
        hand=hand,
        begun_at=to_datetime(begun_at),
        advanced_at=to_datetime(advanced_at),
    )
