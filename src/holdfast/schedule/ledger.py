"""Writes decided plans into the ledger; one that cannot be written does not hold up the others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import StoreRefuses, StoreUnavailable
from holdfast.schedule.model import OPEN, Decision, Plan
from holdfast.store.contract.store import Store

CHUNK = 1_000


class LedgerWriter:
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

    async def write(self, plans: Sequence[Plan]) -> list[Plan]:
        """Answers the plans that rest on unfinished jobs and were not written: the jobs are
        others by now, or somebody else has written the plan."""
        refused: list[Plan] = []
        for first in range(0, len(plans), CHUNK):
            refused += await self._write(plans[first : first + CHUNK])
        return refused

    async def _write(self, plans: Sequence[Plan]) -> list[Plan]:
        """A batch that the store cannot write is halved until the plan that spoils it is alone."""
        try:
            answers = await self._store.schedules.record(plans)
        except (StoreUnavailable, StoreRefuses):
            raise
        except Exception as error:  # noqa: BLE001 - the plan that caused it is found and told of
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
