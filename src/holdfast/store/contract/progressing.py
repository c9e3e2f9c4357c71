"""What a running attempt says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.store.contract.records import ProgressReport, SpendReport


class Progressing(Protocol):
    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        """Keep the progress of running attempts; False where the fence is old."""
        ...

    async def report_spend(self, reports: Sequence[SpendReport]) -> list[bool]:
        """Keep what running attempts have spent of budgets; False where the fence is old. The end
        of the attempt settles it, however it comes: a report outlives its worker."""
        ...
