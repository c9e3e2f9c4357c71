"""DBOS: each job is a durable workflow whose steps are recorded."""

from __future__ import annotations

from collections.abc import Sequence

from dbos import DBOS, EnqueueOptions

from bench.peers.scripts.dbos import DbosPeer
from bench.peers.scripts.marks import mark
from bench.peers.scripts.step_peer import StepPeer

STEPS: EnqueueOptions = {"queue_name": "q", "workflow_name": "steps", "app_version": "1"}


@DBOS.step()
async def charge() -> dict[str, str | int]:
    return {"id": "ch_1234567890", "amount": 4200, "currency": "EUR"}


@DBOS.workflow(name="steps")
async def steps(number: int, count: int) -> None:
    mark(number)
    for _ in range(count):
        await charge()


class DbosStepsPeer(DbosPeer, StepPeer):
    async def enqueue_steps(self, numbers: Sequence[int], steps: int) -> None:
        with self._client._sys_db.engine.begin() as connection:
            for number in numbers:
                self._client.enqueue_in_transaction(connection, STEPS, number, steps)
