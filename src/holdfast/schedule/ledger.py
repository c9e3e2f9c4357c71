"""Writes decided plans into the ledger. A plan that cannot be written does not stop the others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import StoreRefuses, StoreUnavailable
from holdfast.schedule.model import OPEN, Decision, Plan
from holdfast.store.contract.store import Store

LEDGER_BATCH = 1_000


class LedgerWriter:
    """Writes the rows of one evaluation and remembers how that went.

    `written` counts rows. `failed`: some plan could not be started and its row says so. `waiting`:
    some plan waits for its predecessor. `error` is the first error after which a due plan has no
    row: then no scope may count as evaluated.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.written = 0
        self.failed = False
        self.waiting = False
        self.error: Exception | None = None

    def blame(self, error: Exception) -> None:
        """Keep the first error. The evaluation ends with it once all other plans are written."""
        self.error = self.error or error

    async def write(self, plans: Sequence[Plan]) -> list[Plan]:
        """Write the rows; returns those refused although they name unfinished jobs (`beside`).
        Either other jobs of the scope are unfinished by now, or another replica wrote the plan."""
        refused: list[Plan] = []
        for first in range(0, len(plans), LEDGER_BATCH):
            refused += await self._write(plans[first : first + LEDGER_BATCH])
        return refused

    async def _write(self, plans: Sequence[Plan]) -> list[Plan]:
        """A batch that the store cannot write is halved until the plan that causes the error is
        alone."""
        try:
            answers = await self._store.schedules.record(plans)
        except (StoreUnavailable, StoreRefuses):
            raise
        except Exception as error:  # noqa: BLE001 - recorded with the plan that caused it
            if len(plans) == 1:
                await self._give_up(plans[0], error)
                return []
            middle = len(plans) // 2
            return [*await self._write(plans[:middle]), *await self._write(plans[middle:])]
        self.written += sum(answers)
        self.waiting = self.waiting or any(p.decision is Decision.WAITING for p in plans)
        answered = zip(plans, answers, strict=True)
        return [plan for plan, wrote in answered if not wrote and plan.beside is not None]

    async def _give_up(self, plan: Plan, error: Exception) -> None:
        """Record why the plan did not start. Later evaluations try it again."""
        if plan.decision in OPEN:
            self.blame(error)
            return
        reason = f"{type(error).__name__}: {error}"
        failed = msgspec.structs.replace(
            plan, decision=Decision.FAILED, reason=reason, job=None, cancel=()
        )
        try:
            await self._store.schedules.record([failed])
        except (StoreUnavailable, StoreRefuses):
            raise
        except Exception:  # noqa: BLE001 - the first error says more
            self.blame(error)
            return
        self.failed = True
