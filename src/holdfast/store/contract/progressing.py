"""What a running attempt says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.store.contract.records import ProgressReport


class Progressing(Protocol):
    async def report_progress(self, reports: Sequence[ProgressReport]) -> list[bool]:
        """Keep the progress of running attempts; False where the fence is old."""
        ...
