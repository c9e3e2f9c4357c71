"""Writes decided plans into the ledger; one that cannot be written does not hold up the others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import StoreRefuses, StoreUnavailable
from holdfast.plan import OPEN, Decision, Plan
from holdfast.store.contract import Store

CHUNK = 1_000


class Book:
    """One look's writing, and what it learnt on the way."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.written = 0
        self.failed = False
        self.waiting = False
        self.error: Exception | None = None

    @property
    def unwritten(self) -> bool:
        """Whether something due has no row: nothing may count as gone through."""
        return self.error is not None

    def blame(self, error: Exception) -> None:
        """Keep the first error for the end of the look."""
        self.error = self.error or error

    async def write(self, plans: Sequence[Plan]) -> None:
        for first in range(0, len(plans), CHUNK):
            await self._write(plans[first : first + CHUNK])

    async def _write(self, plans: Sequence[Plan]) -> None:
        """A batch that the store refuses is halved until the plan that spoils it is alone."""
        try:
            answers = await self._store.schedules.record(plans)
        except (StoreUnavailable, StoreRefuses):
            raise
        except Exception as error:  # noqa: BLE001 - the plan that caused it is found and told of
            if len(plans) == 1:
                await self._give_up(plans[0], error)
            else:
                middle = len(plans) // 2
                await self._write(plans[:middle])
                await self._write(plans[middle:])
            return
        ours = [plan for plan, wrote in zip(plans, answers, strict=True) if wrote]
        self.written += len(ours)
        self.waiting = self.waiting or any(p.decision is Decision.WAITING for p in plans)

    async def _give_up(self, plan: Plan, error: Exception) -> None:
        """Its row says why it did not start; it is tried again at later looks."""
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
